"""Principals as text and as KRB5PrincipalName (RFC 4556 s3.2.2, RFC 4120 s5.2.2)."""

import re
from collections.abc import Iterator

import msgspec

from greatseal import der

NT_PRINCIPAL, NT_SRV_HST = 1, 3
LONGEST = 1024
_GENERAL_STRING, _INTEGER = 0x1B, 0x02
_ESCAPED = frozenset("/@\\")
_TOKEN = re.compile(r"\\(?P<escaped>.?)|(?P<mark>[/@])|(?P<plain>[^\\/@]+)", re.DOTALL)


class Principal(msgspec.Struct, frozen=True):
    """A principal with its realm. Components and realm are as they are meant, without escapes."""

    components: tuple[str, ...]
    realm: str

    @property
    def name_type(self) -> int:
        """NT-SRV-HST for a service on a host, NT-PRINCIPAL for a name of one component."""
        return NT_SRV_HST if len(self.components) > 1 else NT_PRINCIPAL

    def encoded(self) -> bytes:
        """The DER of the KRB5PrincipalName."""
        names = der.sequence(*(_general_string(one) for one in self.components))
        name = der.sequence(_tagged(0, der.element(_INTEGER, bytes((self.name_type,)))), _tagged(1, names))
        return der.sequence(_tagged(0, _general_string(self.realm)), _tagged(1, name))


def parse(text: str) -> Principal:
    r"""Read ``component/component@REALM``; ``\/``, ``\@`` and ``\\`` are the characters themselves, the last bare ``@`` begins the realm.

    Raises ValueError with the reason, worded to follow "the principal".
    """
    if len(text) > LONGEST:
        raise ValueError(f"has {len(text)} characters; at most {LONGEST} are possible")
    if not text.isascii() or not text.isprintable():
        raise ValueError("has characters beyond printable ASCII, which its form in certificates does not have")
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


def _general_string(text: str) -> bytes:
    return der.element(_GENERAL_STRING, text.encode("ascii"))


def _tagged(number: int, content: bytes) -> bytes:
    """An explicit context tag."""
    return der.element(0xA0 | number, content)
