"""Codes that are bound to a key from the authorization request on (RFC 9449 s10)."""

import re

import msgspec

from greatseal.api.authorization import Ask, Extension, Granting, Terms, Wish
from greatseal.api.problems import BadRequest
from greatseal.api.tokens import InvalidGrant
from greatseal_dpop.binding import InvalidDpopProof

_THUMBPRINT = re.compile(r"[A-Za-z0-9_-]{43}")  # base64url of SHA-256 (RFC 7638)


class BoundCode(msgspec.Struct, frozen=True, kw_only=True):
    """The key that has to redeem the code."""

    jkt: str


class BoundCodes(Extension[BoundCode]):
    """The parameter ``dpop_jkt`` of an authorization request, or the proof beside one that is pushed."""

    name = "dpop"
    kept_as = BoundCode

    def concerns(self, ask: Ask) -> bool:
        return ask.at in {"authorize", "par"}

    async def ask(self, ask: Ask) -> Wish[BoundCode] | None:
        named, proven = ask.given.get("dpop_jkt"), ask.proven.get("jkt")
        if named is not None and not _THUMBPRINT.fullmatch(named):
            raise BadRequest("dpop_jkt: expected the SHA-256 thumbprint of a key in base64url (RFC 9449 s10)")
        if named is not None and proven is not None and named != proven:
            raise InvalidDpopProof("dpop_jkt is not the thumbprint of the key of the proof (RFC 9449 s10.1)")
        jkt = named or proven
        return None if jkt is None else Wish(kept=BoundCode(jkt=jkt))

    def grant(self, kept: BoundCode | None, asked: BoundCode | None, terms: Terms, granting: Granting) -> Terms:  # noqa: ARG002  # the contract
        # Which key a refresh must prove, the family says (RFC 9449 s5).
        if kept is not None and granting.grant_type == "authorization_code" and granting.proven.get("jkt") != kept.jkt:
            raise InvalidGrant("the code is bound to a key that was not proven (RFC 9449 s10)")
        return terms
