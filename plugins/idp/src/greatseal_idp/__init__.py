"""The identity provider."""

from greatseal_idp.plugin import Plugin

__all__ = ["Plugin"]
