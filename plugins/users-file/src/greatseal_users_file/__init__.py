"""People and groups from a TOML file, for small organisations, first starts and emergencies."""

from greatseal_users_file.plugin import Plugin

__all__ = ["Plugin"]
