"""Challenges that leave no row: a challenge is what it is good for, sealed (WebAuthn s13.4.3). Their single use is a strike."""

from hashlib import sha256
from typing import Literal

import msgspec

from greatseal.api.http import Call, Owner
from greatseal.api.moments import SECOND
from greatseal.api.problems import Problem
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.compact import b64url_encode
from greatseal_passkey.ceremony import Authentication, Registration, Unproven, challenge_of

SECONDS = 300
KIND = "pk"
"""The kind of the envelopes."""
STRIKE = "passkey"


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """What it is good for.

    To sign in: ``person`` is the digest of the subject whose name was typed, of nothing for a name that nobody has, None when none was
    typed. To register: the person, their session, and the user handle that the new passkey has. ``expires_at`` is microseconds.
    """

    purpose: Literal["get", "create"]
    expires_at: int
    person: bytes | None = None
    session_id: str | None = None
    user_handle: bytes | None = None

    def is_of(self, subject: str) -> bool:
        """Whether it was made for that person."""
        return self.person == _digest(subject)


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge as it came back: ``text`` is what the browser signed."""

    text: bytes
    challenge: Challenge


class Challenges:
    """Makes them, reads them, and has each used once."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def make(
        self,
        purpose: Literal["get", "create"],
        *,
        subject: str | None = None,
        session_id: str | None = None,
        user_handle: bytes | None = None,
    ) -> dict[str, str]:
        """The members ``challenge_id`` and ``challenge`` of an answer. An empty ``subject`` is nobody."""
        challenge = Challenge(
            purpose=purpose,
            expires_at=self._host.clock.now() + SECONDS * SECOND,
            person=None if subject is None else _digest(subject),  # as long for everybody: a challenge shows how long it is
            session_id=session_id,
            user_handle=user_handle,
        )
        text = (await self._host.envelopes.seal(KIND, challenge, seconds=SECONDS)).encode()
        return {"challenge_id": _id(text), "challenge": b64url_encode(text)}

    async def read(self, given: Authentication | Registration, purpose: Literal["get", "create"]) -> Given:
        """The challenge that was answered. Raises Unproven for one that is too old, of another purpose, or not ours."""
        text = challenge_of(given.response.client_data)
        challenge = await self._host.envelopes.open(KIND, text.decode("ascii", "replace"), Challenge)
        if challenge is None:
            raise Unproven("the challenge is too old or not ours")
        if challenge.purpose != purpose:
            raise Unproven("the challenge is for another purpose")
        if given.challenge_id is not None and given.challenge_id != _id(text):
            raise Unproven("the challenge is another one than that of challenge_id")
        return Given(text=text, challenge=challenge)

    def use(self, tx: Tx, given: Given) -> bool:
        """Use it up, in the transaction of what it is for; False when it was used before."""
        return self._host.strikes.take_within(tx, STRIKE, _id(given.text), given.challenge.expires_at)


def owner_of_challenge(host: Host, kind: type[Authentication | Registration]) -> Owner:
    """Which node decides whether a challenge was used: the one that its strike names."""

    async def owner(call: Call) -> str | None:
        try:
            text = challenge_of((await call.body(kind)).response.client_data)
        except (Problem, Unproven):
            return None
        return host.handles.owner_of_key(f"{STRIKE}:{_id(text)}")

    return owner


def _id(text: bytes) -> str:
    return b64url_encode(sha256(text).digest())


def _digest(subject: str) -> bytes:
    return sha256(subject.encode()).digest()
