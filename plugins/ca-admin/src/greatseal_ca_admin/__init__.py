"""Operators of the certificate authority: sign-in, roles, the admin API on its own listener."""

from greatseal_ca_admin.plugin import Plugin

__all__ = ["Plugin"]
