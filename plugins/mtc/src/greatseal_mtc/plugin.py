"""The hooks of the log."""


class Plugin:
    """A log of what each CA issues."""
