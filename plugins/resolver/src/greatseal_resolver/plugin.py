"""DNS for every validator."""


class Plugin:
    """DNS for every validator."""
