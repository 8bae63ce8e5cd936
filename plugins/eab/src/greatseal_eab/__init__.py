"""External account binding (RFC 8555 s7.3.4)."""

from greatseal_eab.plugin import Plugin

__all__ = ["Plugin"]
