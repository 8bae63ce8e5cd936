"""Services that call services: one token for another (RFC 8693)."""

from greatseal_token_exchange.plugin import Plugin

__all__ = ["Plugin"]
