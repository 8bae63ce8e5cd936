"""Distinguished names (RFC 4514) and values in search filters (RFC 4515): written so that no value can be more than a value."""

import re
import unicodedata
from typing import TypeAlias

Name: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]
"""A DN that can be compared: its RDNs, each the sorted pairs of type and value, without regard to case."""

SPECIAL = frozenset('"+,;<=>\\')
PAIR = re.compile(rb"\\([0-9A-Fa-f]{2})|\\(.)", re.DOTALL)
SPACES = re.compile(r" +")
MAX_NAME = 255
"""Characters of a name that is looked up: nobody has a longer one."""


def filter_value(text: str) -> str:
    """``text`` as a value in a filter: every octet that is no letter or digit is written as its number."""
    return "".join(chr(octet) if chr(octet).isalnum() and octet < 128 else f"\\{octet:02x}" for octet in text.encode())


def rdn_value(text: str) -> str:
    """``text`` as the value of an attribute in a DN."""
    last = len(text) - 1
    return "".join(_escaped(character, first=at == 0, last=at == last) for at, character in enumerate(text))


def is_askable(name: str) -> bool:
    """Whether anybody may have this name. Spaces around it, which a server would not see, make it another one."""
    return 0 < len(name) <= MAX_NAME and name.isprintable() and name == name.strip()


def is_username(name: str) -> bool:
    """Whether a person may have this name: with the realm it is a principal of one component, and not that of a service."""
    return is_askable(name) and not set("/@\\") & set(name)


def same(name: str, other: str) -> bool:
    """Whether two names differ by case or width alone, or not at all."""
    return unicodedata.normalize("NFKC", name).lower() == unicodedata.normalize("NFKC", other).lower()


def parse(dn: str) -> Name:
    """The DN in a form that can be compared. Raises ValueError."""
    return tuple(_rdn(part) for part in _split(dn, ",;")) if dn.strip() else ()


def is_under(dn: str, base: str) -> bool:
    """Whether an entry is ``base`` or below it; what cannot be read is nowhere."""
    try:
        inner, outer = parse(dn), parse(base)
    except ValueError:
        return False
    return inner[len(inner) - len(outer) :] == outer


def child_of(dn: str, base: str) -> str | None:
    """The value of the first RDN of an entry right below ``base``, as it was written; None for every other entry."""
    try:
        whole = parse(dn)
        if not whole or whole[1:] != parse(base):
            return None
    except ValueError:
        return None
    return first_value(dn, whole[0][0][0])


def first_value(dn: str, type_: str) -> str | None:
    """The value of the first RDN, as it was written, when it is of this type and of no other."""
    try:
        first = _split(dn, ",;")[0]
        if len(pairs := _rdn(first)) != 1 or pairs[0][0] != type_:
            return None
    except ValueError:
        return None
    return _unescaped(_stripped(first.partition("=")[2]))


def _escaped(character: str, *, first: bool, last: bool) -> str:
    if character in SPECIAL or (first and character in " #") or (last and character == " "):
        return f"\\{character}"
    return "".join(f"\\{octet:02x}" for octet in character.encode()) if not character.isprintable() else character


def _rdn(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in _split(text, "+"):
        type_, equals, value = part.partition("=")
        if not equals or not type_.strip():
            raise ValueError("a DN consists of type=value")
        pairs.append((type_.strip().lower().removeprefix("oid."), _folded(_unescaped(_stripped(value)))))
    return tuple(sorted(pairs))


def _split(text: str, separators: str) -> list[str]:
    """Split at separators that are not escaped."""
    parts, start, at = [], 0, 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] in separators:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [*parts, text[start:]]


def _stripped(value: str) -> str:
    """Without the spaces around it, but for a last one that is escaped."""
    bare = value.strip()
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return f"{bare} " if backslashes % 2 else bare


def _unescaped(value: str) -> str:
    return PAIR.sub(lambda found: bytes([int(found[1], 16)]) if found[1] else found[2], value.encode()).decode(errors="replace")


def _folded(value: str) -> str:
    return SPACES.sub(" ", unicodedata.normalize("NFKC", value)).strip().casefold()


def folded(dn: str) -> str:
    """The DN in one spelling, for comparison alone; what cannot be read stands for itself."""
    try:
        return ",".join("+".join(f"{type_}={rdn_value(value)}" for type_, value in rdn) for rdn in parse(dn))
    except ValueError:
        return dn
