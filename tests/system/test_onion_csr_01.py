"""Certificates for onion services over HTTP, in both forms of the request; nothing is connected to."""

import secrets
import time
from base64 import b32encode, b64decode
from hashlib import sha3_256
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ObjectIdentifier
from cryptography.x509.name import _ASN1Type
from rig.acme import AcmeClient, Answer, acme_site, b64url, csr_for

from greatseal.testing.tor import FakeTor

CA_NONCE, APPLICANT_NONCE = ObjectIdentifier("2.23.140.41"), ObjectIdentifier("2.23.140.42")


class OnionService:
    """Its key and its address."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        raw = self.key.public_key().public_bytes_raw()
        checksum = sha3_256(b".onion checksum" + raw + b"\x03").digest()[:2]
        self.name = b32encode(raw + checksum + b"\x03").decode().lower() + ".onion"

    def by_attributes(self, challenge: dict[str, str], _: AcmeClient) -> bytes:
        builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
        for oid, value in (CA_NONCE, b64decode(challenge["nonce"])), (APPLICANT_NONCE, secrets.token_bytes(10)):
            builder = builder.add_attribute(oid, value, _tag=_ASN1Type.OctetString)
        return builder.sign(self.key, None).public_bytes(Encoding.DER)

    def by_extension(self, challenge: dict[str, str], client: AcmeClient) -> bytes:
        value = f"{challenge['token']}.{client.key.thumbprint}".encode()
        builder = x509.CertificateSigningRequestBuilder(x509.Name([])).add_extension(x509.UnrecognizedExtension(CA_NONCE, value), False)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(self.name)]), False)
        return builder.sign(self.key, None).public_bytes(Encoding.DER)


@pytest.fixture
async def site(start_service):
    async with acme_site(start_service, "onion-csr-01", "tls-alpn-01") as site:
        yield site


@pytest.mark.parametrize("form", [OnionService.by_attributes, OnionService.by_extension], ids=["RFC 9799", "document"])
@pytest.mark.parametrize("below", ["", "*."], ids=["address", "wildcard"])
async def test_ca_082_ca_106_an_onion_service_gets_a_certificate(site, form, below):
    onion, client = OnionService(), await site.client()
    made = await client.order(below + onion.name)
    (listed,) = (await client.post(made.json["authorizations"][0])).json["challenges"]  # nothing that would ask DNS or connect
    assert listed["type"] == "onion-csr-01"

    answered = await client.post(listed["url"], {"csr": b64url(form(onion, listed, client))})

    assert (answered.status, answered.json["status"]) == (200, "processing")
    assert (await client.until(made.location, "pending"))["status"] == "ready"
    leaf = await certified(client, made.location, csr_for(below + onion.name))
    assert leaf == below + onion.name


async def test_the_onion_key_is_refused_for_the_certificate_and_another_is_taken(site):
    onion, client = OnionService(), await site.client()
    made = await client.order(onion.name)
    challenge = await client.challenge(made.json["authorizations"][0], "onion-csr-01")
    await client.post(challenge["url"], {"csr": b64url(onion.by_attributes(challenge, client))})
    await client.until(made.location, "pending")

    refused = await client.finalize(made.json, csr_for(onion.name, key=onion.key))

    assert (refused.status, refused.error) == (400, "badCSR")
    assert onion.name in refused.json["detail"]
    assert await certified(client, made.location, csr_for(onion.name)) == onion.name


async def test_s133_ca_245_the_nonce_of_another_challenge_makes_the_order_invalid(site):
    onion, client = OnionService(), await site.client()
    first, second = [await client.order(onion.name) for _ in range(2)]
    others = await client.challenge(first.json["authorizations"][0], "onion-csr-01")
    challenge = await client.challenge(second.json["authorizations"][0], "onion-csr-01")

    unread = await client.post(challenge["url"], {"csr": "no base64url!"})
    await client.post(challenge["url"], {"csr": b64url(onion.by_attributes(others, client))})

    assert (unread.status, unread.error) == (400, "malformed")
    order = await client.until(second.location, "pending")
    assert order["error"]["type"] == "urn:ietf:params:acme:error:incorrectResponse"
    assert "with another value than the nonce of the challenge" in order["error"]["detail"]


async def proven(client: AcmeClient, onion: OnionService, name: str) -> dict[str, Any]:
    """An order for ``name`` that is ready."""
    made = await client.order(name)
    challenge = await client.challenge(made.json["authorizations"][0], "onion-csr-01")
    await client.post(challenge["url"], {"csr": b64url(onion.by_attributes(challenge, client))})
    assert (await client.until(made.location, "pending"))["status"] == "ready"
    return made.json


async def test_the_client_brings_the_caa_records_of_an_onion_service(start_service):
    onion = OnionService()
    async with acme_site(start_service, "onion-csr-01", "caa", server={"caa_identities": ["ca.example"]}) as site:
        client = await site.client()
        assert client.directory["meta"]["inBandOnionCAARequired"] is True
        order, name = await proven(client, onion, f"*.{onion.name}"), f"*.{onion.name}"

        async def finalized(caa: str | None) -> Answer:
            expiry = int(time.time()) + 3600
            signature = onion.key.sign(f"onion-caa|{expiry}|{caa or ''}".encode())
            brought = {onion.name: {"caa": caa, "expiry": expiry, "signature": b64url(signature)}}
            return await client.post(order["finalize"], {"csr": b64url(csr_for(name)), "onionCAA": brought})

        missing = await client.finalize(order, csr_for(name))
        denied = await finalized('caa 0 issue "ca.example"\ncaa 0 issuewild ";"')
        done = await finalized('caa 128 issue "ca.example; validationmethods=onion-csr-01"')

    assert (missing.status, missing.error) == (403, "onionCAARequired")
    assert (denied.status, denied.error) == (403, "caa")
    assert "expected issuewild ca.example" in denied.json["detail"]
    assert (done.status, done.json["status"]) == (200, "valid")


async def test_an_onion_service_is_reached_by_tor(start_service):
    name = f"www.{OnionService().name}"
    async with FakeTor().served() as tor:
        access = {"tor_connectivity_enabled": True, "tor_socks_addr": f"127.0.0.1:{tor.port}"}
        async with acme_site(start_service, "onion-csr-01", "tls-alpn-01", "dns-01", "dns-persist-01", server=access) as site:
            client = await site.client()
            made = await client.order(name)
            (authorization,) = made.json["authorizations"]
            listed = (await client.post(authorization)).json["challenges"]
            assert await client.prove(authorization, site.responder) == "valid"
            assert await certified(client, made.location, csr_for(name)) == name
            assert tor.asked == [(name, site.responder.port)]
    assert {one["type"] for one in listed} == {"onion-csr-01", "http-01", "tls-alpn-01"}


async def certified(client: AcmeClient, order: str, csr: bytes) -> str:
    """The only name of the certificate that the order gives, which has the key of the request."""
    done = await client.finalize((await client.post(order)).json, csr)
    leaf, _ = x509.load_pem_x509_certificates((await client.post(done.json["certificate"])).body)
    assert leaf.public_key() == x509.load_der_x509_csr(csr).public_key()
    (name,) = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    return str(name)
