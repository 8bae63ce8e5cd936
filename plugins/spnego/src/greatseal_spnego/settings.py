"""The section [spnego]."""

from typing import Annotated

import msgspec

Realm = Annotated[str, msgspec.Meta(pattern=r"^[^@/\\\s]+$", max_length=255)]


class SpnegoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[spnego]: who signs in by ticket, and when browsers are asked for one."""

    challenge: bool = False
    """Whether the sign-in page asks every browser for a ticket; left out, only after a press of its Kerberos button."""
    realms: tuple[Realm, ...] = ()
    """Further realms whose tickets sign people in, besides that of the service; their KDCs are trusted to name anybody of theirs."""
