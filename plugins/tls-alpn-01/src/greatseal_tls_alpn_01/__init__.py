"""The tls-alpn-01 challenge (RFC 8737, RFC 8738)."""

from greatseal_tls_alpn_01.plugin import Plugin

__all__ = ["Plugin"]
