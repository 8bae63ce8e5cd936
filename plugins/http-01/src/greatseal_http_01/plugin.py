"""The http-01 challenge (RFC 8555 s8.3)."""


class Plugin:
    """The http-01 challenge (RFC 8555 s8.3)."""
