"""Sign-in by Kerberos ticket in the browser."""

from greatseal_spnego.plugin import Plugin

__all__ = ["Plugin"]
