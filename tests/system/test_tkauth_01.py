"""Certificates by authority tokens, over HTTP on both databases: from a ticket or an authority of others to the extension."""

import asyncio
import json
import subprocess
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from joserfc import jwk, jwt
from pyasn1.codec.der.decoder import decode as decode_der
from pyasn1_alt_modules import rfc9118
from rig.acme import AcmeClient, Answer, Site, acme_site, b64url

from greatseal.testing.distributions import install
from greatseal.testing.plugin import StartService

TYPE = "JWTClaimConstraints"
EXTENSION = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.33")
VECTORS = json.loads((Path(__file__).parents[2] / "plugins/tkauth-01/tests/vectors.json").read_text())["vectors"]
ALICE = next(one["tkvalue"] for one in VECTORS if one["case"] == "user")
KEY, STRANGER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
ISSUER = "https://authority.example"

TICKETS = '''
from greatseal import hookimpl
from greatseal.api.directory import Directory, DirectoryUnavailable, Tier
from greatseal.api.kerberos import NotConfigured, Ready
from greatseal.api.services import NEGOTIATE
from greatseal.testing.negotiate import FakeNegotiator

HOST = "host/web1.localhost@LOCALHOST"
NEGOTIATOR = FakeNegotiator(HOST, "alice@LOCALHOST", "host/down.localhost@LOCALHOST")


class Hosts(Directory):
    """What manages what."""

    name = "hosts"
    tier = Tier.DIRECTORY
    realm = "LOCALHOST"

    async def user(self, username):
        return None

    async def group(self, name):
        return None

    async def managed_by(self, principal):
        if principal.startswith("host/down"):
            raise DirectoryUnavailable("the directory cannot be reached")
        return frozenset({"WEB1.localhost", "a.localhost"}) if principal == HOST else None


class Plugin:
    """Tickets that are names."""

    @hookimpl
    def services(self, host):
        return {NEGOTIATE: lambda: NEGOTIATOR}

    @hookimpl
    def directories(self, host):
        return [Hosts()]
'''


def public(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    return {"keys": [jwk.ECKey.import_key(key.public_key()).as_dict(private=False)]}


def fingerprint(client: AcmeClient) -> str:
    """The key of the account as another library knows it (RFC 9447 s3)."""
    digest = urlsafe_b64decode(jwk.ECKey.import_key(client.key.jwk).thumbprint() + "=")
    return "SHA256 " + ":".join(f"{octet:02X}" for octet in digest)


def token(client: AcmeClient, value: str = ALICE, *, key: ec.EllipticCurvePrivateKey = KEY, atc: Any = None, **claims: Any) -> str:
    """A token of a library that is not ours, for the account of the client."""
    atc = {"tktype": TYPE, "tkvalue": value, "fingerprint": fingerprint(client), "ca": False, **(atc or {})}
    whole = {"iss": ISSUER, "exp": int(time.time()) + 600, "jti": "authority/1", "atc": atc, **claims}
    return jwt.encode({"alg": "ES256", "typ": "JWT"}, whole, jwk.ECKey.import_key(key))


def request(value: str | None, *names: str, content: bytes | None = None) -> bytes:
    """A CSR with the constraints as its extension, and names."""
    builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
    if value is not None or content is not None:
        held = urlsafe_b64decode(f"{value}==") if content is None else content
        builder = builder.add_extension(x509.UnrecognizedExtension(EXTENSION, held), critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(map(x509.DNSName, names)), critical=False)
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.DER)


def constraints(value: str = ALICE) -> dict[str, str]:
    return {"type": TYPE, "value": value}


@pytest.fixture
async def site(start_service: StartService, database_url: str) -> AsyncIterator[Site]:
    authority = {"issuer": ISSUER, "jwks": public(KEY), "token_authority": "https://authority.example/at/account/1/token"}
    async with acme_site(start_service, "tkauth-01", database=database_url, tkauth={"authorities": [authority]}) as site:
        yield site


async def proven(client: AcmeClient, made: Answer, text: str) -> dict[str, Any]:
    """The authorization of the constraints of an order, after its challenge was answered with the token."""
    for url in made.json["authorizations"]:
        authorization = (await client.post(url)).json
        if authorization["identifier"]["type"] == TYPE:
            answered = await client.post(authorization["challenges"][0]["url"], {"tkauth": text})
            assert answered.status == 200, answered.body
            return await client.until(url, "pending")
    raise AssertionError(made.body)


async def certificate(client: AcmeClient, order: Answer, csr: bytes) -> x509.Certificate:
    done = await client.finalize(order.json, csr)
    assert done.status == 200, done.body
    return x509.load_pem_x509_certificates((await client.post(done.json["certificate"])).body)[0]


def check_extension(leaf: x509.Certificate, value: str, folder: Path) -> None:
    """What the certificate says, as cryptography, a module of the RFC and OpenSSL read it."""
    found = leaf.extensions.get_extension_for_oid(EXTENSION)
    assert isinstance(found.value, x509.UnrecognizedExtension)
    assert not found.critical
    assert found.value.value == urlsafe_b64decode(f"{value}==")
    read, rest = decode_der(found.value.value, asn1Spec=rfc9118.EnhancedJWTClaimConstraints())
    assert not rest
    assert [str(one) for one in read["mustInclude"]] == ["sub"]
    (folder / "leaf.pem").write_bytes(leaf.public_bytes(Encoding.PEM))
    command = ["openssl", "x509", "-in", str(folder / "leaf.pem"), "-noout", "-text"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "1.3.6.1.5.5.7.1.33" in shown or "id-pe-eJWTClaimConstraints" in shown or "Enhanced JWT Claim Constraints" in shown


async def test_constraints_alone_are_ordered_proven_and_certified(site, tmp_path):
    client = await site.client()
    made = await client.order(constraints())
    (url,) = made.json["authorizations"]
    (challenge,) = (await client.post(url)).json["challenges"]

    authorization = await proven(client, made, token(client))
    leaf = await certificate(client, await client.post(made.location), request(ALICE))

    assert made.json["identifiers"] == [constraints()]
    assert (challenge["type"], challenge["tkauth-type"]) == ("tkauth-01", "atc")
    assert challenge["token-authority"] == "https://authority.example/at/account/1/token"
    assert authorization["status"] == "valid"
    assert leaf.subject.rfc4514_string() == "CN=alice@CHANCERY.TEST"
    with pytest.raises(x509.ExtensionNotFound):
        leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    check_extension(leaf, ALICE, tmp_path)


async def test_the_request_must_hold_the_constraints_of_the_order(site):
    client = await site.client()
    made = await client.order(constraints())
    await proven(client, made, token(client))
    ready = await client.post(made.location)

    for csr, why in (
        (request(None, "a.localhost"), f"the order has {TYPE}:{ALICE}, which the CSR does not name"),
        (request(VECTORS[1]["tkvalue"]), f"the CSR names {TYPE}:{VECTORS[1]['tkvalue']}, which the order does not have"),
        (request(ALICE, "a.localhost"), "the CSR names dns:a.localhost, which the order does not have"),
        (request(None, content=b"\x30\x00"), "an extension that no order can: it says nothing"),
        (request(None), "names nothing"),
    ):
        refused = await client.finalize(ready.json, csr)
        assert (refused.status, refused.error) == (400, "badCSR")
        assert why in refused.json["detail"]
    assert await certificate(client, ready, request(ALICE))


async def test_idp_186_idp_321_idp_329_idp_366_the_whole_way_from_a_ticket_to_a_certificate_with_names(
    start_service, database_url, tmp_path, monkeypatch
):
    """The authority's answer, its keys from its own jwks, and an order for the constraints with the names that they permit."""
    installed = tmp_path / "installed"
    installed.mkdir()
    monkeypatch.syspath_prepend(installed)
    tickets = install(installed, "greatseal-tickets", TICKETS)
    idp = await start_service(
        tickets, "idp", "resolver", "token-authority", server={"jwt_signing_algorithm": "RS256"}, tokens={"access_token_ttl": 600}
    )
    async with aiohttp.ClientSession() as http:

        async def ask(client: AcmeClient, principal: str = "host/web1.localhost@LOCALHOST", **changes: Any) -> tuple[int, Any, Any]:
            body = {"atc": {"tktype": TYPE, "tkvalue": "", "fingerprint": fingerprint(client), **changes}}
            headers = {"Authorization": f"Negotiate {principal}"} if principal else {}
            async with http.post(f"{idp.url}/at/account/7/token", json=body, headers=headers) as answer:
                return answer.status, await answer.json(), answer.headers

        for document in ("oauth-authorization-server", "openid-configuration"):
            async with http.get(f"{idp.url}/.well-known/{document}") as answer:
                metadata = await answer.json()
            assert metadata["token_authority_endpoint"] == f"{idp.url}/at/account/{{id}}/token"
        async with http.get(f"{idp.url}/api/auth/info") as answer:
            assert (await answer.json())["features"]["token_authority"]
        async with http.get(metadata["jwks_uri"]) as answer:
            jwks = await answer.json()
        authority = {"issuer": idp.url, "jwks": jwks}
        async with acme_site(start_service, "tkauth-01", database=database_url, tkauth={"authorities": [authority]}) as site:
            client = await site.client()
            status, given, headers = await ask(client)
            said = json.loads(urlsafe_b64decode(given["token"].split(".")[1] + "=="))
            value = said["atc"]["tkvalue"]
            made = await client.order(constraints(value), "web1.localhost", "a.localhost")
            authorization = await proven(client, made, given["token"])
            for url in made.json["authorizations"]:
                if (await client.post(url)).json["identifier"]["type"] == "dns":
                    assert await client.prove(url, site.responder) == "valid"
            leaf = await certificate(client, await client.post(made.location), request(value, "web1.localhost", "a.localhost"))

            assert (status, headers["WWW-Authenticate"], headers["Cache-Control"]) == (200, "Negotiate done", "no-store")
            assert said["dns"] == ["a.localhost", "web1.localhost"]
            assert said["iss"] == idp.url
            assert said["exp"] - said["iat"] == 600
            assert jwt.decode(given["token"], jwk.KeySet.import_key_set(jwks), algorithms=["RS256"]).header["typ"] == "JWT"
            assert authorization["status"] == "valid"
            names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
            assert set(names) == {"web1.localhost", "a.localhost"}
            check_extension(leaf, value, tmp_path)

            # What the authority refuses, by its numbers.
            assert (await ask(client, ""))[0] == 401
            assert (await ask(client, ""))[2]["WWW-Authenticate"] == "Negotiate"
            assert (await ask(client, "nobody@LOCALHOST"))[0] == 403
            assert (await ask(client, "host/down.localhost@LOCALHOST"))[0] == 503
            for change in ({"tktype": "TNAuthList"}, {"ca": "yes"}, {"fingerprint": None}, {"tkvalue": 7}):
                status, problem, _ = await ask(client, **change)
                assert (status, problem["error"]) == (400, "invalid_request")


async def test_idp_186_r67_an_authority_that_accepts_no_tickets_says_so(start_service, tmp_path):
    service = await start_service("idp", "resolver", "users-file", "token-authority", users={"file": str(tmp_path / "users.toml")})
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{service.url}/at/account/7/token", json={}) as answer:
            assert answer.status == 503
        async with http.get(f"{service.url}/.well-known/openid-configuration") as answer:
            assert "token_authority_endpoint" not in await answer.json()
        async with http.get(f"{service.url}/api/auth/info") as answer:
            assert (await answer.json())["features"]["token_authority"] is False


REFUSED = {
    "of another account": {"atc": {"fingerprint": "SHA256 " + ":".join(["00"] * 32)}},
    "of a CA": {"atc": {"ca": True}},
    "for another value": {"atc": {"tkvalue": VECTORS[1]["tkvalue"]}},
    "for another type": {"atc": {"tktype": "TNAuthList"}},
    "expired": {"exp": 1_700_000_000},
    "of another issuer": {"iss": "https://other.example"},
    "by another key": {"key": STRANGER},
    "without a number": {"jti": None},
}


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
async def test_a_token_that_proves_nothing_makes_the_order_invalid(site, changes):
    client = await site.client()
    made = await client.order(constraints())

    authorization = await proven(client, made, token(client, **changes))

    (challenge,) = authorization["challenges"]
    assert (authorization["status"], challenge["status"]) == ("invalid", "invalid")
    assert challenge["error"]["type"] == "urn:ietf:params:acme:error:unauthorized"
    assert challenge["error"]["status"] == 401
    assert (await client.post(made.location)).json["status"] == "invalid"


async def test_fifty_orders_share_one_token_and_one_is_certified(site):
    client = await site.client()
    text = token(client)
    orders = await asyncio.gather(*(client.order(constraints()) for _ in range(50)))

    decided = await asyncio.gather(*(proven(client, made, text) for made in orders))

    assert len({made.json["authorizations"][0] for made in orders}) == 50  # nothing that was proven is lent to another order
    assert sorted(one["status"] for one in decided) == ["invalid"] * 49 + ["valid"]
    told = {one["challenges"][0]["error"]["detail"] for one in decided if one["status"] == "invalid"}
    assert told == {"the authority token was used before"}


async def test_what_a_token_proved_is_for_its_order_alone(site):
    client = await site.client()
    first = await client.order(constraints())
    assert (await proven(client, first, token(client)))["status"] == "valid"

    second = await client.order(constraints())

    assert second.json["status"] == "pending"
    assert (await proven(client, second, token(client)))["status"] == "invalid"
    third = await client.order(constraints())
    assert (await proven(client, third, token(client, jti="authority/2")))["status"] == "valid"


async def test_a_name_that_the_constraints_do_not_permit_is_refused(site):
    client = await site.client()
    made = await client.order(constraints(), "a.localhost")
    await proven(client, made, token(client))
    for url in made.json["authorizations"]:
        if (await client.post(url)).json["identifier"]["type"] == "dns":
            await client.prove(url, site.responder)

    refused = await client.finalize((await client.post(made.location)).json, request(ALICE, "a.localhost"))

    assert (refused.status, refused.error) == (401, "unauthorized")
    assert "do not permit dns:a.localhost" in refused.json["detail"]


async def test_an_order_names_one_value_in_canonical_form(site):
    client = await site.client()

    two = await client.order(constraints(), constraints(VECTORS[1]["tkvalue"]))
    padded = await client.order(constraints(f"{ALICE}="))
    none = await client.order(constraints("MAA"))

    assert (two.status, two.error) == (400, "malformed")
    assert "two identifiers" in two.json["detail"]
    assert (padded.status, padded.error) == (400, "rejectedIdentifier")
    assert (none.status, none.error) == (400, "rejectedIdentifier")
    assert "says nothing" in none.json["detail"]


async def test_a_certificate_needs_a_subject_or_a_name(start_service):
    authority = {"issuer": ISSUER, "jwks": public(KEY)}
    sections: dict[str, Any] = {"tkauth": {"authorities": [authority]}, "profiles": {"default": {"subject": "none"}}}
    async with acme_site(start_service, "tkauth-01", **sections) as site:
        client = await site.client()
        made = await client.order(constraints())
        await proven(client, made, token(client))

        refused = await client.finalize((await client.post(made.location)).json, request(ALICE))

        assert (refused.status, refused.error) == (400, "rejectedIdentifier")
        assert "neither subject nor name" in refused.json["detail"]


async def test_the_certificate_is_renewed_and_revoked_by_what_it_holds(site):
    client = await site.client()
    made = await client.order(constraints())
    await proven(client, made, token(client))
    leaf = await certificate(client, await client.post(made.location), request(ALICE))
    der = b64url(leaf.public_bytes(Encoding.DER))
    stranger, holder = await site.client(), await site.client()
    held = await holder.order(constraints())
    await proven(holder, held, token(holder, jti="authority/2"))

    number = leaf.serial_number.to_bytes(leaf.serial_number.bit_length() // 8 + 1)
    key_id = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    name = f"{b64url(key_id)}.{b64url(number)}"
    other = await client.order("a.localhost", replaces=name)
    same = await client.order(constraints(), replaces=name)
    refused = await stranger.post(client.directory["revokeCert"], {"certificate": der})
    revoked = await holder.post(client.directory["revokeCert"], {"certificate": der})

    assert (other.status, other.error) == (400, "malformed")
    assert same.status == 201
    assert (refused.status, refused.error) == (401, "unauthorized")
    assert revoked.status == 200
