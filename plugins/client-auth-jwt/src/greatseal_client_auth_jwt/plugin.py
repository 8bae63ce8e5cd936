"""client-auth-jwt."""


class Plugin:
    """client-auth-jwt."""
