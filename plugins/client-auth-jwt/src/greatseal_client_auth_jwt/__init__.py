"""client-auth-jwt."""

from greatseal_client_auth_jwt.plugin import Plugin

__all__ = ["Plugin"]
