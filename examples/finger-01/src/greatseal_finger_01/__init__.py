"""finger-01."""


class Plugin:
    """finger-01."""
