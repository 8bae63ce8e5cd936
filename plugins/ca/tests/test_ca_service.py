"""The inventory and the service ISSUANCE: reservation, signing, recording, settling."""

import hashlib

import pytest
from cryptography import x509
from sqlalchemy import select

from greatseal.api.acme import InvalidProfile
from greatseal.api.issuance import Issued, Issuer, SerialTaken
from greatseal.api.problems import Conflict, Internal, NotFound, Unavailable
from greatseal.testing.schema import schema_matches
from greatseal.testing.store import audit
from greatseal_ca import tables
from greatseal_ca.lint import Expected, lint

CERTIFICATES = select(tables.certificate)
EVENTS = select(audit.c.event_type, audit.c.service, audit.c.principal, audit.c.detail, audit.c.outcome).order_by(audit.c.id)


def test_the_migration_makes_the_declared_tables(database_url):
    assert schema_matches(tables.SCHEMA, database_url) == []


async def test_a_certificate_is_recorded_before_it_is_signed(desk):
    draft = await desk.compose("a.example.com", order_id="order-1")
    prepared = await desk.db.write(desk.issuance.reserve, draft)

    assert await desk.db.read(desk.issuance.reserved, draft.id) == prepared
    (row,) = await desk.rows(CERTIFICATES)
    assert (row.status, row.serial, row.tbs, row.der) == ("signing", draft.serial.hex(), draft.tbs, None)
    assert (row.account_id, row.order_id, row.profile) == ("account-1", "order-1", "default")
    assert row.spki_sha256 == hashlib.sha256(draft.request.csr.spki).digest()
    assert (await desk.issuance.certificate(draft.id)).status == "signing"


async def test_the_recorded_bytes_are_the_ones_that_are_signed(desk):
    draft = await desk.compose("a.example.com")
    prepared = await desk.db.write(desk.issuance.reserve, draft)
    issued = await desk.issuance.issue(prepared)
    certificate = await desk.db.write(desk.issuance.record, prepared, issued)

    assert x509.load_der_x509_certificate(certificate.der).tbs_certificate_bytes == draft.tbs
    assert (certificate.status, certificate.serial, certificate.id) == ("issued", draft.serial, draft.id)
    assert certificate.chain == issued.chain
    assert certificate.media_type == "application/pem-certificate-chain"
    assert await desk.issuance.certificate(draft.id) == certificate
    assert await desk.db.read(desk.issuance.reserved, draft.id) is None


async def test_issuing_writes_an_audit_event_for_the_account(desk):
    certificate = await desk.certify("a.example.com")

    *made, issued = await desk.rows(EVENTS)
    assert [event.event_type for event in made] == ["ca.created", "ca.created"]
    assert (issued.event_type, issued.service, issued.principal) == ("cert.issue", "ca", "account-1")
    assert certificate.serial.hex() in issued.detail


async def test_a_reservation_is_recorded_once(desk):
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    issued = await desk.issuance.issue(prepared)
    await desk.db.write(desk.issuance.record, prepared, issued)

    with pytest.raises(Conflict):
        await desk.db.write(desk.issuance.record, prepared, issued)
    await desk.db.write(desk.issuance.abandon, prepared)
    assert (await desk.issuance.certificate(prepared.id)).status == "issued"


async def test_an_abandoned_reservation_is_unknown_and_cannot_be_recorded(desk):
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    await desk.db.write(desk.issuance.abandon, prepared)

    assert (await desk.issuance.certificate(prepared.id)).status == "unknown"
    assert await desk.db.read(desk.issuance.reserved, prepared.id) is None
    *_, event = await desk.rows(EVENTS)
    assert (event.event_type, event.outcome) == ("cert.unknown", "failure")
    with pytest.raises(Conflict):
        await desk.db.write(desk.issuance.record, prepared, await desk.issuance.issue(prepared))


@pytest.mark.parametrize("key_type", ["ec:P-256", "ec:P-384", "rsa:2048", "ed25519"])
async def test_settling_gives_the_very_certificate_that_issuing_gave(open_desk, key_type):
    desk = await open_desk(ca={"key_type": key_type})
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))

    assert await desk.issuance.settle(prepared) == await desk.issuance.issue(prepared)


async def test_settling_does_not_sign_twice_with_a_key_that_does_not_repeat_itself(open_desk):
    desk = await open_desk(ca={"key_type": "ml-dsa-44"})
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))

    assert await desk.issuance.settle(prepared) is None


async def test_a_reservation_of_another_key_is_not_signed(desk):
    import msgspec

    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    foreign = msgspec.structs.replace(prepared, kid="another")

    assert await desk.issuance.settle(foreign) is None
    with pytest.raises(Unavailable):
        await desk.issuance.issue(foreign)


async def test_s144_a_serial_that_exists_is_refused_and_another_is_drawn(desk):
    issuer = desk.service.host("ca").components(Issuer)["x509"]
    draw, taken = issuer.draw_serial, issuer.draw_serial()
    serials = iter([taken, taken])
    issuer.draw_serial = lambda: next(serials, None) or draw()
    first = await desk.certify("a.example.com")
    second = await desk.compose("b.example.com")

    assert first.serial == second.serial == taken
    with pytest.raises(SerialTaken):
        await desk.db.write(desk.issuance.reserve, second)
    assert (await desk.certify("b.example.com")).serial != taken
    assert len(await desk.rows(CERTIFICATES)) == 2


async def test_serials_are_never_drawn_twice_and_always_of_one_length(desk):
    drafts = [await desk.compose("a.example.com") for _ in range(200)]

    assert len({draft.serial for draft in drafts}) == 200
    assert {len(draft.serial) for draft in drafts} == {16}
    assert all(0x40 <= draft.serial[0] < 0x80 for draft in drafts)


async def test_a_chain_is_stored_once_and_found_after_a_change_of_the_ca(desk):
    first, second = await desk.certify("a.example.com"), await desk.certify("b.example.com")
    rows = await desk.rows(select(tables.chain))
    other = Issued(der=first.der, chain=desk.authority().chain[1:], media_type="x/y", serial=b"\x01")
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("c.example.com"))
    await desk.db.write(desk.issuance.record, prepared, other)

    assert first.chain == second.chain
    assert [row.certificates for row in rows] == [b"".join(first.chain)]
    assert (await desk.issuance.certificate(prepared.id)).chain == other.chain


async def test_an_unknown_certificate_is_none(desk):
    assert await desk.issuance.certificate("nothing") is None


# ---- Profiles


async def test_without_profiles_a_requested_one_does_not_count(desk):
    assert desk.issuance.profile("anything").id == "default"
    assert list(desk.issuance.profiles()) == ["default"]
    assert desk.issuance.profile(None).validity_days == 90


async def test_a_configured_profile_is_chosen_by_name_and_default_without(open_desk):
    desk = await open_desk(profiles={"first": {"validity_days": 1}, "default": {"validity_days": 2}})

    assert desk.issuance.profile("first").validity_days == 1
    assert desk.issuance.profile(None).id == "default"
    assert desk.issuance.profiles()["first"].description == "1 days, serverAuth"
    with pytest.raises(InvalidProfile, match="offered are first, default"):
        desk.issuance.profile("second")


async def test_the_first_profile_serves_when_none_is_named_default(open_desk):
    desk = await open_desk(profiles={"first": {}, "second": {}})

    assert desk.issuance.profile(None).id == "first"


async def test_each_ca_offers_its_profiles_with_its_lifetime(open_desk):
    cas = [{"id": "one", "is_default": True, "validity_days": 10}, {"id": "two"}]
    desk = await open_desk(ca=cas, profiles={"both": {}, "only": {"ca_ids": ["two"]}})

    assert list(desk.issuance.profiles()) == ["both"]
    assert list(desk.issuance.profiles("two")) == ["both", "only"]
    assert desk.issuance.profile("both").validity_days == 10
    assert desk.issuance.profile("both", "two").validity_days == 90
    with pytest.raises(InvalidProfile):
        desk.issuance.profile("only")
    with pytest.raises(NotFound):
        desk.issuance.profile(None, "three")
    one, two = await desk.certify("a.example.com"), await desk.certify("a.example.com", ca_id="two")
    assert one.chain != two.chain


# ---- Lint


async def composed(desk) -> tuple[x509.Certificate, Expected]:
    issuing = desk.service.kernel.hooks.instances["ca"]._shared(desk.service.host("ca")).authorities.of("default")
    request = desk.request("a.example.com")
    names = (x509.DNSName("a.example.com"),)
    copy, expected, *_ = issuing.copy(request, names, b"\x41" * 16, desk.service.host("ca").clock.now())
    return copy, expected


async def test_the_lint_passes_what_was_meant(desk):
    lint(*await composed(desk))


WRONG = {
    "the signature algorithm": {"algorithm": x509.ObjectIdentifier("1.2.3")},
    "the public key is not": {"spki": b"other"},
    "the names": {"names": frozenset({x509.DNSName("a.example.com"), x509.DNSName("b.example.com")})},
    "extended key usages": {"eku": ("clientAuth",)},
    "the lifetime is longer": {"longest_days": 89},
    "the authority key identifier": {"issuer_key_id": b"other"},
}


@pytest.mark.parametrize(("finding", "change"), WRONG.items(), ids=WRONG)
async def test_the_lint_finds_what_was_not_meant(desk, finding, change):
    import msgspec

    copy, expected = await composed(desk)

    with pytest.raises(Internal) as refused:
        lint(copy, msgspec.structs.replace(expected, **change))
    assert finding in refused.value.cause
    assert refused.value.detail == ""


async def test_the_lint_refuses_a_ca_certificate(desk):
    copy, expected = await composed(desk)

    with pytest.raises(Internal) as refused:
        lint(expected.issuer, expected)
    assert "it is a CA certificate" in refused.value.cause
    assert "keyUsage allows more" in refused.value.cause
    assert copy.subject.rdns
