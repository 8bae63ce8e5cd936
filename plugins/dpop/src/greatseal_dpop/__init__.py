"""Access and refresh tokens bound to a key of the client: DPoP (RFC 9449)."""

from greatseal_dpop.plugin import Plugin

__all__ = ["Plugin"]
