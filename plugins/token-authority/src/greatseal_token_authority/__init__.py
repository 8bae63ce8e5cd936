"""Authority tokens (RFC 9447) for whoever holds a Kerberos ticket."""

from greatseal_token_authority.plugin import Plugin

__all__ = ["Plugin"]
