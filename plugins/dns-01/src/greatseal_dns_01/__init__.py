"""The dns-01 challenge (RFC 8555 s8.4)."""

from greatseal_dns_01.plugin import Plugin

__all__ = ["Plugin"]
