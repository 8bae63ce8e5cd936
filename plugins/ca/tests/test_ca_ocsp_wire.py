"""OCSP requests and answers as bytes: what is refused of them, each for its own reason."""

import pytest
from msgspec.structs import replace

from greatseal import der
from greatseal.api.problems import Internal
from greatseal_ca import ocsp as wire

NONCE, OTHER = bytes.fromhex("06092b0601050507300102"), bytes.fromhex("06032a0304")
SHA256 = der.sequence(bytes.fromhex("0609608648016503040201"))
HASHED = der.octet_string(b"h" * 32)
TRUE = b"\x01\x01\xff"
ID = der.sequence(SHA256, HASHED, HASHED, der.integer(65))
SINGLE = der.sequence(ID)
LISTED = der.sequence(SINGLE)
TBS = der.sequence(LISTED)
EMPTY = der.explicit(0, der.sequence())


def of_single(*parts: bytes) -> bytes:
    return der.sequence(der.sequence(der.sequence(der.sequence(*parts))))


def of_id(*fields: bytes) -> bytes:
    return of_single(der.sequence(*fields))


def of_extensions(*extensions: bytes) -> bytes:
    return der.sequence(der.sequence(LISTED, der.explicit(2, der.sequence(*extensions))))


def nonce(size: int) -> bytes:
    return der.sequence(NONCE, der.octet_string(der.octet_string(b"n" * size)))


REFUSED = {
    "too large": (b"0" * (wire.MAX_BYTES + 1), "more than 8192 bytes"),
    "a length that lies": (der.sequence(TBS)[:-1], "."),
    "nothing": (der.sequence(), "not a request"),
    "three fields": (der.sequence(TBS, EMPTY, EMPTY), "not a request"),
    "another second field": (der.sequence(TBS, der.octet_string(b"")), "not a request"),
    "other fields": (der.sequence(der.sequence(LISTED, der.explicit(3, der.sequence()))), "a request of other fields"),
    "version 2": (der.sequence(der.sequence(der.explicit(0, der.integer(1)), LISTED)), "another version than v1"),
    "no certificates": (der.sequence(der.sequence(der.sequence())), "not one to 32 certificates"),
    "an empty single": (of_single(), "not a single request"),
    "a single of three": (of_single(ID, EMPTY, EMPTY), "not a single request"),
    "a single with something": (of_single(ID, der.explicit(1, der.sequence())), "not a single request"),
    "a serial of another type": (of_id(SHA256, HASHED, HASHED, der.octet_string(b"A")), "not a CertID"),
    "a long length": (of_id(SHA256, b"\x04\x81\x20" + b"h" * 32, HASHED, der.integer(65)), "a CertID that is not DER"),
    "an empty serial": (of_id(SHA256, HASHED, HASHED, b"\x02\x00"), "a serial that is not DER"),
    "a padded serial": (of_id(SHA256, HASHED, HASHED, b"\x02\x02\x00\x01"), "a serial that is not DER"),
    "a bare nonce": (of_extensions(der.sequence(NONCE, der.octet_string(b"\x02\x01n"))), "a nonce that is no OCTET STRING"),
    "an empty nonce": (of_extensions(nonce(0)), "a nonce of another length than 1 to 128"),
    "an extension without name": (of_extensions(der.sequence(der.octet_string(b"x"), der.octet_string(b""))), "extensions that are none"),
    "an extension without value": (of_extensions(der.sequence(OTHER, der.integer(1))), "extensions that are none"),
    "an extension twice": (of_extensions(nonce(1), nonce(1)), "extensions that are none"),
    "another flag": (of_extensions(der.sequence(OTHER, der.integer(1), der.octet_string(b""))), "extensions that are none"),
    "a critical one": (of_extensions(der.sequence(OTHER, TRUE, der.octet_string(b""))), "a critical extension that is not known here"),
    "a SET": (b"\x31" + der.sequence(TBS)[1:], "no SEQUENCE where there should be one"),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_request_is_refused_for_its_own_reason(data, reason):
    with pytest.raises(wire.Malformed, match=reason):
        wire.parse(data)


def test_a_request_is_read_with_a_nonce_that_can_be_echoed_or_without():
    assert [wire.parse(of_extensions(nonce(size))).nonce for size in (32, 33)] == [der.octet_string(b"n" * 32), None]
    assert wire.parse(of_extensions(der.sequence(OTHER, der.octet_string(b"")))).nonce is None
    asked = wire.parse(der.sequence(TBS))
    assert wire.is_plain(der.sequence(TBS), asked)
    assert not wire.is_plain(of_extensions(nonce(1)), wire.parse(of_extensions(nonce(1))))


NOW = 1_790_000_000 * 10**6
MEANT = wire.Status(wire.CertId(ID, "sha256", b"h" * 32, b"h" * 32, b"A"), revoked_at=NOW, reason=1)
ANSWER = wire.Answer(
    key_hash=b"k" * 20, algorithm=der.sequence(bytes.fromhex("06082a8648ce3d040302")), certificates=b"", statuses=(MEANT,),
    produced_at=NOW, next_update=NOW + 10**6, nonce=None,
)  # fmt: skip
GOOD = replace(MEANT, revoked_at=None, reason=None)
LIES = {
    "serial": (MEANT, replace(MEANT, id=replace(MEANT.id, serial=b"B"))),
    "name": (MEANT, replace(MEANT, id=replace(MEANT.id, name_hash=b"i" * 32))),
    "key": (MEANT, replace(MEANT, id=replace(MEANT.id, key_hash=b"i" * 32))),
    "hash": (MEANT, replace(MEANT, id=replace(MEANT.id, hash_name="sha1"))),
    "status": (GOOD, replace(GOOD, known=False)),
    "moment": (MEANT, replace(MEANT, revoked_at=NOW + 10**6)),
    "reason": (MEANT, replace(MEANT, reason=4)),
}


@pytest.mark.parametrize(("said", "meant"), LIES.values(), ids=LIES)
def test_the_lint_compares_each_part_of_a_status(said, meant):
    data = wire.compose(replace(ANSWER, statuses=(said,)))

    with pytest.raises(Internal) as refused:
        wire._lint(data, replace(ANSWER, statuses=(meant,)))
    assert refused.value.cause == "lint of an OCSP answer: a status is another"


@pytest.mark.parametrize("status", [MEANT, GOOD, replace(GOOD, known=False)], ids=["revoked", "good", "unknown"])
def test_each_status_is_what_is_said(status):
    assert wire.compose(replace(ANSWER, statuses=(status,)))
