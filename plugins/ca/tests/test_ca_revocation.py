"""Revocation: reasons, keys that come with it, and the lists and answers that tell of it (RFC 5280 s5, RFC 6960)."""

import asyncio
from functools import partial

import pytest
from cryptography import x509
from cryptography.x509 import ocsp
from msgspec.structs import replace
from sqlalchemy import select

from greatseal import der
from greatseal.api.acme import BadCsr
from greatseal.api.problems import BadRequest, Conflict, Internal
from greatseal.db.tables import insert_new
from greatseal.testing import FakeClock
from greatseal_ca import tables
from greatseal_ca.lists import _verify

REVOKED = ocsp.OCSPCertStatus.REVOKED


async def revocation_list(desk, path="/ca/crl"):
    status, headers, body = await desk.fetch(path)
    assert (status, headers["Content-Type"]) == (200, "application/pkix-crl")
    return x509.load_der_x509_crl(body)


def number_of(crl) -> int:
    return crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def told(crl) -> dict[int, x509.ReasonFlags | None]:
    return {one.serial_number: next((extension.value.reason for extension in one.extensions), None) for one in crl}


def signed(prepared) -> bytes:
    """As if it had been signed and nobody knew."""
    return der.signed(prepared.tbs, der.children(prepared.tbs)[2], b"\0")


def serial(certificate) -> int:
    return int.from_bytes(certificate.serial)


# ---- What is recorded


@pytest.mark.parametrize("reason", [None, 0, 1, 3, 4, 5, 9])
async def test_each_reason_of_an_end_entity_is_taken_and_none_is_said_by_leaving_it_out(desk, reason):
    certificate = await desk.certify("a.example.com")
    revoked = await desk.revoke(certificate, reason)

    assert (revoked.status, revoked.reason) == ("revoked", reason or None)
    flag = told(await revocation_list(desk))[serial(certificate)]
    words = {1: "keyCompromise", 3: "affiliationChanged", 4: "superseded", 5: "cessationOfOperation", 9: "privilegeWithdrawn"}
    assert (flag and flag.value) == words.get(reason)


@pytest.mark.parametrize("reason", [2, 6, 7, 8, 10, 11, -1])
async def test_a_reason_that_no_end_entity_has_is_refused_with_those_that_there_are(desk, reason):
    certificate = await desk.certify("a.example.com")

    with pytest.raises(BadRequest, match=f"the reason {reason} is none of 0 .unspecified., 1 .keyCompromise., 3"):
        await desk.revoke(certificate, reason)
    assert told(await revocation_list(desk)) == {}


async def test_a_second_revocation_can_only_say_that_the_key_is_compromised(desk):
    certificate = await desk.certify("a.example.com")
    first = await desk.revoke(certificate, 4)
    with pytest.raises(Conflict, match="can only give the reason keyCompromise"):
        await desk.revoke(certificate, 5)
    second = await desk.revoke(certificate, 1)
    with pytest.raises(Conflict, match="the certificate is revoked"):
        await desk.revoke(certificate, 1)

    assert (second.reason, second.revoked_at) == (1, first.revoked_at)
    assert told(await revocation_list(desk)) == {serial(certificate): x509.ReasonFlags.key_compromise}
    assert (await desk.ask(certificate)).revocation_reason is x509.ReasonFlags.key_compromise


@pytest.mark.parametrize("first", [None, 4])
async def test_a_key_that_turns_out_compromised_is_told_of_its_certificate_alone(desk, first):
    certificate, other = await desk.certify("a.example.com"), await desk.certify("b.example.com")
    for one in (certificate, other):
        await desk.revoke(one, first)
    shard = (await desk.rows(select(tables.certificate.c.crl_shard).where(tables.certificate.c.id == certificate.id)))[0].crl_shard
    same = {"ca_id": "default", "shard": 0, "serial": certificate.serial.hex(), "revoked_at": 1, "reason": 4, "not_after": 2**62}
    await desk.db.write(lambda tx: tx.run(insert_new(tables.revocation), **same))  # a certificate by the root may have the serial too
    of_others = (
        select(tables.crl.c.shard, tables.crl.c.revision).where(tables.crl.c.shard != shard),
        select(tables.revocation).where(tables.revocation.c.shard != shard),
    )
    before = [await desk.rows(one) for one in of_others]
    await desk.revoke(certificate, 1)

    flag = x509.ReasonFlags.superseded if first else None
    assert told(await revocation_list(desk)) == {serial(certificate): x509.ReasonFlags.key_compromise, serial(other): flag}
    assert [await desk.rows(one) for one in of_others] == before
    assert [len(one) for one in before] == [1, 1]


async def test_what_was_not_issued_is_not_revoked(desk):
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))

    for reason in (None, 1):
        with pytest.raises(Conflict, match="the certificate is signing"):
            await desk.db.write(partial(desk.issuance.revoke, by="alice"), prepared.id, reason)
    assert (await desk.issuance.certificate(prepared.id)).status == "signing"


async def test_a_compromised_key_is_blocked_at_once_and_never_certified_again_even_when_it_is_unblocked(desk):
    certificate = await desk.certify("a.example.com")
    waiting = await desk.compose("b.example.com")
    await desk.revoke(certificate, 1)
    host, name = desk.service.host("ca"), waiting.request.csr.spki_sha256

    assert (await host.blocked_keys.find(name)).reason == "keyCompromise"
    with pytest.raises(BadCsr, match="is blocked"):
        await desk.db.write(desk.issuance.reserve, waiting)
    assert await host.db.write(host.blocked_keys.unblock, name, by="alice")
    with pytest.raises(BadCsr, match="was revoked for keyCompromise"):
        await desk.db.write(desk.issuance.reserve, waiting)


async def test_another_reason_blocks_no_key(desk):
    await desk.revoke(await desk.certify("a.example.com"), 4)

    assert (await desk.certify("a.example.com")).status == "issued"


async def test_a_reservation_that_was_given_up_is_told_as_revoked(desk):
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    await desk.db.write(desk.issuance.abandon, prepared)
    await desk.parts.lists.run()

    assert told(await revocation_list(desk)) == {int.from_bytes(prepared.serial): None}
    issued = replace(await desk.certify("b.example.com"), der=signed(prepared))
    assert (await desk.issuance.certificate(prepared.id)).revoked_at is not None
    assert (await desk.ask(issued)).certificate_status is REVOKED


# ---- Lists


@pytest.mark.parametrize("key_type", ["ec:P-256", "ec:P-384", "rsa:2048", "ed25519", "ml-dsa-44"])
async def test_a_list_with_a_wrong_signature_is_not_served(open_desk, key_type):
    desk = await open_desk(ca=[{"id": "default", "is_default": True, "key_type": key_type}])
    _, _, body = await desk.fetch("/ca/crl")
    signing = desk.parts.lists._listings["default", 1].signing
    tbs, algorithm, signature = der.children(body)
    version, *rest = der.children(tbs)
    other = der.sequence(version, *rest[:2], rest[3], rest[2], *rest[4:])  # its times, exchanged

    _verify(body, signing)
    for wrong in (der.sequence(other, algorithm, signature), body[:-1] + bytes([body[-1] ^ 1])):
        with pytest.raises(Internal) as refused:
            _verify(wrong, signing)
        assert "under a revocation list is wrong" in refused.value.cause


async def test_a_list_has_the_fields_of_the_reference(desk):
    status, headers, body = await desk.fetch("/ca/crl")
    crl, issuing = x509.load_der_x509_crl(body), desk.authority().certificate
    values = {type(one.value): one for one in crl.extensions}

    assert (status, headers["Content-Type"]) == (200, "application/pkix-crl")
    assert crl.is_signature_valid(issuing.public_key())
    assert crl.issuer == issuing.subject
    assert (crl.next_update_utc - crl.last_update_utc).total_seconds() == 86_400
    scope = values.pop(x509.IssuingDistributionPoint)
    assert scope.critical
    assert scope.value.only_contains_user_certs
    assert [one.value for one in scope.value.full_name] == [f"{desk.service.url}/ca/crl"]
    assert not values.pop(x509.CRLNumber).critical
    own = issuing.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.key_identifier
    assert values.pop(x509.AuthorityKeyIdentifier).value.key_identifier == own
    assert not values
    assert b"\x30\x00" not in body  # no list of nothing (RFC 5280 s5.1.2.6)


async def test_a_list_may_be_kept_by_caches_and_is_sent_once(desk):
    _, headers, _ = await desk.fetch("/ca/crl")
    again = await desk.fetch("/ca/crl", headers={"If-None-Match": headers["ETag"]})
    await desk.revoke(await desk.certify("a.example.com"))
    other, fresh, body = await desk.fetch("/ca/crl", headers={"If-None-Match": headers["ETag"]})

    assert (again[0], again[2]) == (304, b"")
    assert headers["Cache-Control"].startswith("public, max-age=86")
    assert (other, len(body) > 0) == (200, True)
    assert fresh["ETag"] != headers["ETag"]


async def test_numbers_only_grow_whatever_the_clock_and_the_process_do(open_desk):
    clock = FakeClock()
    desk = await open_desk(clock=clock)
    lists = desk.parts.lists
    seen = [number_of(await revocation_list(desk))]
    for seconds in (0, 0, 3600, -7200, 0, -86_400, 10):
        clock.advance(seconds)
        await lists.force("default")
        seen.append(number_of(await revocation_list(desk)))

    assert seen == sorted(set(seen))
    rows = await desk.rows(select(tables.crl_number).where(tables.crl_number.c.shard == 1))
    assert sorted(row.number for row in rows) == seen


async def test_r120_revocations_at_once_are_answered_after_a_list_that_has_them_and_share_lists(desk):
    certificates = [await desk.certify(f"{number}.example.com") for number in range(20)]
    before = len(await desk.rows(select(tables.crl_number)))

    async def revoked_and_seen(certificate) -> bool:
        await desk.revoke(certificate)
        served = await desk.parts.lists.find("default", 1)
        return serial(certificate) in told(x509.load_der_x509_crl(served.der))

    assert all(await asyncio.gather(*map(revoked_and_seen, certificates)))
    assert len(await desk.rows(select(tables.crl_number))) - before <= 5
    rows = await desk.db.write(lambda tx: [desk.issuance.revoke(tx, one.id, 1, by="x") for one in certificates])
    made = len(await desk.rows(select(tables.crl_number)))
    await desk.issuance.publish(rows)
    assert len(await desk.rows(select(tables.crl_number))) == made + 1


async def test_r120_a_list_that_is_full_is_followed_by_another_which_says_what_its_certificates_say(open_desk):
    desk = await open_desk()
    desk.parts.shards.limit = 3
    certificates = [await desk.certify(f"{number}.example.com") for number in range(7)]
    urls = []
    for one in certificates:
        leaf = x509.load_der_x509_certificate(one.der)
        (point,) = leaf.extensions.get_extension_for_class(x509.CRLDistributionPoints).value
        urls.append(point.full_name[0].value.removeprefix(desk.service.url))
        await desk.revoke(one)

    assert [one.crl_shard for one in certificates] == [1, 1, 1, 2, 2, 2, 3]
    assert urls == ["/ca/crl"] * 3 + ["/ca/crl/2"] * 3 + ["/ca/crl/3"]
    for path in dict.fromkeys(urls):
        crl = await revocation_list(desk, path)
        assert told(crl).keys() == {serial(one) for one, url in zip(certificates, urls, strict=True) if url == path}
        scope = crl.extensions.get_extension_for_class(x509.IssuingDistributionPoint).value
        assert [one.value for one in scope.full_name] == [desk.service.url + path]
    assert (await desk.fetch("/ca/crl/4"))[0] == 404
    assert (await desk.fetch("/ca/crl/x"))[0] == 404


async def test_expired_certificates_make_room_and_leave_the_list_after_they_were_told(open_desk):
    clock = FakeClock()
    desk = await open_desk(clock=clock, profiles={"default": {"validity_days": 1}})
    lists, shards = desk.parts.lists, desk.parts.shards
    shards.limit = 2
    first = [await desk.certify(f"{number}.example.com") for number in range(2)]
    await desk.revoke(first[0])
    for _ in range(2):  # within its life, and once after it (RFC 5280 s3.3)
        assert serial(first[0]) in told(await revocation_list(desk))
        clock.advance(86_400)
        desk.service.kernel.clock.passed = lambda: clock.now() - 7200 * 10**6
        await lists.force("default")
    assert told(await revocation_list(desk)) == {}
    await lists.force("default")
    await lists.tidy()

    assert await desk.rows(select(tables.revocation)) == []
    assert (await desk.certify("c.example.com")).crl_shard == 1
    assert (await desk.issuance.certificate(first[0].id)).status == "revoked"


async def test_the_root_that_was_made_here_has_a_list_too(desk):
    crl = await revocation_list(desk, "/ca/root.crl")

    assert crl.is_signature_valid(x509.load_der_x509_certificate(desk.authority().chain[-1]).public_key())
    assert told(crl) == {}


async def test_a_ca_whose_root_is_elsewhere_has_no_list_of_the_root(open_desk, brought):
    desk = await open_desk(ca={"key_file": str(brought.key_file), "cert_file": str(brought.cert_file)})

    assert (await desk.fetch("/ca/root.crl"))[0] == 404
    assert (await desk.fetch("/ca/crl"))[0] == 200


async def test_each_ca_has_lists_answers_and_a_certificate_of_its_own(open_desk):
    desk = await open_desk(ca=[{"id": "one", "is_default": True}, {"id": "two"}])
    one, two = [await desk.certify("a.example.com", ca_id=ca_id) for ca_id in ("one", "two")]
    await desk.revoke(two)

    assert told(await revocation_list(desk)) == {}
    assert told(await revocation_list(desk, "/ca/two/crl")).keys() == {serial(two)}
    assert (await desk.ask(two, path="/ca/two/ocsp", ca_id="two")).certificate_status is REVOKED
    assert (await desk.ask(one, ca_id="one")).certificate_status is ocsp.OCSPCertStatus.GOOD
    assert (await desk.ask(two, ca_id="two")).response_status is ocsp.OCSPResponseStatus.UNAUTHORIZED
    status, headers, body = await desk.fetch("/ca/two/cert")
    assert (status, headers["Content-Type"], body) == (200, "application/pkix-cert", desk.authority("two").chain[0])
    assert (await desk.fetch("/ca/three/crl"))[0] == 404


@pytest.mark.parametrize("word", ["crl", "ocsp", "cert"])
async def test_a_ca_is_not_called_by_a_word_of_its_paths(start_service, word):
    with pytest.raises(Exception, match="is a word in the paths"):
        await start_service("ca", ca={"id": word})
