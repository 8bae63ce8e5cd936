"""The configuration key of access rules."""

import msgspec


class HbacSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[hbac]"""

    enforce_grants: bool = False
    """Whether rules decide who may use which application with which scopes; else they decide about services that act for people alone."""
