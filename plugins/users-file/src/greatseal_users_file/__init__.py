"""users-file."""

from greatseal_users_file.plugin import Plugin

__all__ = ["Plugin"]
