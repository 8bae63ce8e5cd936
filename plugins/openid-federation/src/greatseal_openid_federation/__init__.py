"""OpenID Federation 1.0: what this service says of itself, and clients for whom a trust chain vouches."""

from greatseal_openid_federation.plugin import Plugin

__all__ = ["Plugin"]
