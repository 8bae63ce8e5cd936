"""JSON as a security protocol needs it: one text, one meaning (RFC 8259, RFC 7493)."""

import json
import math
import re

MAX_DEPTH = 32
_MAX_INT = 2**63 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)


def decode_json(data: bytes, *, max_depth: int = MAX_DEPTH) -> object:
    """The value of a JSON text; raises ValueError with a reason that a client may read.

    Refused beside bad syntax: duplicate members, NaN and infinities (also ``1e999``), integers beyond 64 bits, more than
    ``max_depth`` levels, a byte order mark, invalid UTF-8, lone surrogates, and U+0000 (PostgreSQL cannot store it).
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise ValueError("starts with a byte order mark")
    if data.count(b"{") + data.count(b"[") > max_depth and is_deeper(data, max_depth):
        raise ValueError(f"nested deeper than {max_depth} levels")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON at character {error.pos}: {error.msg}") from None
    if "\\u" in text:
        refuse_odd_characters(value)
    return value


def decode_object(data: bytes, *, max_depth: int = MAX_DEPTH) -> dict[str, object]:
    """As :func:`decode_json`, and the value is an object."""
    value = decode_json(data, max_depth=max_depth)
    if isinstance(value, dict):
        return value
    raise ValueError("not a JSON object")


def is_deeper(data: bytes, levels: int) -> bool:
    """Whether brackets outside strings are nested deeper, in at most one linear pass and whether or not the text is JSON."""
    depth = 0
    for token in _TOKENS.finditer(data):
        if token.lastindex == 1:
            depth += 1
            if depth > levels:
                return True
        elif token.lastindex == 2:
            depth -= 1
    return False


def refuse_odd_characters(value: object) -> None:
    """Raise ValueError for a lone surrogate or U+0000 in any string of a decoded value."""
    match value:
        case str():
            if "\0" in value:
                raise ValueError("a string holds U+0000")
            if _SURROGATE.search(value):
                raise ValueError("a string holds a lone surrogate")
        case list():
            for item in value:
                refuse_odd_characters(item)
        case dict():
            for name, item in value.items():
                refuse_odd_characters(name)
                refuse_odd_characters(item)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has a member twice")
    return value


def _integer(text: str) -> int:
    # 64 bits have at most 19 digits; longer ones are not worth converting.
    if len(text) > 20 or abs(value := int(text)) > _MAX_INT:
        raise ValueError("an integer is beyond 64 bits")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is beyond the range of a double")
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_integer, parse_float=_finite, parse_constant=_no_constant)
