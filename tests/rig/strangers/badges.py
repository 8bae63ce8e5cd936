"""A stranger's token binding in one file: a badge, which is a secret that the client shows in a header."""

from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest

import msgspec

from greatseal import hookimpl
from greatseal.api.clients import Client, Proof, ProvenRequest
from greatseal.api.http import Call
from greatseal.api.identity import Headers
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.tokens import AccessToken, InvalidToken, TokenBinding

HEADER = "Badge"


class BadgeFields(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a client."""

    badge_bound_access_tokens: bool = False


class Badges(TokenBinding):
    """The member ``badge#S256``: the digest of the badge."""

    confirmation = "badge#S256"
    scheme = "Badge"
    fields = BadgeFields

    async def prove(self, request: ProvenRequest) -> Proof | None:
        badge = badge_of(request.call)
        return None if badge is None else Proof(confirmation=self.confirmation, value=digest_of(badge), refresh=True)

    def missing(self, client: Client) -> Problem | None:
        asks = client.more.get("badge_bound_access_tokens") is True
        return BadRequest("this client gets no tokens without its badge; send the header Badge") if asks else None

    async def check(self, call: Call, text: str, token: AccessToken, value: str) -> Headers:
        try:
            badge = badge_of(call)
        except BadRequest as problem:
            raise InvalidToken(problem.detail, scheme=self.scheme) from None
        if badge is None or not compare_digest(digest_of(badge), value):
            raise InvalidToken("the token goes with another badge; send it in the header Badge", scheme=self.scheme)
        return ()


def badge_of(call: Call) -> str | None:
    """What the request shows."""
    shown = call.header_values(HEADER)
    if not shown:
        return None
    if len(shown) > 1 or not shown[0].isalnum():
        raise BadRequest("the header Badge has letters and digits, and is sent once")
    return shown[0]


def digest_of(badge: str) -> str:
    return sha256(badge.encode()).hexdigest()


class Plugin:
    """Tokens for who wears a badge."""

    @hookimpl
    def token_bindings(self) -> Sequence[TokenBinding]:
        return [Badges()]
