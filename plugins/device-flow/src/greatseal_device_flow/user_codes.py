"""User codes (RFC 8628 s6.1): eight letters without vowels, so that no words come of them, shown in two groups."""

import secrets
from hashlib import sha256

LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
LENGTH = 8
"""20 to the 8th: 34 bits, which last for minutes and are guessed at five times a session."""
LONGEST = 64
"""Characters of what somebody typed that are looked at."""


def make() -> str:
    """A new one, as it is shown."""
    return shown("".join(secrets.choice(LETTERS) for _ in range(LENGTH)))


def shown(letters: str) -> str:
    """In two groups."""
    return f"{letters[: LENGTH // 2]}-{letters[LENGTH // 2 :]}"


def read(typed: str) -> str | None:
    """The code as it is shown, of whatever somebody typed: letters count, in any case. None for what is no code."""
    if len(typed) > LONGEST:
        return None
    letters = "".join(letter for letter in typed.upper() if letter.isalpha())
    return shown(letters) if len(letters) == LENGTH and set(letters) <= set(LETTERS) else None


def digest_of(code: str) -> bytes:
    """What is stored of a code as it is shown."""
    return sha256(code.encode()).digest()
