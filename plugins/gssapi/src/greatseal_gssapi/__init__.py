"""Kerberos tickets by the GSSAPI of the system."""

from greatseal_gssapi.plugin import Plugin

__all__ = ["Plugin"]
