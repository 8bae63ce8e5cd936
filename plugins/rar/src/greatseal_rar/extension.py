"""The parameter ``authorization_details``: refused where no type declares it, told to the person, carried as it was allowed."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from greatseal.api.authorization import Ask, Extension, Granting, Shown, Terms, Wish
from greatseal.api.clients import Client, InvalidClientMetadata, Registration
from greatseal.api.details import DetailType, InvalidAuthorizationDetails
from greatseal.host import Host
from greatseal_rar.matching import is_covered
from greatseal_rar.reading import read

MEMBER = "authorization_details"
TYPES = "authorization_details_types"


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for, one object at least, in its order."""

    details: tuple[Mapping[str, Any], ...]


class DetailFields(msgspec.Struct, frozen=True, kw_only=True):
    """The types that a client may use (RFC 9396 s10)."""

    authorization_details_types: tuple[str, ...] = ()


class RichAuthorization(Extension[Details]):
    """A client asks for details of the types that it is registered for; no token says more than a person allowed."""

    name = "rar"
    kept_as = Details
    order = 10
    fields = DetailFields
    claims = frozenset({MEMBER})

    def __init__(self, host: Host) -> None:
        self._host = host

    @cached_property
    def _types(self) -> Mapping[str, DetailType]:
        """By name; complete from the lifespans on."""
        return self._host.components(DetailType)

    def check(self, registration: Registration) -> None:
        for name in registration.client.more.get(TYPES, ()):
            if name not in self._types:
                raise InvalidClientMetadata(f"{TYPES}: one of them is not offered here; the metadata lists those that are (RFC 9396 s10)")
            if registration.open and self._types[name].for_itself(registration.client):
                raise InvalidClientMetadata(
                    f"{TYPES}: one of them may be had without a person, so only an administrator registers it (RFC 9396 s10)"
                )

    def concerns(self, ask: Ask) -> bool:
        return MEMBER in ask.given

    async def ask(self, ask: Ask) -> Wish[Details]:
        details = read(ask.given[MEMBER])
        for index, detail in enumerate(details):
            try:
                self._check(detail, ask.client)
            except InvalidAuthorizationDetails as problem:
                raise InvalidAuthorizationDetails(f"{MEMBER}[{index}]: {problem.detail}", cause=problem.cause) from None
        return Wish(kept=Details(details=details), scopeless=True)

    async def shown(self, kept: Details, subject: str) -> Sequence[Shown]:
        for detail in kept.details:
            if detail["type"] not in self._types:
                raise InvalidAuthorizationDetails("a type that was asked for is not offered any more (RFC 9396 s5)")
        shown = [await self._types[detail["type"]].shown(detail, subject) for detail in kept.details]
        # What may be done is said by each detail anew, so one that was allowed before says nothing about the next.
        return [msgspec.structs.replace(one, remember=None) for one in shown]

    def grant(self, kept: Details | None, asked: Details | None, terms: Terms, granting: Granting) -> Terms:
        if kept is None and asked is None and not granting.exchanged:
            return terms
        details = self._granted(kept, asked, granting)
        if not details:
            return terms
        said = {MEMBER: details}
        return msgspec.structs.replace(terms, claims={**terms.claims, **said}, members={**terms.members, **said})

    def _granted(self, kept: Details | None, asked: Details | None, granting: Granting) -> Sequence[Mapping[str, Any]]:
        """What the tokens say: what was asked for now where it is no more than what was authorized, else all of that."""
        if granting.basis == "client":
            return self._for_itself(asked.details if asked else (), granting.client)
        authorized = _of_token(granting.exchanged) if granting.basis == "exchange" else kept.details if kept else ()
        # A type, or the registration for it, may have been taken away since; of another issuer's token nothing was checked before.
        left = [detail for detail in authorized if self._passes(detail, granting.client)]
        if asked is None:
            if authorized and not left and granting.basis == "authorization":
                raise InvalidAuthorizationDetails("what was authorized is not offered to this client any more (RFC 9396 s10)")
            return left
        if not is_covered(asked.details, left, self._types):
            raise InvalidAuthorizationDetails(f"{MEMBER}: expected some of what was authorized, or less of it (RFC 9396 s6)")
        return asked.details

    def _for_itself(self, asked: Sequence[Mapping[str, Any]], client: Client) -> Sequence[Mapping[str, Any]]:
        if not all(self._types[detail["type"]].for_itself(client) for detail in asked):
            raise InvalidAuthorizationDetails(f"{MEMBER}: one of the types needs a person who allows it (RFC 9396 s5)")
        return asked

    def _passes(self, detail: Mapping[str, Any], client: Client) -> bool:
        try:
            self._check(detail, client)
        except InvalidAuthorizationDetails:
            return False
        return True

    def _check(self, detail: Mapping[str, Any], client: Client) -> None:
        name = detail.get("type")
        if not isinstance(name, str):
            raise InvalidAuthorizationDetails("type is required, and a text (RFC 9396 s2)")
        if name not in self._types:
            raise InvalidAuthorizationDetails("the type is not offered here (RFC 9396 s5)")
        if name not in client.more.get(TYPES, ()):
            raise InvalidAuthorizationDetails(f"the type is not among the {TYPES} of this client (RFC 9396 s10)")
        self._types[name].check(detail, client)


def _of_token(claims: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The details of a token that is exchanged. Another issuer's may hold anything."""
    found = claims.get(MEMBER)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
