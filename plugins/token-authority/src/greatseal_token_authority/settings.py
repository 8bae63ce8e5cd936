"""What the token authority reads of [tokens]."""

from typing import Annotated

import msgspec

Seconds = Annotated[int, msgspec.Meta(ge=1, le=315_360_000)]


class AuthorityTokens(msgspec.Struct, frozen=True, kw_only=True):
    """[tokens]: lifetimes in seconds."""

    access_token_ttl: Seconds = 900
    """Seconds that an access token lives."""


class AttemptLimit(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: the limit of sign-ins, by which tickets are limited here too."""

    auth_rate_limit: Annotated[int, msgspec.Meta(ge=0)] = 30
    """Sign-in attempts from one address in 300 s; 0 switches the limits off."""
