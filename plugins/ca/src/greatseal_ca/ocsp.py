"""OCSP on the wire (RFC 6960, RFC 5019, RFC 9654): requests read, answers put together and read again before they are signed."""

from collections.abc import Mapping
from hashlib import sha1, sha256
from types import MappingProxyType

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509 import ocsp
from cryptography.x509.ocsp import OCSPCertStatus

from greatseal import der
from greatseal.api.problems import Internal
from greatseal_ca.crl import FLAGS, datetime_of

MAX_BYTES = 8_192
MOST = 32
"""Certificates that one request may ask about."""
SHORTEST, LONGEST = 1, 128
"""Octets of a nonce that may be sent (RFC 9654 s2.1)."""
ECHOED = 32
"""Longer ones are answered without (RFC 9654 s2.1)."""

MALFORMED, INTERNAL_ERROR, TRY_LATER, UNAUTHORIZED = 1, 2, 3, 6
_OK = 0
_BASIC = bytes.fromhex("06092b0601050507300101")
_NONCE = bytes.fromhex("06092b0601050507300102")
_V1 = bytes.fromhex("020100")
_SHA1 = bytes.fromhex("06052b0e03021a")
_SHA256 = bytes.fromhex("0609608648016503040201")
_NULL = b"\x05\x00"
_TRUE = b"\x01\x01\xff"
_GOOD, _UNKNOWN = b"\x80\x00", b"\x82\x00"
_HASHES: Mapping[bytes, str] = MappingProxyType(
    {der.sequence(oid, *rest): name for name, oid in (("sha1", _SHA1), ("sha256", _SHA256)) for rest in ((), (_NULL,))}
)
"""The AlgorithmIdentifiers that CertIDs may have, with and without parameters."""
_ALGORITHMS = {"sha1": hashes.SHA1, "sha256": hashes.SHA256}


class Malformed(ValueError):
    """The request is none."""


class CertId(msgspec.Struct, frozen=True):
    """What a request asks about; ``der`` is the CertID as it was sent. ``hash_name`` is "" for a hash that is not known here."""

    der: bytes
    hash_name: str
    name_hash: bytes
    key_hash: bytes
    serial: bytes


class Asked(msgspec.Struct, frozen=True):
    """A request. ``nonce`` is None where none was sent, and for one that is too long to be echoed."""

    certificates: tuple[CertId, ...]
    nonce: bytes | None


class Status(msgspec.Struct, frozen=True):
    """What is said of a certificate: revoked since ``revoked_at`` (microseconds), else good, or unknown."""

    id: CertId
    known: bool = True
    revoked_at: int | None = None
    reason: int | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A successful answer. ``key_hash`` is the SHA-1 of the responder's key, ``certificates`` what :func:`certificates` made of its
    certificate; moments are microseconds on whole seconds."""

    key_hash: bytes
    algorithm: bytes
    certificates: bytes
    statuses: tuple[Status, ...]
    produced_at: int
    next_update: int
    nonce: bytes | None


def error(status: int) -> bytes:
    """An answer that says only why there is none."""
    return der.sequence(der.enumerated(status))


def issuer_hashes(subject: bytes, key: bytes) -> Mapping[str, tuple[bytes, bytes]]:
    """How CertIDs name a CA, by hash: its DER Name and the content of its public key, without tag, length and unused bits."""
    # The hash is an identifier here, as RFC 5019 s2.1.1 wants it, not a proof of anything.
    return {
        "sha1": (sha1(subject, usedforsecurity=False).digest(), sha1(key, usedforsecurity=False).digest()),
        "sha256": (sha256(subject).digest(), sha256(key).digest()),
    }


# ---- Requests


def parse(data: bytes) -> Asked:
    """Read a request strictly (RFC 6960 s4.1.1). Its signature, if it has one, is not looked at. Raises Malformed."""
    if len(data) > MAX_BYTES:
        raise Malformed(f"more than {MAX_BYTES} bytes")
    try:
        return _request(data)
    except ValueError as problem:
        raise Malformed(str(problem)) from None


def _request(data: bytes) -> Asked:
    fields = _sequence(data)
    if not fields or len(fields) > 2 or (len(fields) == 2 and fields[1][:1] != b"\xa0"):
        raise Malformed("not a request")
    parts = _sequence(fields[0])
    tags = [part[0] for part in parts]
    if tags not in _SHAPES:
        raise Malformed("a request of other fields")
    if 0xA0 in tags and der.content(parts[0]) != _V1:
        raise Malformed("another version than v1")
    listed = parts[tags.index(der.SEQUENCE)]
    wanted = tuple(_single(one) for one in _sequence(listed))
    if not 1 <= len(wanted) <= MOST:
        raise Malformed(f"not one to {MOST} certificates")
    return Asked(wanted, _nonce(der.content(parts[-1])) if tags[-1] == 0xA2 else None)


_SHAPES = [
    [*version, *name, der.SEQUENCE, *extensions] for version in ((), (0xA0,)) for name in ((), (0xA1,)) for extensions in ((), (0xA2,))
]
"""TBSRequest: version, requestorName, requestList, requestExtensions."""


def _single(request: bytes) -> CertId:
    parts = _sequence(request)
    if not parts or len(parts) > 2 or (len(parts) == 2 and parts[1][:1] != b"\xa0"):
        raise Malformed("not a single request")
    if len(parts) == 2:
        _extensions(der.content(parts[1]))
    fields = _sequence(parts[0])
    if [field[0] for field in fields] != [der.SEQUENCE, der.OCTET_STRING, der.OCTET_STRING, der.INTEGER]:
        raise Malformed("not a CertID")
    if der.sequence(*(der.element(field[0], der.content(field)) for field in fields)) != parts[0]:
        raise Malformed("a CertID that is not DER")
    algorithm, name_hash, key_hash, serial = (fields[0], *map(der.content, fields[1:]))
    der.children(algorithm)
    if not serial or (len(serial) > 1 and (serial[0], serial[1] >> 7) in {(0, 0), (0xFF, 1)}):
        raise Malformed("a serial that is not DER")
    return CertId(parts[0], _HASHES.get(algorithm, ""), name_hash, key_hash, serial)


def _nonce(field: bytes) -> bytes | None:
    value = _extensions(field)
    if value is None:
        return None
    if value[:1] != bytes((der.OCTET_STRING,)):
        raise Malformed("a nonce that is no OCTET STRING")
    (nonce,) = der.elements(value)
    if not SHORTEST <= len(der.content(nonce)) <= LONGEST:
        raise Malformed(f"a nonce of another length than {SHORTEST} to {LONGEST}")
    return value if len(der.content(nonce)) <= ECHOED else None


def _extensions(field: bytes) -> bytes | None:
    """The value of the nonce. A critical extension that is not known is refused, as is one that comes twice."""
    found: dict[bytes, bytes] = {}
    for one in _sequence(field):
        name, *flag, value = _sequence(one)
        if name[0] != 0x06 or value[0] != der.OCTET_STRING or name in found or flag not in ([], [_TRUE], [b"\x01\x01\x00"]):
            raise Malformed("extensions that are none")
        if flag == [_TRUE] and name != _NONCE:
            raise Malformed("a critical extension that is not known here")
        found[name] = der.content(value)
    return found.get(_NONCE)


def _sequence(element: bytes) -> list[bytes]:
    if element[:1] != b"\x30":
        raise Malformed("no SEQUENCE where there should be one")
    return der.children(element)


# ---- Answers


def compose(answer: Answer) -> bytes:
    """The ResponseData, checked (RFC 6960 s4.2.1). Raises Internal when the check finds another answer than was meant."""
    times = der.generalized_time(answer.produced_at), der.explicit(0, der.generalized_time(answer.next_update))
    extensions = () if answer.nonce is None else (der.explicit(1, der.sequence(der.sequence(_NONCE, der.octet_string(answer.nonce)))),)
    data = der.sequence(
        der.explicit(2, der.octet_string(answer.key_hash)),
        times[0],
        der.sequence(*(der.sequence(one.id.der, _status(one), *times) for one in answer.statuses)),
        *extensions,
    )
    _lint(data, answer)
    return data


def certificates(responder: bytes) -> bytes:
    """The field that brings the certificate of the responder."""
    return der.explicit(0, der.sequence(responder))


def whole(data: bytes, answer: Answer, signature: bytes) -> bytes:
    """The signed answer with the certificate of the responder."""
    basic = der.sequence(data, answer.algorithm, der.bit_string(signature), answer.certificates)
    return der.sequence(der.enumerated(_OK), der.explicit(0, der.sequence(_BASIC, der.octet_string(basic))))


def _status(one: Status) -> bytes:
    if not one.known:
        return _UNKNOWN
    if one.revoked_at is None:
        return _GOOD
    reason = (der.explicit(0, der.enumerated(one.reason)),) if one.reason else ()
    return der.explicit(1, der.generalized_time(one.revoked_at), *reason)


def _lint(data: bytes, answer: Answer) -> None:
    try:
        findings = _findings(data, answer)
    except ValueError as problem:
        findings = [f"it cannot be read: {problem}"]
    if findings:
        raise Internal(cause=f"lint of an OCSP answer: {'; '.join(findings)}")


def _findings(data: bytes, answer: Answer) -> list[str]:
    read = ocsp.load_der_ocsp_response(whole(data, answer, b""))
    produced, until = datetime_of(answer.produced_at), datetime_of(answer.next_update)
    nonce = [x509.OCSPNonce(der.content(answer.nonce))] if answer.nonce is not None else []
    singles = list(read.responses)
    rules = {
        "it names another responder": read.responder_key_hash == answer.key_hash,
        "producedAt is another": read.produced_at_utc == produced,
        "its extensions are not the nonce": [one.value for one in read.extensions] == nonce,
        "it answers about more or fewer": len(singles) == len(answer.statuses),
        "nextUpdate is not after thisUpdate": produced < until,
        "a status is another": all(_is(found, one) for found, one in zip(singles, answer.statuses, strict=False)),
        "a moment is another": all((found.this_update_utc, found.next_update_utc) == (produced, until) for found in singles),
    }
    return [finding for finding, kept in rules.items() if not kept]


def _is(found: ocsp.OCSPSingleResponse, meant: Status) -> bool:
    wanted = OCSPCertStatus.UNKNOWN
    if meant.known:
        wanted = OCSPCertStatus.GOOD if meant.revoked_at is None else OCSPCertStatus.REVOKED
    at = None if meant.revoked_at is None else datetime_of(meant.revoked_at)
    return (
        found.serial_number == int.from_bytes(meant.id.serial, signed=True)
        and (found.issuer_name_hash, found.issuer_key_hash) == (meant.id.name_hash, meant.id.key_hash)
        and isinstance(found.hash_algorithm, _ALGORITHMS[meant.id.hash_name])
        and found.certificate_status == wanted
        and found.revocation_time_utc == at
        and found.revocation_reason == (FLAGS[meant.reason] if meant.reason else None)
    )


def is_plain(data: bytes, asked: Asked) -> bool:
    """Whether a request asks about one certificate and says nothing else: of those there are few for each certificate."""
    return data == der.sequence(der.sequence(der.sequence(*(der.sequence(one.der) for one in asked.certificates[:1]))))
