"""Signed authorization responses (JARM): code, error and state as a JWT for one client."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

from greatseal.api.authorization import Answer, Extension, ResponseMode
from greatseal.api.moments import SECOND
from greatseal.api.tokens import Tokens
from greatseal.host import Clock

LIFETIME = 600
"""Seconds: the most that JARM s2.1 recommends."""
SIGNING_ALGORITHMS = ("ES256", "RS256")


class AnswerFields(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a client."""

    authorization_signed_response_alg: Literal["ES256", "RS256"] | None = None
    """The algorithm of signed responses, the default one of this service for None (JARM s3)."""


class SignedAnswers(Extension[msgspec.Struct]):
    """Every client may ask for them by ``response_mode``."""

    name = "jarm"
    fields = AnswerFields
    response_modes: ClassVar[Mapping[str, ResponseMode]] = {
        "jwt": "query",
        "query.jwt": "query",
        "fragment.jwt": "fragment",
        "form_post.jwt": "form_post",
    }

    def __init__(self, clock: Clock, tokens: Tokens) -> None:
        self._clock = clock
        self._tokens = tokens

    async def answer(self, answer: Answer) -> Mapping[str, str]:
        client = answer.client
        claims = {**answer.members, "aud": client.client_id, "exp": self._clock.now() // SECOND + LIFETIME}
        alg = client.more.get("authorization_signed_response_alg")
        return {"response": await self._tokens.sign("JWT", claims, alg=alg)}
