"""Which passwords people of the file may choose (NIST SP 800-63B s5.1.1.2): long, and none that an attacker tries first.

``common.bin`` holds the 30,000 passwords that were found most often in breaches, each as the first five bytes of its SHA-256, sorted:
nobody can read them there, and one that is not among them is taken for one of them once in 36 million. They are the list "passwords" of
zxcvbn 4.5.0 (MIT; Copyright 2016 Daniel Wolf, and 2012 Dan Wheeler and Dropbox, Inc.).
"""

from bisect import bisect_left
from functools import cache
from hashlib import sha256
from importlib import resources

from greatseal.api.messages import Message

SAME = Message("it is the one of now")
"""The objection to a password that is not new."""
SHORTEST = 12
"""Characters."""
LONGEST = 1024
FEWEST = 5
"""Different characters."""
SIZE = 5
"""Bytes of an entry."""
NAMED = 4
"""Characters of a user name that a password may not hold."""
ROWS = ("abcdefghijklmnopqrstuvwxyz", "0123456789", "qwertyuiopasdfghjklzxcvbnm", "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik")
"""What fingers and minds run along."""
_SPELT = str.maketrans("013457@$!", "oieastasi")
"""How digits and signs stand for letters."""


def objections(password: str, username: str) -> tuple[Message, ...]:
    """Why the password may not be chosen, each as the rest of a sentence about it; nothing when it may."""
    found = []
    if len(password) < SHORTEST:
        found.append(
            Message(
                "it has %(count)d of at least %(shortest)d characters (several words are easier to remember than signs)",
                {"count": len(password), "shortest": SHORTEST},
            )
        )
    if len(password) > LONGEST:
        found.append(Message("it has more than %(longest)d characters", {"longest": LONGEST}))
    if len(password) >= SHORTEST and (len(set(password)) < FEWEST or _repeats("".join(password.casefold().split()))):
        found.append(Message("it repeats itself"))
    elif is_common(password):
        found.append(Message("it is among the passwords that are tried first: one that was stolen elsewhere, or one with digits around it"))
    if len(username) >= NAMED and username.casefold() in password.casefold():
        found.append(Message("it holds the user name"))
    return tuple(found)


def is_common(password: str) -> bool:
    """Whether it is a common one, in any case, with letters spelt as digits, between digits and signs, or a run along the keys."""
    lower = password.casefold()
    forms = {form for one in (lower, lower.translate(_SPELT)) for form in (one, _bare(one))}
    forms |= {_bare(lower).translate(_SPELT)}
    return any(form in _common() or _runs(form) for form in forms if form) or _runs(lower)


def _bare(text: str) -> str:
    """Without what is no letter at both ends."""
    first = next((at for at, one in enumerate(text) if one.isalpha()), len(text))
    last = next((at for at in range(len(text), first, -1) if text[at - 1].isalpha()), first)
    return text[first:last]


def _runs(text: str) -> bool:
    """Whether it is a piece of a row, either way, round and round."""
    return len(text) >= SHORTEST // 2 and any(text in whole * 3 or text[::-1] in whole * 3 for whole in ROWS)


def _repeats(text: str) -> bool:
    """Whether it is one short piece several times."""
    return text in (text + text)[1:-1]


class _Common:
    """The list. It is read when the first password is looked up."""

    def __init__(self, entries: bytes) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries) // SIZE

    def __getitem__(self, number: int) -> bytes:
        return self._entries[number * SIZE : (number + 1) * SIZE]

    def __contains__(self, text: str) -> bool:
        wanted = sha256(text.encode("utf-8", "replace")).digest()[:SIZE]
        place = bisect_left(self, wanted)
        return place < len(self) and self[place] == wanted


@cache
def _common() -> _Common:
    return _Common(resources.files("greatseal_users_file").joinpath("common.bin").read_bytes())
