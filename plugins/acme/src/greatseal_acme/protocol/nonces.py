"""Anti-replay nonces without a database (RFC 8555 s6.5).

A nonce is maker, counter, time and a short keyed hash under a key that lives as long as the process. What was used is one bit for each
counter of a sliding window, so memory never grows: of more nonces than the window the oldest are refused. Only its maker can read it: of
several nodes the others ask that one.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
from collections.abc import Sequence

import msgspec

from greatseal.api.problems import Unavailable
from greatseal.api.store import Tx, operation
from greatseal.host import Clock, Host

WINDOW = 1 << 20
"""Nonces that can be outstanding at once; 128 KiB of bits."""
MAX_AGE = 24 * 3600
"""Seconds for which a nonce is good."""

_HEAD = struct.Struct(">4sQI")
_MARK_BYTES = 4
_MAC_BYTES = 14
_TEXT_LENGTH = (_HEAD.size + _MAC_BYTES) // 3 * 4  # a multiple of three bytes: base64 without spare bits


class Nonces:
    """The nonces of one process. ``maker`` is its label: those of another are never accepted."""

    def __init__(self, maker: str, clock: Clock, *, window: int = WINDOW, max_age: int = MAX_AGE) -> None:
        self._maker = _mark(maker)
        self._clock = clock
        self._window = window
        self._max_age = max_age
        self.renew()

    def renew(self) -> None:
        """Begin anew under another key. A forked process must, or its nonces would be those of its parent's other children."""
        self._key = secrets.token_bytes(32)
        self._next = 0
        self._used = bytearray((self._window + 7) // 8)

    def issue(self) -> str:
        """A fresh nonce."""
        counter = self._next
        self._next += 1
        slot = counter % self._window
        self._used[slot >> 3] &= ~(1 << (slot & 7)) & 0xFF
        head = _HEAD.pack(self._maker, counter, self._seconds())
        return base64.urlsafe_b64encode(head + self._mac(head)).decode()

    def read(self, nonce: str) -> int | None:
        """The counter of a nonce that is ours, fresh and not used; None otherwise. Uses nothing up."""
        raw = _raw(nonce)
        if raw is None or not hmac.compare_digest(raw[_HEAD.size :], self._mac(raw[: _HEAD.size])):
            return None
        maker, counter, made = _HEAD.unpack_from(raw)
        if maker != self._maker or not self._is_open(counter) or not 0 <= self._seconds() - made <= self._max_age:
            return None
        return int(counter)

    def strike(self, counter: int) -> bool:
        """Use up the nonce of ``counter``; False when it was used meanwhile or fell out of the window."""
        if not self._is_open(counter):
            return False
        slot = counter % self._window
        self._used[slot >> 3] |= 1 << (slot & 7)
        return True

    def maker_among(self, labels: Sequence[str], nonce: str) -> str | None:
        """Which of ``labels`` it says that it is from, if any; whether that is true, only that maker knows."""
        raw = _raw(nonce)
        mark = raw[:_MARK_BYTES] if raw is not None else b""
        return next((label for label in labels if _mark(label) == mark), None)

    def _is_open(self, counter: int) -> bool:
        slot = counter % self._window
        return self._next - self._window <= counter < self._next and not self._used[slot >> 3] >> (slot & 7) & 1

    def _mac(self, head: bytes) -> bytes:
        # OpenSSL's HMAC gives the interpreter's lock away, which costs more than the hash; BLAKE2 has a key of its own (RFC 7693).
        return hashlib.blake2b(head, key=self._key, digest_size=_MAC_BYTES).digest()

    def _seconds(self) -> int:
        return int(self._clock.monotonic())


class Presented(msgspec.Struct, frozen=True):
    """A nonce that a request has, of another node by what it says."""

    nonce: str
    maker: str


class Struck(msgspec.Struct, frozen=True):
    """Whether it was good, and is used up now."""

    good: bool


class NoncesElsewhere:
    """Nonces that came from one node and are used at another: their maker uses them up."""

    def __init__(self, host: Host, nonces: Nonces) -> None:
        self._db = host.db
        self._nonces = nonces
        self._others = [label for label in host.handles.members if label != host.node_id]
        self.use_up = operation("acme.nonce.use_up", _maker_of)(self._use_up)

    def read(self, nonce: str) -> Presented | None:
        """The nonce, when it says that it is of another node."""
        maker = self._nonces.maker_among(self._others, nonce) if self._others else None
        return None if maker is None else Presented(nonce, maker)

    async def strike(self, presented: Presented) -> bool:
        """Use it up; False also when its maker cannot be asked: the client takes the nonce of the answer and tries again (s6.5)."""
        try:
            return (await self._db.write(self.use_up, presented)).good
        except Unavailable:
            return False

    def _use_up(self, _tx: Tx, presented: Presented) -> Struck:
        """No rows, and memory is not undone: run twice, it says that the nonce was used, which is safe."""
        counter = self._nonces.read(presented.nonce)
        return Struck(counter is not None and self._nonces.strike(counter))


def _maker_of(presented: Presented) -> str:
    return presented.maker


def _mark(maker: str) -> bytes:
    return hashlib.sha256(maker.encode()).digest()[:_MARK_BYTES]


def _raw(nonce: str) -> bytes | None:
    # The decoder takes the other alphabet as well.
    if len(nonce) != _TEXT_LENGTH or not nonce.isascii() or "+" in nonce or "/" in nonce:
        return None
    try:
        raw = base64.b64decode(nonce, b"-_", validate=True)
    except binascii.Error:
        return None
    return raw if len(raw) == _HEAD.size + _MAC_BYTES else None
