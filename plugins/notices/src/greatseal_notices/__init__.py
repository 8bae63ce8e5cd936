"""Notices to people about their account, by mail and by webhook."""

from greatseal_notices.plugin import Plugin

__all__ = ["Plugin"]
