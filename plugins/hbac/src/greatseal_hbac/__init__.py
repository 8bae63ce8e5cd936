"""Access rules of the identity provider (HBAC)."""

from greatseal_hbac.plugin import Plugin

__all__ = ["Plugin"]
