"""Rich authorization requests (RFC 9396)."""

from greatseal_rar.plugin import Plugin

__all__ = ["Plugin"]
