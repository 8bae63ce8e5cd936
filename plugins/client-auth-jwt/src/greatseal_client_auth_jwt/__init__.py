"""OAuth clients that prove themselves by a signed assertion (RFC 7523): private_key_jwt and client_secret_jwt."""

from greatseal_client_auth_jwt.plugin import Plugin

__all__ = ["Plugin"]
