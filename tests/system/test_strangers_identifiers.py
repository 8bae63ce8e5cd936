"""A stranger's type of identifier, from the order over HTTP to the name in the certificate."""

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from rig.acme import Site, acme_site
from rig.strangers.permanent_identifier import NAME, PermanentIdentifier

from greatseal.testing.identifiers import IdentifierTypeContract
from greatseal.testing.plugin import StartService

DEVICE = {"type": "permanent-identifier", "value": "sn-0001"}


class TestPermanentIdentifier(IdentifierTypeContract):
    identifiers = PermanentIdentifier()
    values = ("SN-0001", "A" * 64)
    refused = ("", "with a space", "A" * 65)
    names = (x509.OtherName(NAME, bytes.fromhex("30040c022020")),)


@pytest.fixture
async def site(start_service: StartService, strangers: Path) -> AsyncIterator[Site]:
    """The certificate features, and the stranger's."""
    async with acme_site(start_service, "permanent-identifier") as site:
        yield site


def request(*names: x509.GeneralName) -> bytes:
    """A CSR for the names."""
    builder = x509.CertificateSigningRequestBuilder(x509.Name([])).add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.DER)


async def test_an_identifier_of_a_strangers_type_is_ordered_proven_and_certified(site):
    client = await site.client()
    device, name = PermanentIdentifier().general_name("SN-0001"), x509.DNSName("a.localhost")

    made = await client.order(DEVICE, "a.localhost")
    assert made.json["identifiers"] == [{"type": "permanent-identifier", "value": "SN-0001"}, {"type": "dns", "value": "a.localhost"}]
    of_device, of_name = made.json["authorizations"]
    challenge = await client.challenge(of_device, "device-attest-01")
    authorization = f"{challenge['token']}.{client.key.thumbprint}"
    await client.post(challenge["url"], {"attObj": sha256(authorization.encode()).hexdigest()})
    assert (await client.until(of_device, "pending"))["status"] == "valid"
    assert await client.prove(of_name, site.responder) == "valid"
    ready = (await client.post(made.location)).json
    other = await client.finalize(ready, request(PermanentIdentifier().general_name("SN-0002"), name))
    done = await client.finalize(ready, request(name, device))
    leaf, _ = x509.load_pem_x509_certificates((await client.post(done.json["certificate"])).body)

    assert (other.status, other.error) == (400, "badCSR")
    assert "the order has permanent-identifier:SN-0001, which the CSR does not name" in other.json["detail"]
    assert list(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == [device, name]


async def test_a_value_that_breaks_the_strangers_rule_is_refused_with_its_words(site):
    client = await site.client()
    refused = await client.order({"type": "permanent-identifier", "value": "a device"})
    unknown = await client.order({"type": "TNAuthList", "value": "F83n2a"})

    assert (refused.status, refused.error) == (400, "rejectedIdentifier")
    assert refused.json["detail"] == "a permanent identifier has up to 64 letters, digits and hyphens"
    assert (unknown.status, unknown.error) == (400, "unsupportedIdentifier")


async def test_a_request_with_such_a_name_that_cannot_be_is_refused(site):
    client = await site.client()
    ready = await client.ready(site.responder, "a.localhost")

    answers = [
        await client.finalize(ready.json, request(x509.DNSName("a.localhost"), x509.OtherName(NAME, value)))
        for value in (bytes.fromhex("30040c022020"), bytes.fromhex("0500"))
    ]

    assert [(answer.status, answer.error) for answer in answers] == [(400, "badCSR")] * 2
    assert all("a permanent identifier that no device has" in answer.json["detail"] for answer in answers)
