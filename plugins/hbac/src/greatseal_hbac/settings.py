"""The configuration key of access rules."""

from typing import Annotated

import msgspec


class HbacSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[hbac]"""

    enforce_grants: bool = False
    """Whether rules decide who may use which application with which scopes; else they decide about services that act for people alone."""
    refresh_secs: Annotated[int, msgspec.Meta(ge=1, le=3600)] = 60
    """Seconds after which rules of other sources, such as those of FreeIPA, are read again."""
    max_age_secs: Annotated[int, msgspec.Meta(ge=60, le=86_400)] = 900
    """Seconds for which rules of another source count that cannot be read again; older ones allow nothing."""
