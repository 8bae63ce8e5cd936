"""DNS for every validator."""

from greatseal_resolver.plugin import Plugin

__all__ = ["Plugin"]
