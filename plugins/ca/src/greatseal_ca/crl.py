"""Revocation lists (RFC 5280 s5): written by our own code, and read again by another one before they are signed.

The builder of ``cryptography`` takes quadratic time and holds the interpreter. What is here takes two microseconds for an entry to write
and five to check, and lets go of the interpreter every quarter of a millisecond: it runs in a thread beside the event loop.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Protocol, TypeVar

import msgspec
from cryptography import x509

from greatseal import der
from greatseal.api.moments import SECOND
from greatseal.api.problems import Internal

T = TypeVar("T")

PIECE = 50
"""Entries that are worked on in one go: a quarter of a millisecond. Whoever waits for the interpreter waits so long at every turn."""
BREATH = 0.0005
"""Seconds in which the event loop has the interpreter for itself, between two pieces."""
_V2 = bytes.fromhex("020101")
_TRUE = bytes.fromhex("0101ff")
_REASON = bytes.fromhex("0603551d15")
_ENTRY_REASONS = {number: der.sequence(der.sequence(_REASON, der.octet_string(der.enumerated(number)))) for number in (1, 3, 4, 5, 9)}
FLAGS = {
    1: x509.ReasonFlags.key_compromise,
    3: x509.ReasonFlags.affiliation_changed,
    4: x509.ReasonFlags.superseded,
    5: x509.ReasonFlags.cessation_of_operation,
    9: x509.ReasonFlags.privilege_withdrawn,
}


class Entry(Protocol):
    """A revoked certificate: its serial in hexadecimal without sign byte, the moment in microseconds, the reason. A row is one."""

    @property
    def serial(self) -> str: ...
    @property
    def revoked_at(self) -> int: ...
    @property
    def reason(self) -> int | None: ...


class List(msgspec.Struct, frozen=True, kw_only=True):
    """What a list says. ``issuer`` is a DER Name, ``algorithm`` a DER AlgorithmIdentifier; moments are microseconds."""

    issuer: bytes
    algorithm: bytes
    key_identifier: x509.AuthorityKeyIdentifier
    number: int
    this_update: int
    next_update: int
    scope: x509.IssuingDistributionPoint | None
    entries: Sequence[Entry]

    def extensions(self) -> list[tuple[x509.ExtensionType, bool]]:
        """Each with its flag. The scope is critical (RFC 5280 s5.2.5)."""
        found: list[tuple[x509.ExtensionType, bool]] = [(self.key_identifier, False), (x509.CRLNumber(self.number), False)]
        return found if self.scope is None else [*found, (self.scope, True)]


def made(meant: List) -> bytes:
    """The TBSCertList, checked. For a thread. Raises Internal when the check finds another list than was meant."""
    tbs = compose(meant)
    lint(tbs, meant)
    return tbs


def compose(meant: List) -> bytes:
    """The TBSCertList (RFC 5280 s5.1.2). A list of nothing has no list of entries."""
    entries = b"".join(_entry(one) for one in _in_pieces(meant.entries))
    return der.sequence(
        _V2,
        meant.algorithm,
        meant.issuer,
        der.time(meant.this_update),
        der.time(meant.next_update),
        der.sequence(entries) if entries else b"",
        der.explicit(0, der.sequence(*(_extension(value, critical) for value, critical in meant.extensions()))),
    )


def lint(tbs: bytes, meant: List) -> None:
    """Raises Internal, with every finding in its cause, when the list is not what was meant."""
    try:
        findings = _findings(tbs, meant)
    except ValueError as error:
        findings = [f"it cannot be read: {error}"]
    if findings:
        raise Internal(cause=f"lint of a revocation list: {'; '.join(findings)}")


def scope_of(urls: Sequence[str], *, users: bool = False, cas: bool = False) -> x509.IssuingDistributionPoint:
    """Of which certificates a list tells: of those that name one of the URLs, of end entities, of CAs."""
    names = [x509.UniformResourceIdentifier(url) for url in urls] or None
    return x509.IssuingDistributionPoint(names, None, users, cas, None, False, False)


def _entry(one: Entry) -> bytes:
    serial = bytes.fromhex(one.serial)
    if serial[0] & 0x80:
        serial = b"\0" + serial
    # Spelt out: der.element would take twice as long, and nothing in here reaches 128 octets.
    inside = b"\x02%c%b%b%b" % (len(serial), serial, der.time(one.revoked_at), _ENTRY_REASONS[one.reason] if one.reason else b"")
    return b"\x30%c%b" % (len(inside), inside)


def _extension(value: x509.ExtensionType, critical: bool) -> bytes:
    return der.sequence(_oid(value.oid.dotted_string), _TRUE if critical else b"", der.octet_string(value.public_bytes()))


def _oid(dotted: str) -> bytes:
    """Those of id-ce: 2.5.29 and one more arc below 128."""
    return bytes((0x06, 0x03, 0x55, 0x1D, int(dotted.removeprefix("2.5.29."))))


def _findings(tbs: bytes, meant: List) -> list[str]:
    version, algorithm, issuer, *_ = der.children(tbs)
    read = x509.load_der_x509_crl(der.signed(tbs, algorithm, b""))  # a signature it must have, be it an empty one
    extensions = {one.oid: one for one in read.extensions}
    wanted = {value.oid: x509.Extension(value.oid, critical, value) for value, critical in meant.extensions()}
    rules = {
        "the version is not v2": version == _V2,
        "the signature algorithm is not the issuer's": algorithm == meant.algorithm,
        "the issuer is not the issuer's name": issuer == meant.issuer,
        "thisUpdate is another": read.last_update_utc == datetime_of(meant.this_update),
        "nextUpdate is another": read.next_update_utc == datetime_of(meant.next_update),
        "nextUpdate is not after thisUpdate": meant.next_update > meant.this_update,
        "an extension is another, missing or unknown": extensions == wanted,
        "there are more or fewer entries": len(read) == len(meant.entries),
    }
    found = [finding for finding, kept in rules.items() if not kept]
    for entry, one in zip(_in_pieces(read), meant.entries, strict=False):
        if not _is(entry, one):
            return [*found, f"the entry of {one.serial} is another"]
    return found


def _is(entry: x509.RevokedCertificate, meant: Entry) -> bool:
    if entry.serial_number != int(meant.serial, 16) or entry.revocation_date_utc != datetime_of(meant.revoked_at):
        return False
    extensions = list(entry.extensions)
    if not meant.reason:
        return not extensions
    (one,) = extensions
    return bool(one.value == x509.CRLReason(FLAGS[meant.reason]))


@lru_cache(1024)
def datetime_of(moment: int) -> datetime:
    return datetime.fromtimestamp(moment // SECOND, UTC)


def _in_pieces(items: Iterable[T]) -> Iterator[T]:
    left = iter(items)
    while piece := list(islice(left, PIECE)):
        yield from piece
        time.sleep(BREATH)
