"""Certificates of clients (RFC 8705) as a proxy shows them (RFC 9440), and whoever has the token without the certificate."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from security.idp_desk import Desk, open_desk
from security.test_idp_dpop import Key

from greatseal.jose.compact import b64url_decode
from greatseal.testing.desk import CALLBACK, VERIFIER, Answer, bearer
from greatseal_client_auth_mtls.certificates import read, thumbprint_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOUND = {"tls_client_certificate_bound_access_tokens": True}


class Certificate:
    """What a proxy was shown. ``shown`` is its header."""

    def __init__(self, by: trustme.CA, name: str = "client.example") -> None:
        issued = by.issue_cert(name)
        self.pem = issued.cert_chain_pems[0].bytes().decode()
        self.der = x509.load_pem_x509_certificate(self.pem.encode()).public_bytes(Encoding.DER)
        self.thumbprint = thumbprint_of(self.der)
        self.shown = {"Client-Cert": f":{b64encode(self.der).decode()}:"}


CA, STRANGER = trustme.CA(), trustme.CA()
OWN, OTHER, FOREIGN = Certificate(CA), Certificate(CA), Certificate(STRANGER)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    folder = tmp_path_factory.mktemp("idp")
    CA.cert_pem.write_to_path(folder / "cas.pem")
    proxied, oauth = {"trusted_proxies": ["127.0.0.1/32"]}, {"client_ca_file": str(folder / "cas.pem")}
    async with open_desk(folder, "client-auth-mtls", "dpop", server=proxied, oauth=oauth) as desk:
        yield desk


async def registered(desk: Desk, method: str = "tls_client_auth", certificate: Certificate | None = OWN, **fields: Any) -> dict[str, Any]:
    pem = certificate and certificate.pem
    whole = {"client_secret": None, "token_endpoint_auth_method": method, "tls_client_certificate": pem, **fields}
    return await desk.registered(**whole)


async def send(desk: Desk, path: str, client: Any, *shown: dict[str, str], **form: str) -> Answer:
    """A form with ``client_id``, and with the headers of certificates and proofs."""
    headers = {name: value for one in shown for name, value in one.items()}
    return await desk.ask("POST", path, data={"client_id": client["client_id"], **form}, headers=headers)


async def own_token(desk: Desk, client: Any, *shown: dict[str, str]) -> Answer:
    return await send(desk, "/token", client, *shown, grant_type="client_credentials", scope="profile")


async def redeem(desk: Desk, client: Any, *shown: dict[str, str]) -> Answer:
    code = await desk.code(await desk.cookie("ann"), client_id=client["client_id"], scope="openid offline_access")
    form = {"code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    return await send(desk, "/token", client, *shown, grant_type="authorization_code", **form)


def claims_of(token: str) -> Any:
    return json.loads(b64url_decode(token.split(".")[1]))


CREDENTIALS = {"grant_types": ["client_credentials"], "redirect_uris": [], "scopes": ["profile"]}


@pytest.mark.parametrize(
    ("method", "certificate"), [("tls_client_auth", OWN), ("self_signed_tls_client_auth", FOREIGN)], ids=["ca", "self-signed"]
)
async def test_idp_030_idp_031_idp_038_idp_040_r88_a_certificate_proves_its_client_and_is_not_kept(desk, method, certificate):
    client = await registered(desk, method, certificate, **CREDENTIALS)

    assert client["tls_client_certificate_sha256"] == certificate.thumbprint
    assert "BEGIN CERTIFICATE" not in json.dumps(client)
    assert "tls_client_certificate" not in client
    assert (await own_token(desk, client, certificate.shown)).status == 200
    for path, form in (("/introspect", {"token": "x"}), ("/revoke", {"token": "x"})):
        assert (await send(desk, path, client, certificate.shown, **form)).status == 200
    assert (await desk.put(client, client_name="Renamed")).status == 200
    assert (await own_token(desk, client, certificate.shown)).status == 200


@pytest.mark.parametrize("method", ["tls_client_auth", "self_signed_tls_client_auth"])
async def test_idp_038_without_a_certificate_no_client_is_registered(desk, method):
    whole = {"client_secret": None, "token_endpoint_auth_method": method}
    for pem, said in ((None, "must be given"), ("x", "exactly one certificate"), (OWN.pem + OTHER.pem, "exactly one certificate")):
        answer = await desk.register(**whole, tls_client_certificate=pem)

        assert answer.outcome == (400, "invalid_client_metadata")
        assert said in answer.json["error_description"]
    if method == "tls_client_auth":
        assert "client_ca_file" in (await desk.register(**whole, tls_client_certificate=FOREIGN.pem)).json["error_description"]


async def test_s058_the_registered_certificate_alone_proves_a_client(desk):
    client = await registered(desk, **CREDENTIALS)
    secret = await desk.registered(**CREDENTIALS)
    refused = {
        "nothing": (client, {}),
        "of the same subject and CA": (client, OTHER.shown),
        "of another CA": (client, FOREIGN.shown),
        "no certificate": (client, {"Client-Cert": ":eHg=:"}),
        "of a client with a secret": (secret, OWN.shown),
        "of nobody": ({"client_id": "nobody"}, OWN.shown),
    }

    answers = [await own_token(desk, one, shown) for one, shown in refused.values()]

    assert {answer.outcome for answer in answers} == {(401, "invalid_client")}
    assert len({answer.text for answer in answers}) == 1, "nobody learns what was wrong"
    nameless = await desk.ask("POST", "/token", data={"grant_type": "client_credentials"}, headers=OWN.shown)
    assert nameless.outcome == (401, "invalid_client")
    broken = await own_token(desk, client, {"Client-Cert": "x"})
    assert broken.outcome == (400, "invalid_request")
    assert "RFC 9440" in broken.json["error_description"]


async def test_s058_a_header_of_nobodys_proxy_proves_nothing(tmp_path):
    CA.cert_pem.write_to_path(tmp_path / "cas.pem")
    oauth = {"client_ca_file": str(tmp_path / "cas.pem")}
    async with open_desk(tmp_path, "client-auth-mtls", server={"trusted_proxies": ["192.0.2.0/24"]}, oauth=oauth) as desk:
        client = await registered(desk, **CREDENTIALS)

        assert (await own_token(desk, client, OWN.shown)).outcome == (401, "invalid_client")


async def test_s057_a_client_with_a_certificate_sends_nothing_else(desk):
    client = await registered(desk, **CREDENTIALS)

    posted = await send(desk, "/token", client, OWN.shown, grant_type="client_credentials", client_secret="s" * 43)
    assert posted.outcome == (401, "invalid_client")
    basic = {"Authorization": "Basic " + b64encode(f"{client['client_id']}:{'s' * 43}".encode()).decode()}
    assert (await own_token(desk, client, OWN.shown, basic)).outcome == (401, "invalid_client")


async def test_s052_a_change_is_checked_as_a_new_client(desk):
    client = await registered(desk, **CREDENTIALS)

    for change in ({"tls_client_certificate": None}, {"tls_client_certificate": FOREIGN.pem}, {"client_secret": "s" * 43}):
        assert (await desk.put(client, **change)).outcome == (400, "invalid_client_metadata")
    assert (await own_token(desk, client, OWN.shown)).status == 200
    assert (await desk.put(client, tls_client_certificate=OTHER.pem)).status == 200
    assert (await own_token(desk, client, OWN.shown)).outcome == (401, "invalid_client")
    assert (await own_token(desk, client, OTHER.shown)).status == 200


async def test_a_blocked_key_proves_and_opens_nothing(desk):
    lost = Certificate(CA)
    client = await registered(desk, certificate=lost, **CREDENTIALS, **BOUND)
    token = (await own_token(desk, client, lost.shown)).json["access_token"]

    host = desk.service.host("idp")
    await host.db.write(lambda tx: host.blocked_keys.block(tx, read(lost.der).key, reason="leaked", by="admin"))

    assert (await own_token(desk, client, lost.shown)).outcome == (401, "invalid_client")
    assert (await desk.ask("GET", "/userinfo", headers={**bearer(token), **lost.shown})).outcome == (401, "invalid_token")


# ---- Tokens that are bound to a certificate


@pytest.mark.parametrize("format", ["jwt", "opaque"])
async def test_a_bound_token_is_refused_without_its_certificate_everywhere(desk, format):
    client = await registered(desk, **BOUND, access_token_format=format)
    tokens = (await redeem(desk, client, OWN.shown)).json
    token = tokens["access_token"]

    assert tokens["token_type"] == "Bearer"
    about = (await send(desk, "/introspect", client, OWN.shown, token=token)).json
    assert (about["token_type"], about["cnf"]) == ("Bearer", {"x5t#S256": OWN.thumbprint})
    if format == "jwt":
        assert claims_of(token)["cnf"] == {"x5t#S256": OWN.thumbprint}
    assert (await desk.ask("GET", "/userinfo", headers={**bearer(token), **OWN.shown})).json["sub"] == "ann@LOCALHOST"
    assert (await desk.ask("POST", "/userinfo", data={"access_token": token}, headers=OWN.shown)).status == 200
    for shown in ({}, OTHER.shown, FOREIGN.shown):
        for answer in (
            await desk.ask("GET", "/userinfo", headers={**bearer(token), **shown}),
            await desk.ask("POST", "/userinfo", data={"access_token": token}, headers=shown),
        ):
            assert answer.outcome == (401, "invalid_token")
            assert answer.headers["WWW-Authenticate"].startswith('Bearer error="invalid_token"')
            assert "RFC 8705" in answer.json["error_description"]


async def test_a_public_client_refreshes_with_its_certificate_alone(desk):
    client = await registered(desk, "none", None, **BOUND)
    tokens = (await redeem(desk, client, FOREIGN.shown)).json
    assert claims_of(tokens["access_token"])["cnf"] == {"x5t#S256": FOREIGN.thumbprint}
    again = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}

    assert (await send(desk, "/token", client, OWN.shown, **again)).outcome == (400, "invalid_grant")
    assert (await send(desk, "/token", client, **again)).outcome == (400, "invalid_request")
    fresh = await send(desk, "/token", client, FOREIGN.shown, **again)
    assert claims_of(fresh.json["access_token"])["cnf"] == {"x5t#S256": FOREIGN.thumbprint}


async def test_a_client_of_another_method_is_bound_to_the_certificate_that_it_shows(desk):
    client = await desk.registered(**BOUND, grant_types=["client_credentials"])
    form = {"grant_type": "client_credentials", "scope": "profile"}

    bound = await desk.form("/token", form, by=client, headers=FOREIGN.shown)
    assert claims_of(bound.json["access_token"])["cnf"] == {"x5t#S256": FOREIGN.thumbprint}
    unbound = await desk.form("/token", form, by=client)
    assert unbound.outcome == (400, "invalid_request")
    assert "RFC 8705" in unbound.json["error_description"]


async def test_a_certificate_that_is_there_unasked_binds_nothing(desk):
    client = await desk.registered(grant_types=["client_credentials"])
    form = {"grant_type": "client_credentials", "scope": "profile"}

    assert "cnf" not in claims_of((await desk.form("/token", form, by=client, headers=OWN.shown)).json["access_token"])


# ---- Beside DPoP


async def test_with_two_bindings_a_token_has_one_key(desk):
    """No certificate binds unless the client asks for it, and then no proof may be there as well."""
    key, form = Key(desk), {"grant_type": "client_credentials", "scope": "profile"}
    plain, bound = [await desk.registered(grant_types=["client_credentials"], **more) for more in ({}, BOUND)]
    both = await desk.register(dpop_bound_access_tokens=True, **BOUND)

    jkt = await desk.form("/token", form, by=plain, headers={**OWN.shown, **key.proof("POST", "/token")})
    assert claims_of(jkt.json["access_token"])["cnf"] == {"jkt": key.jkt}
    assert jkt.json["token_type"] == "DPoP"
    refused = await desk.form("/token", form, by=bound, headers={**OWN.shown, **key.proof("POST", "/token")})
    assert refused.outcome == (400, "invalid_request")
    assert "two keys" in refused.json["error_description"]
    assert both.outcome == (400, "invalid_client_metadata")
    by_certificate = await registered(desk, **CREDENTIALS, dpop_bound_access_tokens=True)
    mixed = await own_token(desk, by_certificate, OWN.shown, key.proof("POST", "/token"))
    assert claims_of(mixed.json["access_token"])["cnf"] == {"jkt": key.jkt}


# ---- What is said of it


async def test_metadata_says_what_is_offered(desk):
    for document in ("openid-configuration", "oauth-authorization-server"):
        said = (await desk.ask("GET", f"/.well-known/{document}")).json

        assert said["tls_client_certificate_bound_access_tokens"] is True
        assert {"tls_client_auth", "self_signed_tls_client_auth"} <= set(said["token_endpoint_auth_methods_supported"])
        assert "mtls_endpoint_aliases" not in said


async def test_while_it_is_disabled_nothing_of_it_is_said_or_done(tmp_path):
    async with open_desk(tmp_path, server={"trusted_proxies": ["127.0.0.1/32"]}) as desk:
        said = (await desk.ask("GET", "/.well-known/openid-configuration")).json
        refused = await desk.register(token_endpoint_auth_method="tls_client_auth", client_secret=None, tls_client_certificate=OWN.pem)
        unbound = await desk.register(**BOUND)
        token = await desk.form("/token", {"grant_type": "client_credentials"}, by=desk.client, headers=OWN.shown)

    assert not {name for name in said if "tls" in name}
    assert not [method for method in said["token_endpoint_auth_methods_supported"] if "tls" in method]
    assert refused.outcome == unbound.outcome == (400, "invalid_client_metadata")
    assert token.error != "invalid_client"
