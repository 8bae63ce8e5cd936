"""Kerberos principals as text (RFC 1964 s2.1.1, as MIT's ``krb5_unparse_name`` writes them), and patterns of them."""

import re
from collections.abc import Iterator

import msgspec

__all__ = ["LONGEST", "Pattern", "Principal", "parse", "principal_of"]

LONGEST = 1024
MOST_WILDCARDS = 3
_ESCAPED = frozenset("/@\\")
_RUN = r"(?:[^@\\]|\\\\)*"
"""What a wildcard stands for."""
_TOKEN = re.compile(r"\\(?P<escaped>.?)|(?P<mark>[/@])|(?P<plain>[^\\/@]+)", re.DOTALL)


class Principal(msgspec.Struct, frozen=True):
    """A principal with its realm. Components and realm are as they are meant, without escapes, and compared exactly."""

    components: tuple[str, ...]
    realm: str

    @property
    def is_service(self) -> bool:
        """Whether it names a service or a host, and not a person: it has more than one component."""
        return len(self.components) > 1

    @property
    def is_anonymous(self) -> bool:
        """Whether it names nobody: names and realms that begin with WELLKNOWN are reserved (RFC 6111), and an anonymous ticket has one."""
        return self.components[0] == "WELLKNOWN" or self.realm.startswith("WELLKNOWN:")

    @property
    def host(self) -> str | None:
        """The host of a service principal, its ASCII letters in lower case: its second component. None for that of a person.

        Other letters stay: the lower case of a Kelvin sign is the k of another host.
        """
        return _lower(self.components[1]) if self.is_service else None


def parse(text: str) -> Principal:
    r"""Read ``component/component@REALM``; ``\/``, ``\@`` and ``\\`` are the characters themselves, the last bare ``@`` begins the realm.

    Raises ValueError with the reason, worded to follow "the principal".
    """
    _check(text)
    pieces = list(_pieces(text))
    realms = [place for place, (piece, is_mark) in enumerate(pieces) if is_mark and piece == "@"]
    if not realms:
        raise ValueError("has no @ and realm")
    name, realm = pieces[: realms[-1]], pieces[realms[-1] + 1 :]
    found = Principal(tuple(_components(name)), "".join(piece for piece, _ in realm))
    if not all(found.components):
        raise ValueError("has an empty component")
    if not found.realm:
        raise ValueError("has an empty realm")
    return found


def principal_of(text: str) -> Principal | None:
    """The same for whoever only asks: None for what is no principal."""
    try:
        return parse(text)
    except ValueError:
        return None


class Pattern:
    r"""Principals by a glob: each of at most three ``*`` stands for any run of characters but ``@``, also for none and over ``/``.

    It is matched against the text of a principal as a whole, case and escapes included. No wildcard spans ``\@`` or ``\/``: a person whose
    name holds a slash is no service.
    """

    def __init__(self, text: str) -> None:
        """Raises ValueError with the reason, worded to follow "the pattern"."""
        _check(text)
        if "@" not in text:
            raise ValueError("has no @ and realm")
        pieces = text.split("*")
        if len(pieces) > MOST_WILDCARDS + 1:
            raise ValueError(f"has {len(pieces) - 1} wildcards; at most {MOST_WILDCARDS} are possible")
        self.any_realm = "*" in text.rpartition("@")[2]
        """Whether a wildcard stands in the realm, so that other realms match too."""
        first, *rest = map(re.escape, pieces)
        # All wildcards but the last one end where their piece is found first: to try other places would take the cube of the length.
        runs = [f"(?>{_RUN}?{piece})" for piece in rest[:-1]]
        last = f"{_RUN}{rest[-1]}" if rest else ""
        self._expression = re.compile(f"{first}{''.join(runs)}{last}", re.DOTALL)

    def matches(self, principal: str) -> bool:
        """Whether all of the text matches."""
        return self._expression.fullmatch(principal) is not None


def _lower(text: str) -> str:
    return "".join(character.lower() if character.isascii() else character for character in text)


def _check(text: str) -> None:
    if len(text) > LONGEST:
        raise ValueError(f"has {len(text)} characters; at most {LONGEST} are possible")
    if not text.isprintable():
        raise ValueError("has characters that cannot be printed")


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, each with whether it is a mark between parts."""
    for token in _TOKEN.finditer(text):
        if (escaped := token["escaped"]) is None:
            yield token.group(), token["mark"] is not None
        elif escaped in _ESCAPED:
            yield escaped, False
        else:
            raise ValueError("has a backslash that is before none of / @ and \\")


def _components(pieces: list[tuple[str, bool]]) -> Iterator[str]:
    component = ""
    for piece, is_mark in pieces:
        if is_mark and piece == "/":
            yield component
            component = ""
        else:
            component += piece
    yield component
