"""Which step or counter a code belongs to (RFC 4226, RFC 6238), and the URI by which an app learns a key. No state: a store has it."""

import hashlib
import hmac
from base64 import b32encode
from collections.abc import Iterator
from urllib.parse import quote

from pyotp import HOTP

from greatseal.api.moments import SECOND
from greatseal.api.otp import NewToken, TokenKey

LOOK_AHEAD = 10
"""Codes of a HOTP token that may have been skipped, as in FreeIPA."""
SHORTEST = 14
"""Bytes of a key (RFC 4226 s4 R6 asks for 16, pyotp for 14): with a shorter one no code is good."""


def matching(key: TokenKey, code: str, now: int) -> int | None:
    """The step or counter that gives the code, None for a code that is not good now or was taken before. ``now`` is microseconds.

    TOTP takes the code of this step, the one before and the one after (RFC 6238 s5.2).
    """
    if not (code.isascii() and code.isdigit()) or len(key.key) < SHORTEST:
        return None
    counted = HOTP(_base32(key.key), digits=key.digits, digest=getattr(hashlib, key.algorithm))
    for count in _candidates(key, now):
        if (key.used is None or count > key.used) and hmac.compare_digest(counted.at(count), code):
            return count
    return None


def _candidates(key: TokenKey, now: int) -> Iterator[int]:
    if key.type == "hotp":
        first = key.counter if key.used is None else max(key.counter, key.used + 1)
        yield from range(first, first + LOOK_AHEAD)
        return
    step = (now // SECOND + key.offset) // key.period
    yield from (one for one in (step, step - 1, step + 1) if one >= 0)


def otpauth_uri(new: NewToken, *, issuer: str, username: str) -> str:
    """What the QR code holds. A colon parts the two names, so neither has one; apps show both."""
    issuer, username = (quote(name.replace(":", " "), safe="") for name in (issuer, username))
    counted = f"algorithm={new.algorithm.upper()}&digits={new.digits}&period={new.period}"
    return f"otpauth://totp/{issuer}:{username}?secret={_base32(new.key)}&issuer={issuer}&{counted}"


def spelt(key: bytes) -> str:
    """The key as a person types it into an app: base32 in groups of four."""
    text = _base32(key)
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def _base32(key: bytes) -> str:
    return b32encode(key).decode().rstrip("=")
