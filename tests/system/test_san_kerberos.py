"""Kerberos names over HTTP: a profile adds them at finalization, or refuses and the order stays ready."""

import pytest
from cryptography import x509
from rig.acme import acme_site, csr_for
from rig.eab import binding

from greatseal.api.problems import StartProblem
from greatseal.jose.compact import b64url_decode
from greatseal.kernel.kernel import Kernel
from greatseal.testing.service import document

SECRET = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
PROFILES = {
    "default": {},
    "host": {"kpn_san_templates": ["HTTP/{dns}@EXAMPLE.COM", "alice@EXAMPLE.COM"], "ms_upn_san_template": "{dns}@example.com"},
    "person": {"inject_account_kpn": True},
}
ALICE = "3023a00d1b0b4558414d504c452e434f4da1123010a003020101a10930071b05616c696365"


@pytest.fixture
async def site(start_service, database_url):
    server = {"eab_master_secret": SECRET}
    async with acme_site(start_service, "eab", "san-kerberos", database=database_url, server=server, profiles=PROFILES) as site:
        yield site


async def others(client, order):
    """The names of the certificate that are of no type of RFC 5280, by their OID."""
    leaf, *_ = x509.load_pem_x509_certificates((await client.post(order["certificate"])).body)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [(one.type_id.dotted_string, one.value.hex()) for one in names if isinstance(one, x509.OtherName)]


async def test_ca_050_ca_051_ca_183_ca_185_ca_186_a_profile_adds_names_by_its_templates(site):
    client = await site.client()
    ready = await client.ready(site.responder, "b.localhost", "a.localhost", profile="host")

    done = await client.finalize(ready.json, csr_for("b.localhost", "a.localhost"))

    found = await others(client, done.json)
    assert [oid for oid, _ in found] == ["1.3.6.1.5.2.2"] * 3 + ["1.3.6.1.4.1.311.20.2.3"]
    assert [name.encode().hex() in value for name, (_, value) in zip(("b.localhost", "a.localhost"), found, strict=False)] == [True, True]
    assert found[2][1] == ALICE
    assert bytes.fromhex(found[3][1])[2:] == b"b.localhost@example.com"


async def test_ca_015_ca_049_ca_187_s112_the_principal_follows_the_key_to_the_account_and_into_the_certificate(site):
    host, keys = site.service.host("eab"), site.service.kernel.hooks.instances["eab"].keys(site.service.host("eab"))
    given = await host.db.write(keys.obtain, keys.principal("alice@EXAMPLE.COM"))
    alice, nobody = await site.client(register=False), await site.client()
    assert (await alice.register(**binding(alice, given.kid, b64url_decode(given.hmac_key)))).status == 201

    answers = []
    for client in (alice, nobody):
        ready = await client.ready(site.responder, "a.localhost", profile="person")
        answers.append(await client.finalize(ready.json, csr_for("a.localhost")))
    again = await nobody.post(ready.location)

    assert await others(alice, answers[0].json) == [("1.3.6.1.5.2.2", ALICE)]
    assert (answers[1].status, answers[1].error) == (401, "unauthorized")
    assert "which has none" in answers[1].json["detail"]
    assert again.json["status"] == "ready"


def test_a_template_that_cannot_be_is_told_by_check_config(tmp_path):
    profiles = {"host": {"kpn_san_templates": ["HTTP/{host}@R", "HTTP/{dns}"], "ms_upn_san_template": "alice"}}
    with pytest.raises(StartProblem) as refused:
        Kernel(document(tmp_path, ["ca", "acme", "http-01", "resolver", "san-kerberos"], profiles=profiles))

    assert [line.partition(": ")[0] for line in refused.value.messages] == [
        "[profiles.host] kpn_san_templates",
        "[profiles.host] kpn_san_templates",
        "[profiles.host] ms_upn_san_template",
    ]
