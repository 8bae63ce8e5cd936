"""users-file."""


class Plugin:
    """users-file."""
