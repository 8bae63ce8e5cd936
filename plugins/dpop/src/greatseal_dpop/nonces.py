"""The nonce of the server (RFC 9449 s8, s9): sealed, so that every node reads those of the others, and no row is kept."""

import secrets

import msgspec

from greatseal.api.moments import SECOND
from greatseal.host import Host

KIND = "dpn"
LIFE = 300
"""Seconds for which a nonce is good."""
FRESH = 60 * SECOND
"""For how long one is handed out."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Who made a nonce: the node, and which of its starts."""

    node: str
    boot: str


class Nonces:
    """What this service asks proofs to hold."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._made = Made(node=host.node_id, boot=secrets.token_urlsafe(8))
        self._current = ""
        self._since = 0

    async def current(self) -> str:
        """The one to send: the same for a minute, since clients keep it until they see another."""
        now = self._host.clock.now()
        if not (self._current and 0 <= now - self._since < FRESH):
            self._current, self._since = await self._host.envelopes.seal(KIND, self._made, seconds=LIFE), now
        return self._current

    async def is_good(self, nonce: object) -> bool:
        """Whether a node made it a short while ago, this one since its start: which proofs it saw before, it has forgotten."""
        if not isinstance(nonce, str):
            return False
        made = await self._host.envelopes.open(KIND, nonce, Made)
        return made is not None and (made.node != self._made.node or made.boot == self._made.boot)
