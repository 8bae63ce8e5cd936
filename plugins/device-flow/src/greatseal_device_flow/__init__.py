"""The device authorization grant (RFC 8628)."""

from greatseal_device_flow.plugin import Plugin

__all__ = ["Plugin"]
