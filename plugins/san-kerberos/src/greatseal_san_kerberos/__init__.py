"""Kerberos names in certificates (RFC 4556 s3.2.2)."""

from greatseal_san_kerberos.plugin import Plugin

__all__ = ["Plugin"]
