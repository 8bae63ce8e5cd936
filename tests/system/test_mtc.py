"""A CA with a log as its operators and ACME clients see it."""

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from rig.acme import acme_site, b64url, csr_for
from rig.operators import AUDIT, OPS, open_office
from sqlalchemy import select

from greatseal.testing.desk import forgetful
from greatseal_ca.tables import certificate as inventory
from greatseal_mtc.tables import revoked

MTC = {"trust_anchor_id": "32473.1"}
TREE = {"default": {"issue_as": "mtc"}}


@pytest.fixture
async def office(start_service, tmp_path, database_url):
    async with forgetful() as http:
        yield await open_office(
            start_service, http, tmp_path, "ca-admin", "ca", "mtc", ca={}, mtc=MTC, profiles=TREE, database={"url": database_url}
        )


async def test_ca_030_an_operator_gets_a_tree_certificate_under_its_own_label(office):
    token = office.tokens[OPS]
    one = await office.certify("a.example")

    pem = await office.get(f"/admin/certs/{one.id}/download", token=token)
    der = await office.get(f"/admin/certs/{one.id}/download?format=der", token=token)
    shown = (await office.get(f"/admin/certs/{one.id}", token=office.tokens[AUDIT])).json
    (listed,) = (await office.get("/admin/certs", token=token)).json

    first, *body, last, end = pem.body.decode().split("\n")
    assert (first, last, end) == ("-----BEGIN STANDALONE MTC CERTIFICATE-----", "-----END STANDALONE MTC CERTIFICATE-----", "")
    assert base64.b64decode("".join(body)) == one.der == der.body
    assert (pem.headers["Content-Type"], der.headers["Content-Type"]) == ("application/x-pem-file", "application/pkix-cert")
    assert (shown["mtc_log_number"], shown["mtc_log_index"], base64.b64decode(shown["mtc_standalone_der"])) == (1, 1, one.der)
    assert (listed["mtc_log_index"], "mtc_standalone_der" in listed) == (1, False)
    assert (await office.get("/admin/stats", token=token)).json["log_entries"] == {"total": 2}


async def test_ca_116_an_acme_client_gets_a_tree_certificate_in_der_and_revokes_it(start_service):
    async with acme_site(start_service, "mtc", mtc=MTC, profiles=TREE) as site:
        client = await site.client()
        order = await client.ready(site.responder, "a.localhost")
        done = await client.finalize(order.json, csr_for("a.localhost"))
        fetched = await client.post(done.json["certificate"])

        certificate = x509.load_der_x509_certificate(fetched.body)
        revocation = {"certificate": b64url(certificate.public_bytes(Encoding.DER))}
        other = {"certificate": b64url(fetched.body[:-1] + bytes([fetched.body[-1] ^ 1]))}
        unknown = await client.post(client.directory["revokeCert"], other)
        answer = await client.post(client.directory["revokeCert"], revocation)
        store = site.service.kernel.store
        (row,) = await store.read(lambda tx: tx.all(select(inventory.c.status, inventory.c.crl_shard)))
        rows = await store.read(lambda tx: tx.all(select(revoked)))
        ranges = await site.service.kernel.hooks.instances["mtc"].parts(site.service.host("mtc")).logs.revoked.of("default", 1)

    assert fetched.headers["Content-Type"] == "application/pkix-cert"
    assert (answer.status, unknown.status, row.status, row.crl_shard, len(rows)) == (200, 404, "revoked", None, 1)
    assert ranges == [(1, 2)]
