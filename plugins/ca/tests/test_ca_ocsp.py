"""The OCSP responder (RFC 6960, RFC 5019, RFC 9654): answers, what is remembered, and what is no request."""

import asyncio
import os
from base64 import b64encode
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec.structs import replace
from sqlalchemy import select

from greatseal import der
from greatseal.api.problems import Internal, Unavailable
from greatseal.testing import FakeClock
from greatseal.testing.parsers import ParserContract
from greatseal_ca import ocsp as wire
from greatseal_ca import tables

GOOD, GONE, UNKNOWN = ocsp.OCSPCertStatus.GOOD, ocsp.OCSPCertStatus.REVOKED, ocsp.OCSPCertStatus.UNKNOWN
KIND = {"Content-Type": "application/ocsp-request"}


def responder(desk):
    return desk.parts.status._responder


def request_for(desk, certificate, *, nonce: bytes | None = None) -> bytes:
    leaf = x509.load_der_x509_certificate(certificate.der)
    builder = ocsp.OCSPRequestBuilder().add_certificate(leaf, desk.authority(certificate.ca_id).certificate, hashes.SHA256())
    return (builder if nonce is None else builder.add_extension(x509.OCSPNonce(nonce), critical=False)).build().public_bytes(Encoding.DER)


def several(*requests: bytes) -> bytes:
    """One request that asks what all of them ask."""
    singles = [der.children(der.children(der.children(one)[0])[0])[0] for one in requests]
    return der.sequence(der.sequence(der.sequence(*singles)))


@pytest.mark.parametrize("hash_alg", [hashes.SHA1(), hashes.SHA256()], ids=["sha1", "sha256"])
async def test_a_status_follows_the_certificate_under_either_hash(desk, hash_alg):
    certificate = await desk.certify("a.example.com")
    before = await desk.ask(certificate, hash_alg=hash_alg)
    revoked = await desk.revoke(certificate, 4)
    after = await desk.ask(certificate, hash_alg=hash_alg)

    assert (before.certificate_status, after.certificate_status) == (GOOD, GONE)
    assert after.revocation_reason is x509.ReasonFlags.superseded
    assert int(after.revocation_time_utc.timestamp()) == revoked.revoked_at // 10**6
    assert (after.next_update_utc - after.this_update_utc).total_seconds() == 12 * 3600


async def test_answers_are_signed_by_a_delegated_key(desk):
    answer = await desk.ask(await desk.certify("a.example.com"))
    (signer,) = answer.certificates
    values = {type(one.value): one.value for one in signer.extensions}

    signer.verify_directly_issued_by(desk.authority().certificate)
    signer.public_key().verify(answer.signature, answer.tbs_response_bytes, ec.ECDSA(hashes.SHA256()))
    assert answer.responder_key_hash == values[x509.SubjectKeyIdentifier].digest
    assert list(values[x509.ExtendedKeyUsage]) == [ExtendedKeyUsageOID.OCSP_SIGNING]
    assert x509.OCSPNoCheck in values
    assert not values[x509.BasicConstraints].ca
    assert (signer.not_valid_after_utc - signer.not_valid_before_utc).days < 14
    (row,) = await desk.rows(select(tables.responder))
    assert row.der == signer.public_bytes(Encoding.DER)


@pytest.mark.parametrize(("size", "echoed"), [(1, True), (16, True), (32, True), (33, False), (128, False)])
async def test_a_nonce_is_echoed_up_to_32_octets_and_signed_anew(desk, size, echoed):
    certificate = await desk.certify("a.example.com")
    first = await desk.ask(certificate, nonce=os.urandom(size))
    nonce = os.urandom(size)
    second = await desk.ask(certificate, nonce=nonce)

    found = [one.value.nonce for one in second.extensions]
    assert found == ([nonce] if echoed else [])
    assert not echoed or first.signature != second.signature
    assert not responder(desk)._remembered  # strangers could fill it with nonces


async def test_r120_an_answer_is_remembered_until_its_certificate_is_revoked(open_desk):
    clock = FakeClock()
    desk = await open_desk(clock=clock)
    one, other = await desk.certify("a.example.com"), await desk.certify("b.example.com")
    first, kept = (await desk.ask(one)).signature, (await desk.ask(other)).signature
    clock.advance(60)
    assert (await desk.ask(one)).signature == first
    await desk.revoke(one)
    gone = await desk.ask(one)

    assert gone.certificate_status is GONE
    assert (await desk.ask(other)).signature == kept
    clock.advance(6 * 3600)
    assert (await desk.ask(one)).signature != gone.signature
    clock.advance(-7 * 3600)
    assert (await desk.ask(other)).signature != kept  # the clock was set back: nobody gets an answer of tomorrow


async def test_an_answer_that_was_signed_while_the_certificate_was_revoked_is_not_remembered(desk):
    certificate = await desk.certify("a.example.com")
    served = responder(desk)
    ((kid, issuing),) = served._issuing["default"].items()

    class Slow:
        info = issuing.delegated.signer.info

        async def sign(self, message, *, hash_alg=None):
            served._issuing["default"][kid] = issuing
            await desk.revoke(certificate)
            return await issuing.delegated.signer.sign(message, hash_alg=hash_alg)

    slow = replace(issuing.delegated, signer=Slow())
    served._issuing["default"][kid] = replace(issuing, delegated=slow)
    overtaken = await desk.ask(certificate)

    assert overtaken.certificate_status is GOOD  # it was asked before
    assert (await desk.ask(certificate)).certificate_status is GONE


async def test_what_is_remembered_is_bounded(desk):
    responder(desk)._most = 3
    certificates = [await desk.certify(f"{number}.example.com") for number in range(5)]
    for one in certificates:
        await desk.ask(one)

    assert len(responder(desk)._remembered) == len(responder(desk)._naming) == 3


async def test_a_serial_that_was_never_issued_is_unknown_also_after_it_was_asked_for(desk):
    issued = await desk.certify("a.example.com")
    waiting = await desk.compose("b.example.com")
    prepared = await desk.db.write(desk.issuance.reserve, waiting)
    never = request_for(desk, issued).replace(issued.serial, b"\x7f" * 16)
    soon = request_for(desk, issued).replace(issued.serial, waiting.serial)

    async def status(data):
        return ocsp.load_der_ocsp_response((await desk.fetch("/ca/ocsp", method="POST", data=data, headers=KIND))[2]).certificate_status

    assert [await status(never), await status(soon)] == [UNKNOWN, UNKNOWN]
    await desk.db.write(desk.issuance.record, prepared, await desk.issuance.issue(prepared))
    assert [await status(never), await status(soon)] == [UNKNOWN, GOOD]


async def test_several_certificates_are_answered_in_one(desk):
    certificates = [await desk.certify(f"{number}.example.com") for number in range(3)]
    await desk.revoke(certificates[1])
    data = several(*(request_for(desk, one) for one in certificates))
    _, _, body = await desk.fetch("/ca/ocsp", method="POST", data=data, headers=KIND)
    found = list(ocsp.load_der_ocsp_response(body).responses)
    await desk.revoke(certificates[0])
    _, _, again = await desk.fetch("/ca/ocsp", method="POST", data=data, headers=KIND)

    assert [one.certificate_status for one in found] == [GOOD, GONE, GOOD]
    assert [one.serial_number for one in found] == [int.from_bytes(one.serial) for one in certificates]
    assert [one.certificate_status for one in ocsp.load_der_ocsp_response(again).responses] == [GONE, GONE, GOOD]


async def test_a_request_in_the_path_may_hold_slashes_and_plus_and_be_encoded_or_not(desk):
    certificate = await desk.certify("a.example.com")
    data, texts = request_for(desk, certificate), set()
    while not any("//" in text for text in texts) or not any("+" in text for text in texts):
        texts.add(b64encode(data.replace(certificate.serial, b"\x01" + os.urandom(15))).decode())
    chosen = [next(text for text in texts if "//" in text), next(text for text in texts if "+" in text), b64encode(data).decode()]

    for text in chosen:
        for path in (text, quote(text, safe=""), quote(text, safe="/+")):
            status, headers, body = await get(desk, f"/ca/ocsp/{path}")
            assert (status, headers["Content-Type"]) == (200, "application/ocsp-response")
            answer = ocsp.load_der_ocsp_response(body)
            assert answer.response_status is ocsp.OCSPResponseStatus.SUCCESSFUL
    assert answer.certificate_status is GOOD
    assert headers["Cache-Control"] == "public, no-transform, must-revalidate, max-age=21600"
    for path in ("", "MA==", "@", "a/b", "%30"):
        status, _, body = await get(desk, f"/ca/ocsp/{path}")
        assert (status, body) == (200, wire.error(wire.MALFORMED))


async def get(desk, path):
    """As it is, encoded or not."""
    reader, writer = await asyncio.open_connection(*desk.service.addresses["main"].rsplit(":", 1))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    line, *fields = head.decode().split("\r\n")
    return int(line.split()[1]), dict(field.split(": ", 1) for field in fields), body


async def test_another_issuer_is_unauthorized_and_what_is_no_request_malformed(desk):
    data = request_for(desk, await desk.certify("a.example.com"))
    name_hash = der.content(der.children(der.children(der.children(der.children(der.children(data)[0])[0])[0])[0])[1])

    async def answer(body):
        status, headers, found = await desk.fetch("/ca/ocsp", method="POST", data=body, headers=KIND)
        assert (status, headers["Content-Type"], headers["Cache-Control"]) == (200, "application/ocsp-response", "no-store")
        return found

    assert await answer(data.replace(name_hash, os.urandom(32))) == wire.error(wire.UNAUTHORIZED)
    for body in (b"", b"\x30\x00", data[:-1], data + b"\0", b"\x30\x80" * 2000, b"0" * (wire.MAX_BYTES + 1), several(*[data] * 33)):
        assert await answer(body) == wire.error(wire.MALFORMED)
    status, _, _ = await desk.fetch("/ca/ocsp", method="POST", data=data, headers={"Content-Type": "text/plain"})
    assert status == 415


NONCE = bytes.fromhex("06092b0601050507300102")


def with_extensions(data: bytes, *extensions: bytes, tag: int = 2) -> bytes:
    (tbs,) = der.children(data)
    return der.sequence(der.sequence(*der.children(tbs), der.explicit(tag, der.sequence(*extensions))))


def reads(data: bytes) -> bool:
    try:
        wire.parse(data)
    except wire.Malformed:
        return False
    return True


async def test_extensions_that_cannot_be_obeyed_are_refused(desk):
    data = request_for(desk, await desk.certify("a.example.com"))
    other, true = bytes.fromhex("06032a0304"), b"\x01\x01\xff"
    nonce = der.sequence(NONCE, der.octet_string(der.octet_string(b"n")))
    refused = {
        "an unknown critical one": with_extensions(data, der.sequence(other, true, der.octet_string(b""))),
        "two nonces": with_extensions(data, nonce, nonce),
        "an empty nonce": with_extensions(data, der.sequence(NONCE, der.octet_string(der.octet_string(b"")))),
        "a long nonce": with_extensions(data, der.sequence(NONCE, der.octet_string(der.octet_string(b"n" * 129)))),
        "a bare nonce": with_extensions(data, der.sequence(NONCE, der.octet_string(b"nonce"))),
        "something else": with_extensions(data, nonce, tag=3),
    }
    assert [name for name, one in refused.items() if reads(one)] == []
    for one in (with_extensions(data, der.sequence(other, der.octet_string(b""))), with_extensions(data, nonce), with_extensions(data)):
        assert wire.parse(one).certificates == wire.parse(data).certificates


async def test_a_signer_that_cannot_sign_now_is_told_as_try_later(desk):
    certificate = await desk.certify("a.example.com")
    served = responder(desk)
    ((kid, issuing),) = served._issuing["default"].items()

    class Away:
        async def sign(self, message, *, hash_alg=None):
            raise Unavailable("away")

    served._issuing["default"][kid] = replace(issuing, delegated=replace(issuing.delegated, signer=Away()))
    _, _, body = await desk.fetch("/ca/ocsp", method="POST", data=request_for(desk, certificate), headers=KIND)

    assert body == wire.error(wire.TRY_LATER)


async def test_the_signer_is_replaced_when_half_of_its_life_is_over(open_desk):
    clock = FakeClock()
    desk = await open_desk(clock=clock)
    certificate = await desk.certify("a.example.com")
    (first,) = (await desk.ask(certificate)).certificates
    await desk.parts.status.renew()
    assert (await desk.ask(certificate)).certificates == [first]
    clock.advance(8 * 86_400)
    await desk.parts.status.renew()
    (second,) = (await desk.ask(certificate)).certificates

    assert first.public_key() != second.public_key()
    ring = desk.service.host("ca").keys.ring(f"ca:default:{desk.authority().signer.info.kid}:ocsp")
    assert len(ring.all()) == 1  # the key before is destroyed
    clock.advance(30 * 86_400)
    desk.service.kernel.clock.passed = clock.now
    await desk.parts.status.renew()
    assert len(await desk.rows(select(tables.responder))) == 1


WRONG = {
    "another responder": {"key_hash": b"k" * 20},
    "producedAt": {"produced_at": 0},
    "nonce": {"nonce": der.octet_string(b"n")},
    "more or fewer": {"statuses": ()},
    "nextUpdate": {"next_update": 0},
}


@pytest.mark.parametrize(("finding", "change"), WRONG.items(), ids=WRONG)
async def test_the_lint_finds_an_answer_that_was_not_meant(desk, finding, change):
    asked = wire.parse(request_for(desk, await desk.certify("a.example.com")))
    (issuing,) = responder(desk)._issuing["default"].values()
    now = 1_790_000_000 * 10**6
    meant = wire.Answer(
        key_hash=issuing.key_hash, algorithm=issuing.delegated.algorithm, certificates=issuing.certificates, nonce=None,
        statuses=(wire.Status(asked.certificates[0]),), produced_at=now, next_update=now + 10**6,
    )  # fmt: skip
    data = wire.compose(meant)

    for wrong in (replace(meant, **change), replace(meant, statuses=(replace(meant.statuses[0], revoked_at=now),))):
        with pytest.raises(Internal) as refused:
            wire._lint(data, wrong)
        assert (finding if wrong.statuses != () and wrong.statuses == meant.statuses else "") in refused.value.cause


# ---- Parsing


def template() -> bytes:
    hashed = [der.octet_string(b"h" * 32)] * 2
    id = der.sequence(der.sequence(bytes.fromhex("0609608648016503040201")), *hashed, der.integer(2**126 + 1))
    nonce = der.sequence(NONCE, der.octet_string(der.octet_string(b"n" * 16)))
    return with_extensions(der.sequence(der.sequence(der.sequence(der.sequence(id)))), nonce)


class TestAnyRequest(ParserContract):
    valid = (template(),)
    refusals = wire.Malformed
    costly = (
        *((b"\x30\x82\x1f\x00" * depth,) for depth in (50, 2000)),
        (several(*[template()] * 32),),
        (bytes(wire.MAX_BYTES),),
    )

    def read(self, *parts: bytes) -> None:
        asked = wire.parse(parts[0])
        assert asked.certificates
        assert all(one.der in parts[0] for one in asked.certificates)
