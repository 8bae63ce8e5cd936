"""The configuration keys of the CAA check."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from greatseal_caa.values import DOMAIN, canonical

Id = Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9_-]{0,63}$")]


class CaaServer(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: the names that this CA has in CAA records."""

    caa_identities: tuple[str, ...] = ()
    """Domain names by which CAA records allow this CA to issue, for every CA that has none of its own; empty: CAA is not asked."""
    onion_caa_required: bool = True
    """Whether clients must bring the signed CAA records of an onion service when they finalize (RFC 9799 s6.4.1), where the CA has names.
    With false they may, and without them nothing is known of the CAA of the service."""

    def __post_init__(self) -> None:
        _check(self.caa_identities)


class CaaOfCa(msgspec.Struct, frozen=True, kw_only=True):
    """[ca]: the names that one of several CAs has in CAA records."""

    caa_identities: tuple[str, ...] | None = None
    """Domain names by which CAA records allow this CA to issue; those of `[server]` when left out or empty."""

    def __post_init__(self) -> None:
        _check(self.caa_identities or ())


class CaId(msgspec.Struct, frozen=True, kw_only=True):
    """[ca], read: which CA the names belong to."""

    id: Id = "default"


def identities(server: CaaServer, own: Sequence[CaaOfCa], ids: Sequence[CaId]) -> Mapping[str, tuple[str, ...]]:
    """The names of each CA, in canonical form, in their order."""
    of_server = server.caa_identities
    return {ca.id: tuple(map(canonical, one.caa_identities or of_server)) for ca, one in zip(ids, own, strict=True)}


def _check(names: Sequence[str]) -> None:
    for name in names:
        if len(name) > 254 or not re.fullmatch(DOMAIN, name):
            raise ValueError(
                f"caa_identities: {name!r} is no domain name; write one as it stands in CAA records, for example ca.example.org"
            )
