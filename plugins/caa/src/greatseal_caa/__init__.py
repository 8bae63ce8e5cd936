"""CAA records are asked before a certificate is issued (RFC 8659, RFC 8657)."""

from greatseal_caa.plugin import Plugin

__all__ = ["Plugin"]
