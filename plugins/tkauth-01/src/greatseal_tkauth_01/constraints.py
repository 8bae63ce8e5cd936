"""EnhancedJWTClaimConstraints (RFC 9118 s3), as the identifier of an order, in a request, and in a certificate.

All context tags are explicit::

    SEQUENCE { [0] SEQUENCE OF IA5String OPTIONAL,                                          -- mustInclude
               [1] SEQUENCE OF SEQUENCE { IA5String, SEQUENCE OF UTF8String } OPTIONAL,     -- permittedValues
               [2] SEQUENCE OF IA5String OPTIONAL }                                         -- mustExclude

One of the three is there, and no list is empty. JWTClaimConstraints (RFC 8226 s8) are the same without the last.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec
from cryptography import x509

from greatseal import der
from greatseal.api.acme import RejectedIdentifier
from greatseal.api.identifiers import ExtensionIdentifier
from greatseal.jose.compact import b64url_decode, b64url_encode

TYPE = "JWTClaimConstraints"
EXTENSION = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.33")
LONGEST = 2048
"""Characters of a value: PostgreSQL has it in an index, whose rows end at 2,704 bytes."""
LONGEST_COMMON_NAME = 64
_SEQUENCE, _IA5, _UTF8 = 0x30, 0x16, 0x0C
_MUST_INCLUDE, _PERMITTED, _MUST_EXCLUDE = 0, 1, 2


class Constraints(msgspec.Struct, frozen=True, kw_only=True):
    """What a token that the holder signs must have, which values some of its claims may have, and what it may not have."""

    must_include: tuple[str, ...] = ()
    permitted: Mapping[str, tuple[str, ...]] = {}
    must_exclude: tuple[str, ...] = ()


def read(data: bytes) -> Constraints:
    """The constraints of their DER. Raises ValueError that says what is wrong, worded to follow "the value"."""
    parts: dict[int, bytes] = {}
    for part in _elements(data, _SEQUENCE, "is no SEQUENCE of DER"):
        number = part[0] - der.EXPLICIT
        if number not in range(max(parts, default=-1) + 1, _MUST_EXCLUDE + 1):
            raise ValueError("has a part that is none of [0], [1] and [2], or is not in their order")
        (parts[number],) = _one(part)
    if not parts:
        raise ValueError("says nothing; one of mustInclude, permittedValues and mustExclude is there")
    found = Constraints(
        must_include=_names(parts.get(_MUST_INCLUDE)),
        permitted=_permitted(parts.get(_PERMITTED)),
        must_exclude=_names(parts.get(_MUST_EXCLUDE)),
    )
    if _encoded(found) != data:
        raise ValueError("is not DER: a length is written longer than it need be")
    return found


class JwtClaimConstraints(ExtensionIdentifier):
    """The value is the DER in base64url without padding."""

    type = TYPE
    oid = EXTENSION

    def canonical(self, value: str) -> str:
        try:
            _check_length(value)
            read(b64url_decode(value))
        except ValueError as error:
            raise RejectedIdentifier(f"the value {_told(error)} (RFC 9118 s3)") from None
        return value

    def content(self, value: str) -> bytes:
        return b64url_decode(value)

    def of_content(self, content: bytes) -> str:
        value = b64url_encode(content)
        _check_length(value)
        read(content)
        return value

    def common_name(self, value: str) -> str:
        """The one ``sub`` that is permitted, where there is one and it is short enough; else a digest."""
        data = b64url_decode(value)
        subjects = read(data).permitted.get("sub", ())
        if len(subjects) == 1 and 0 < len(subjects[0]) <= LONGEST_COMMON_NAME and subjects[0].isprintable():
            return subjects[0]
        return f"{TYPE} {sha256(data).hexdigest()[:32]}"


def _check_length(value: str) -> None:
    if len(value) > LONGEST:
        raise ValueError(f"has {len(value)} characters in base64url; at most {LONGEST} are possible")


def _told(error: ValueError) -> str:
    """A sentence about "the value", whoever wrote it."""
    return str(error) if str(error).startswith(("is ", "has ", "says ")) else f"is {error}"


def _elements(data: bytes, tag: int, otherwise: str) -> list[bytes]:
    if data[:1] != bytes((tag,)):
        raise ValueError(otherwise)
    try:
        return der.children(data)
    except ValueError:
        raise ValueError(otherwise) from None


def _one(part: bytes) -> list[bytes]:
    inside = _elements(part, part[0], "is no SEQUENCE of DER")
    if len(inside) != 1:
        raise ValueError("has a part that does not hold one list")
    return inside


def _listed(data: bytes | None) -> list[bytes]:
    """The elements of a list that is there, one at least."""
    if data is None:
        return []
    found = _elements(data, _SEQUENCE, "has a part that is no SEQUENCE")
    if not found:
        raise ValueError("has an empty list")
    return found


def _names(data: bytes | None) -> tuple[str, ...]:
    names = tuple(_text(one, _IA5) for one in _listed(data))
    if len(set(names)) != len(names):
        raise ValueError("has a claim twice")
    return names


def _permitted(data: bytes | None) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for one in _listed(data):
        pair = _elements(one, _SEQUENCE, "has permitted values that are no SEQUENCE")
        if len(pair) != 2:
            raise ValueError("has permitted values that are not of one claim and one list")
        claim = _text(pair[0], _IA5)
        if claim in found:
            raise ValueError("has a claim twice")
        found[claim] = tuple(_text(value, _UTF8) for value in _listed(pair[1]))
    return found


def _text(data: bytes, tag: int) -> str:
    if data[0] != tag:
        raise ValueError(f"has a text whose tag is {data[0]:#04x} and not {tag:#04x}")
    try:
        return der.content(data).decode("ascii" if tag == _IA5 else "utf-8")
    except UnicodeDecodeError:
        raise ValueError("has a text that is not in its alphabet") from None


def _encoded(constraints: Constraints) -> bytes:
    permitted = [
        der.sequence(_string(_IA5, claim), der.sequence(*(_string(_UTF8, value) for value in values)))
        for claim, values in constraints.permitted.items()
    ]
    lists: Sequence[list[bytes]] = (
        [_string(_IA5, claim) for claim in constraints.must_include],
        permitted,
        [_string(_IA5, claim) for claim in constraints.must_exclude],
    )
    return der.sequence(*(der.explicit(number, der.sequence(*parts)) for number, parts in enumerate(lists) if parts))


def _string(tag: int, text: str) -> bytes:
    return der.element(tag, text.encode())
