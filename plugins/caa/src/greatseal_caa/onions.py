"""CAA of onion services, which no DNS knows: the client brings the records, signed by the key of the service (RFC 9799 s6.4)."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidSignature

from greatseal.api.acme import Caa
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest
from greatseal.api.services import CaaRecord
from greatseal.jose.compact import b64url_decode
from greatseal.net import excerpt, onion_key, service_of

MEMBER = "onionCAA"
MOST_BYTES, MOST_RECORDS = 16 * 1024, 200
"""What is read of the records of a service, as of those in DNS."""
LONGEST = 9 * 3600
"""Seconds that records may be valid for: the 8 hours of RFC 9799 s6.4, and one for clocks and for clients that vary the end."""
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[0-9]{3}|\\[ -/:-~])*+"'
_PLAIN = r"(?:[!#-\[\]-~]|\\[0-9]{3}|\\[ -/:-~])++"
_LINE = re.compile(rf"caa (?P<flags>[0-9]{{1,3}}) (?P<tag>[A-Za-z0-9]++) (?P<value>{_QUOTED}|{_PLAIN})", re.ASCII)
_ESCAPE = re.compile(r"\\([0-9]{3}|.)")


class Given(msgspec.Struct, frozen=True):
    """The records of one onion service: as lines of its descriptor, None where there are none; ``expiry`` in seconds since 1970."""

    caa: str | None
    expiry: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    signature: str


def given(payload: Mapping[str, object], name: str) -> Given | None:
    """What the client brings for an onion name, None for nothing. All names below one address share its records (RFC 9799 s6.1).

    Raises BadRequest.
    """
    brought = payload.get(MEMBER)
    if brought is None:
        return None
    if not isinstance(brought, Mapping):
        raise BadRequest(f"{MEMBER} is no object; write one with the onion address as member (RFC 9799 s6.4)")
    one = brought.get(name, brought.get(service_of(name)))
    if one is None:
        return None
    try:
        return msgspec.convert(one, Given)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{MEMBER} of {name}: {error}; it has caa (text or null), expiry (a number) and signature (text)") from None


def records(brought: Given, name: str, now: int) -> Sequence[CaaRecord]:
    """The records that the key of the onion service signed and that are valid ``now`` (microseconds). Raises Caa."""
    try:
        found = parse(brought.caa or "")
        _check_signature(brought, name)
        _check_end(brought.expiry - now // SECOND)
    except ValueError as error:
        why = f"the CAA records of {name} cannot be used: {MEMBER} {error}"
        raise Caa(why, identifier={"type": "dns", "value": name}) from None
    return found


def _check_signature(brought: Given, name: str) -> None:
    signed = f"onion-caa|{brought.expiry}|{brought.caa or ''}".encode()
    try:
        signature = b64url_decode(brought.signature.rstrip("="))
    except ValueError as error:
        raise ValueError(f"has a signature that is {error}") from None
    try:
        onion_key(service_of(name), verify_checksum=False).verify(signature, signed)
    except InvalidSignature:
        raise ValueError("is not signed by the key of the onion service") from None


def _check_end(left: int) -> None:
    if not 0 < left <= LONGEST:
        raise ValueError(f"ends {left} s from now; expected 1 to {LONGEST}")


def parse(text: str) -> list[CaaRecord]:
    """The lines ``caa <flags> <tag> <value>`` (RFC 9799 s6, RFC 8659 s4.1.1). Raises ValueError, worded to follow "onionCAA"."""
    if not text:
        return []
    lines = text.removesuffix("\n").split("\n")
    if len(text) > MOST_BYTES or len(lines) > MOST_RECORDS:
        raise ValueError(f"has {len(lines)} lines of {len(text)} characters; at most {MOST_RECORDS} of {MOST_BYTES} are read")
    return [_record(line) for line in lines]


def _record(line: str) -> CaaRecord:
    found = _LINE.fullmatch(line)
    if found is None or (flags := int(found["flags"])) > 255:
        raise ValueError(f'has the line {excerpt(line)}; expected caa, flags, tag and value, as in caa 0 issue "ca.example"')
    value = found["value"]
    return CaaRecord(flags, found["tag"], _ESCAPE.sub(_unescaped, value[1:-1] if value.startswith('"') else value))


def _unescaped(escape: re.Match[str]) -> str:
    """The character of an escape (RFC 1035 s5.1)."""
    code = escape[1]
    if len(code) == 1:
        return code
    if int(code) > 255:
        raise ValueError(f"has {excerpt(escape[0])}, which is no byte")
    return chr(int(code))
