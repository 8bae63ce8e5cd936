"""OAuth clients that prove themselves by a Kerberos ticket (RFC 4559)."""

from greatseal_client_auth_kerberos.plugin import Plugin

__all__ = ["Plugin"]
