"""The inventory and the service ISSUANCE: reservation, signing, recording, settling."""

import hashlib

import pytest
from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID
from msgspec.structs import replace
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from greatseal.api.acme import BadCsr, InvalidProfile
from greatseal.api.issuance import IssuanceRequest, Issued, Issuer, SerialTaken
from greatseal.api.problems import Conflict, Internal, NotFound, Unavailable
from greatseal.testing.schema import at_revision, schema_matches
from greatseal.testing.store import audit
from greatseal_ca import tables
from greatseal_ca.lint import lint

CERTIFICATES = select(tables.certificate)
EVENTS = select(audit.c.event_type, audit.c.service, audit.c.principal, audit.c.detail, audit.c.outcome).order_by(audit.c.id)


def test_the_migration_makes_the_declared_tables(database_url):
    assert schema_matches(tables.SCHEMA, database_url) == []


def test_certificates_of_before_are_kept_when_serials_become_those_of_an_issuer(database_url):
    text = {name: name for name in ("id", "status", "ca_id", "issue_as", "kid", "profile", "serial")}
    row = {**text, "spki_sha256": b"spki", "not_before": 1, "not_after": 2, "created_at": 3, "der": b"der"}
    other = {**row, "id": "other", "issue_as": "mtc"}
    with at_revision(tables.SCHEMA, database_url, "0001") as connection:
        connection.execute(insert(tables.certificate).values(row))

    with at_revision(tables.SCHEMA, database_url, tables.SCHEMA.head) as connection:
        connection.execute(insert(tables.certificate).values(other))
        kept = connection.execute(CERTIFICATES.order_by(tables.certificate.c.id)).mappings().all()

    assert [{name: one[name] for name in row} for one in kept] == [row, other]
    with pytest.raises(IntegrityError), at_revision(tables.SCHEMA, database_url, tables.SCHEMA.head) as connection:
        connection.execute(insert(tables.certificate).values({**row, "id": "third"}))


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
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    foreign = replace(prepared, kid="another")

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


async def test_the_lint_passes_what_was_meant(desk):
    lint(*desk.composed("a.example.com"))


AIA = x509.AuthorityInformationAccess([x509.AccessDescription(AuthorityInformationAccessOID.OCSP, x509.DNSName("a"))])
WRONG = {
    "the public key is not": lambda meant: {"request": replace(meant.request, csr=replace(meant.request.csr, spki=b"other"))},
    "the names": lambda _: {"names": (x509.DNSName("a.example.com"), x509.DNSName("b.example.com"))},
    "extended key usages": lambda meant: {"request": under(meant.request, eku=("clientAuth",))},
    "the lifetime is longer": lambda meant: {"request": under(meant.request, validity_days=89)},
    "the lifetime is not within": lambda meant: {
        "window": replace(meant.window, bounds=replace(meant.window.bounds, end=meant.window.bounds.begin))
    },
    "it is no CA certificate of that path length": lambda meant: {"request": under(meant.request, path_length=0)},
    "the signature algorithm": lambda meant: {"frame": replace(meant.frame, algorithm=b"0\x00")},
    "the issuer is not": lambda meant: {"frame": replace(meant.frame, issuer=b"0\x00")},
    "the serial is not the issuer's": lambda meant: {"frame": replace(meant.frame, serial=b"\x41" * 16)},
    "an extension of the issuer is another or missing": lambda meant: {
        "frame": replace(meant.frame, extensions=(x509.Extension(AIA.oid, False, AIA),))
    },
    "an extension is unknown": lambda meant: {"frame": replace(meant.frame, extensions=())},
}


def under(request: IssuanceRequest, **changes) -> IssuanceRequest:
    """The request under a profile with other members."""
    return replace(request, profile=replace(request.profile, **changes))


@pytest.mark.parametrize(("finding", "change"), WRONG.items(), ids=WRONG)
async def test_the_lint_finds_what_was_not_meant(desk, finding, change):
    tbs, meant = desk.composed("a.example.com")

    with pytest.raises(Internal) as refused:
        lint(tbs, replace(meant, **change(meant)))
    assert finding in refused.value.cause
    assert refused.value.detail == ""


@pytest.mark.parametrize("serial", [b"\x7f" * 7, b"\x41" * 21], ids=["short", "long"])
async def test_the_lint_finds_a_serial_of_the_wrong_length(desk, serial):
    desk.service.host("ca").components(Issuer)["x509"].draw_serial = lambda: serial

    with pytest.raises(Internal) as refused:
        await desk.compose("a.example.com")
    assert "of 64 to 159 bits" in refused.value.cause


async def test_the_key_of_the_ca_is_not_certified(desk):
    request = desk.request("a.example.com")
    own = replace(request.csr, spki=desk.authority().signer.info.spki)

    with pytest.raises(BadCsr, match="the key of the CSR is that of the CA"):
        await desk.issuance.compose(replace(request, csr=own))


async def test_the_lint_refuses_a_ca_certificate(desk):
    tbs, meant = desk.composed("a.example.com")
    issuing = desk.authority().certificate

    with pytest.raises(Internal) as refused:
        lint(issuing.tbs_certificate_bytes, meant)
    assert "it is a CA certificate" in refused.value.cause
    assert "keyUsage is another than the profile's" in refused.value.cause
    with pytest.raises(Internal) as unreadable:
        lint(tbs[:-1], meant)
    assert "cannot be read" in unreadable.value.cause
