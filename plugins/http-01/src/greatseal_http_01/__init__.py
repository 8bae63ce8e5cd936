"""The http-01 challenge (RFC 8555 s8.3)."""

from greatseal_http_01.plugin import Plugin

__all__ = ["Plugin"]
