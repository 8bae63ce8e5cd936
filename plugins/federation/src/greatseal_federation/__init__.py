"""Sign-in through other OpenID providers."""

from greatseal_federation.plugin import Plugin

__all__ = ["Plugin"]
