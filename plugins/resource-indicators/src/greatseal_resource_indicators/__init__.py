"""Access tokens for the resources that a client names (RFC 8707)."""

from greatseal_resource_indicators.plugin import Plugin

__all__ = ["Plugin"]
