"""OAuth clients that nobody registered by hand: they do it themselves, or their id is the URL of what they say of themselves."""

from greatseal_registration.plugin import Plugin

__all__ = ["Plugin"]
