"""revokeCert over HTTP (RFC 8555 s7.6), on both databases."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from rig.acme import Key, Site, acme_site, b64url, csr_for
from sqlalchemy import select

from greatseal.api.acme import Unauthorized
from greatseal.clock import FakeClock
from greatseal.db.core_tables import audit
from greatseal_acme.revocation import Revocation
from greatseal_ca.tables import certificate as inventory

RECORDS = select(inventory.c.status, inventory.c.reason, inventory.c.der)
REVOKED = select(audit.c.principal, audit.c.detail).where(audit.c.event_type == "cert.revoke").order_by(audit.c.id)


@pytest.fixture
async def site(start_service, database_url) -> AsyncIterator[Site]:
    async with acme_site(start_service, database=database_url, clock=FakeClock(int(time.time()) * 1_000_000)) as site:
        yield site


class KeyOf(Key):
    """The key of a certificate, to sign requests with."""

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        numbers = private.public_key().public_numbers()
        self.private = private
        self.jwk = {"kty": "EC", "crv": "P-256", "x": b64url(numbers.x.to_bytes(32)), "y": b64url(numbers.y.to_bytes(32))}


def der_of(certificate):
    return certificate.public_bytes(Encoding.DER)


async def issue(client, site, *names, key=None):
    ready = await client.ready(site.responder, *names)
    done = await client.finalize(ready.json, csr_for(*names, key=key))
    assert done.json["status"] == "valid", done.body
    return x509.load_pem_x509_certificates((await client.post(done.json["certificate"])).body)[0]


async def revoke(client, certificate, /, *, key=None, **members):
    """By the account, or by ``key`` where one is given."""
    payload = {"certificate": b64url(der_of(certificate)), **members}
    url = client.directory["revokeCert"]
    if key is None:
        return await client.post(url, payload)
    own, client.key = client.key, key
    try:
        return await client.post(url, payload, kid=None, jwk=key.jwk)
    finally:
        client.key = own


async def record(site, certificate):
    """Status and reason in the inventory."""
    rows = await site.service.host("ca").db.read(lambda tx: tx.all(RECORDS))
    return next((row.status, row.reason) for row in rows if row.der is not None and bytes(row.der) == der_of(certificate))


async def on_list(client, certificate):
    """Whether the list that the certificate names has it."""
    (point,) = certificate.extensions.get_extension_for_class(x509.CRLDistributionPoints).value
    (place,) = point.full_name
    crl = x509.load_der_x509_crl((await client.get(place.value)).body)
    return crl.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None


async def told(site):
    """Who revoked, by the audit log."""
    return [row.principal for row in await site.service.host("ca").db.read(lambda tx: tx.all(REVOKED))]


async def test_s119_the_account_that_ordered_revokes_for_its_reason(site):
    client = await site.client()
    certificate, other = [await issue(client, site, name) for name in ("a.localhost", "b.localhost")]

    done = await revoke(client, certificate, reason=4)

    assert (done.status, done.body) == (200, b"")
    assert [await on_list(client, one) for one in (certificate, other)] == [True, False]
    assert await record(site, certificate) == ("revoked", 4)
    assert await told(site) == [client.kid.rpartition("/")[2]]


@pytest.mark.parametrize(("given", "kept"), [({}, None), ({"reason": 0}, None), ({"reason": 3}, 3), ({"reason": 5}, 5)])
async def test_a_reason_is_kept_and_no_reason_is_none(start_service, given, kept):
    async with acme_site(start_service) as site:
        client = await site.client()
        certificate = await issue(client, site, "a.localhost")

        assert (await revoke(client, certificate, **given)).status == 200
        assert await record(site, certificate) == ("revoked", kept)


async def test_a_certificate_is_revoked_once_and_for_a_compromised_key_again(site):
    client = await site.client()
    certificate = await issue(client, site, "a.localhost")

    answers = [await revoke(client, certificate, **given) for given in ({"reason": 4}, {}, {"reason": 4}, {"reason": 1}, {"reason": 1}, {})]

    assert [one.error for one in answers] == ["", "alreadyRevoked", "alreadyRevoked", "", "alreadyRevoked", "alreadyRevoked"]
    assert {one.status for one in answers} == {200, 400}
    assert await record(site, certificate) == ("revoked", 1)
    assert len(await told(site)) == 2


async def test_of_fifty_revocations_at_once_one_counts(site):
    client = await site.client()
    certificate = await issue(client, site, "a.localhost")
    twins = [await site.client(client.key) for _ in range(50)]

    answers = await asyncio.gather(*(revoke(twin, certificate, reason=5) for twin in twins))

    assert sorted((one.status, one.error) for one in answers) == [(200, "")] + [(400, "alreadyRevoked")] * 49
    assert len(await told(site)) == 1


@pytest.mark.parametrize("reason", [-1, 2, 6, 7, 8, 9, 10, 11, 2**40])
async def test_a_reason_that_is_not_for_subscribers_is_refused(start_service, reason):
    async with acme_site(start_service) as site:
        client = await site.client()
        certificate = await issue(client, site, "a.localhost")

        refused = await revoke(client, certificate, reason=reason)

        assert (refused.status, refused.error) == (400, "badRevocationReason")
        assert "4 (superseded)" in refused.json["detail"]
        assert await record(site, certificate) == ("issued", None)


async def test_s119_the_key_of_the_certificate_revokes_it_as_compromised_and_is_blocked(site):
    client, private = await site.client(), ec.generate_private_key(ec.SECP256R1())
    first, second = [await issue(client, site, name, key=private) for name in ("a.localhost", "b.localhost")]
    ready = await client.ready(site.responder, "c.localhost")
    stranger = await site.client(register=False)

    done = await revoke(stranger, first, key=KeyOf(private), reason=4)
    again, other = await revoke(stranger, first, key=KeyOf(private)), await revoke(stranger, second, key=KeyOf(private))
    refused = await client.finalize(ready.json, csr_for("c.localhost", key=private))

    assert (done.status, again.error, other.status) == (200, "alreadyRevoked", 200)
    assert [await record(site, one) for one in (first, second)] == [("revoked", 1)] * 2
    assert await told(site) == ["holder of the key"] * 2
    assert (refused.status, refused.error) == (400, "badCSR")
    assert (await client.finalize(ready.json, csr_for("c.localhost"))).json["status"] == "valid"


async def test_s119_another_key_revokes_nothing(site):
    client = await site.client()
    certificate = await issue(client, site, "a.localhost")

    answers = [await revoke(client, certificate, key=key) for key in (Key(), client.key)]

    assert {(one.status, one.error) for one in answers} == {(401, "unauthorized")}
    assert await record(site, certificate) == ("issued", None)


async def test_s119_an_account_that_holds_all_names_revokes_for_cessation(site):
    owner, other, partly = [await site.client() for _ in range(3)]
    certificate = await issue(owner, site, "a.localhost", "b.localhost")
    await other.ready(site.responder, "a.localhost")
    pending = await other.order("b.localhost")
    await partly.ready(site.responder, "a.localhost")

    before = [await revoke(one, certificate, reason=4) for one in (other, partly)]
    assert await other.prove(pending.json["authorizations"][0], site.responder) == "valid"
    done = await revoke(other, certificate, reason=4)

    assert {(one.status, one.error) for one in before} == {(401, "unauthorized")}
    assert done.status == 200
    assert await record(site, certificate) == ("revoked", 5)
    assert await told(site) == [other.kid.rpartition("/")[2]]


async def test_s119_what_an_account_held_once_revokes_nothing(site):
    owner, lapsed, given_up = [await site.client() for _ in range(3)]
    certificate = await issue(owner, site, "a.localhost")
    ready = await given_up.ready(site.responder, "a.localhost")
    await given_up.post(ready.json["authorizations"][0], {"status": "deactivated"})
    await lapsed.ready(site.responder, "a.localhost")
    site.service.kernel.clock.advance(86_400)
    for client in (lapsed, given_up):
        client.nonces.clear()

    answers = [await revoke(one, certificate) for one in (lapsed, given_up)]

    assert {(one.status, one.error) for one in answers} == {(401, "unauthorized")}
    assert await record(site, certificate) == ("issued", None)


async def test_s109_an_account_that_ended_revokes_nothing(site):
    client, twin = await site.client(), await site.client()
    certificate = await issue(client, site, "a.localhost")
    await client.post(client.kid, {"status": "deactivated"})

    refused, key = await revoke(client, certificate), await revoke(twin, certificate, key=client.key)

    assert {(one.status, one.error) for one in (refused, key)} == {(401, "unauthorized")}
    assert await record(site, certificate) == ("issued", None)


async def test_s109_an_account_that_ended_meanwhile_revokes_nothing(site):
    client = await site.client()
    certificate = await issue(client, site, "a.localhost")
    await client.post(client.kid, {"status": "deactivated"})
    host = site.service.host("acme")
    revocations = site.service.kernel.hooks.instances["acme"].acme(host).revocations
    id = client.kid.rpartition("/")[2]
    wanted = Revocation(der=der_of(certificate), ca_id="default", reason=None, account_id=id, spki_sha256="")

    with pytest.raises(Unauthorized):
        await host.db.write(revocations._revoke, wanted)
    assert await record(site, certificate) == ("issued", None)


async def test_a_certificate_of_another_ca_is_404_below_the_path_of_this_one(start_service):
    async with acme_site(start_service, ca=[{"id": "first", "is_default": True}, {"id": "second"}]) as site:
        client = await site.client()
        certificate = await issue(client, site, "a.localhost")
        url = client.directory["revokeCert"]

        refused = await client.post(url.replace("/acme/", "/acme/second/"), {"certificate": b64url(der_of(certificate))})
        done = await client.post(url.replace("/acme/", "/acme/first/"), {"certificate": b64url(der_of(certificate))})

    assert (refused.status, refused.error) == (404, "malformed")
    assert done.status == 200


async def test_a_certificate_that_is_not_of_the_ca_is_404(site):
    client = await site.client()
    chain = await client.issue(site.responder, "a.localhost")
    leaf = der_of(chain[0])
    url = client.directory["revokeCert"]
    strangers = {"the issuing CA": der_of(chain[1]), "another signature": leaf[:-1] + bytes([leaf[-1] ^ 1])}

    for whose, der in strangers.items():
        refused = await client.post(url, {"certificate": b64url(der)})
        assert (refused.status, refused.error) == (404, "malformed"), whose
    assert await record(site, chain[0]) == ("issued", None)


NO_CERTIFICATES = [{"certificate": sent} for sent in (None, 7, "", "AAAA", "==", "ü")]
NO_REASONS = [{"certificate": "AAAA", "reason": reason} for reason in ("4", True, 1.5)]


@pytest.mark.parametrize("payload", [*NO_CERTIFICATES, *NO_REASONS, {}, [], None])
async def test_what_is_no_certificate_is_malformed(start_service, payload):
    async with acme_site(start_service) as site:
        client = await site.client()

        refused = await client.post(client.directory["revokeCert"], payload)

        assert (refused.status, refused.error) == (400, "malformed")
