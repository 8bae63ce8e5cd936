"""The parameter ``resource``: what was authorized bounds what a token request may name (RFC 8707 s2)."""

import re

import msgspec

from greatseal.api.authorization import Ask, Extension, Granting, Terms, Wish
from greatseal.api.clients import Client, InvalidClientMetadata, Registration
from greatseal.api.tokens import InvalidTarget

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!\"$-~]+")  # RFC 3986 s4.3, in printable ASCII without #


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What a request names, one at least, in its order."""

    uris: tuple[str, ...]


class ResourceIndicators(Extension[Resources]):
    """A client may name the resources that it is registered with (``resources``), and this issuer.

    The issuer is what every token is for that names no resource, so that naming it asks for nothing more.
    """

    name = "resource-indicators"
    kept_as = Resources
    repeatable = frozenset({"resource"})

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer

    def check(self, registration: Registration) -> None:
        if not all(map(_ABSOLUTE.fullmatch, registration.client.more.get("resources", ()))):
            raise InvalidClientMetadata("resources: expected absolute URIs without a fragment (RFC 8707 s2)")

    def concerns(self, ask: Ask) -> bool:
        return bool(ask.given.all("resource"))

    async def ask(self, ask: Ask) -> Wish[Resources]:
        named = tuple(dict.fromkeys(ask.given.all("resource")))
        if not all(map(_ABSOLUTE.fullmatch, named)):
            raise InvalidTarget("resource: expected an absolute URI without a fragment (RFC 8707 s2)")
        if not self._offered(ask.client).issuperset(named):
            raise InvalidTarget("resource: one of them is not registered for this client (RFC 8707 s2)")
        return Wish(kept=Resources(uris=named))

    def grant(self, kept: Resources | None, asked: Resources | None, terms: Terms, granting: Granting) -> Terms:
        meant = asked or kept
        if meant is None:
            return terms
        if granting.basis == "authorization" and not set(meant.uris) <= set(kept.uris if kept else ()):
            raise InvalidTarget("resource: expected some of those that the authorization request named (RFC 8707 s2.2)")
        offered = self._offered(granting.client)
        left = [uri for uri in meant.uris if uri in offered]
        if not left:
            raise InvalidTarget("the resources that were authorized are not registered for this client any more (RFC 8707 s2)")
        return msgspec.structs.replace(terms, audiences=tuple(dict.fromkeys((*terms.audiences, *left))))

    def _offered(self, client: Client) -> frozenset[str]:
        return frozenset((self._issuer, *client.more.get("resources", ())))
