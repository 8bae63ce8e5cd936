"""OAuth clients that prove themselves by a certificate, and tokens that are bound to it (RFC 8705)."""

from greatseal_client_auth_mtls.plugin import Plugin

__all__ = ["Plugin"]
