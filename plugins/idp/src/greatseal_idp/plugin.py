"""The identity provider."""


class Plugin:
    """The identity provider."""
