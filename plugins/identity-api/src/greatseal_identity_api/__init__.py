"""Users and groups for machines: what SSSD's provider for external identity providers asks."""

from greatseal_identity_api.plugin import Plugin

__all__ = ["Plugin"]
