"""A stranger's alternates of certificates, over HTTP: links, another chain, one that comes later, and properties."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography import x509
from rig.acme import AcmeClient, Answer, Site, acme_site, csr_for
from rig.strangers.other_chains import PROPERTIES, Later, OtherChains

from greatseal.api.alternates import Alternate, Alternates
from greatseal.api.issuance import Certificate
from greatseal.testing.alternates import AlternatesContract
from greatseal.testing.finalization import CERTIFICATE
from greatseal.testing.plugin import StartService

PROPERTY_BLOCK = b"-----BEGIN CERTIFICATE PROPERTIES-----\nAAgAAAAEgf1ZAQ==\n-----END CERTIFICATE PROPERTIES-----\n"
WITH_PROPERTIES = "application/pem-certificate-chain-with-properties"
PEM = "application/pem-certificate-chain"


class TestOtherChains(AlternatesContract):
    certificate: ClassVar[Certificate] = CERTIFICATE

    def alternates(self) -> Alternates:
        return OtherChains()


class TestLater(AlternatesContract):
    certificate: ClassVar[Certificate] = CERTIFICATE

    def alternates(self) -> Alternates:
        return Later()


@pytest.fixture
async def site(start_service: StartService, strangers: Path) -> AsyncIterator[Site]:
    """The certificate features, and the stranger's."""
    async with acme_site(start_service, "other-chains") as site:
        yield site


def later(site: Site) -> Any:
    return site.service.host("acme").components(Alternates)["later"]


def relations(answer: Answer) -> list[tuple[str, str]]:
    """Every link but the one to the directory, as (relation, URL)."""
    said = (re.fullmatch(r'<(.*)>;rel="(.*)"', value) for value in answer.headers.getall("Link", ()))  # type: ignore[attr-defined]
    return [(link[2], link[1]) for link in said if link and link[2] != "index"]


async def issued(site: Site, client: AcmeClient) -> str:
    """The URL of a new certificate."""
    ready = await client.ready(site.responder, "a.localhost")
    url: str = (await client.finalize(ready.json, csr_for("a.localhost"))).json["certificate"]
    return url


async def test_a_certificate_names_its_alternates_and_each_is_there_for_whom_it_is(site):
    client, other = await site.client(), await site.client()
    url = await issued(site, client)

    by_get, by_post = await client.get(url), await client.post(url)
    assert (
        relations(by_get)
        == relations(by_post)
        == [
            ("alternate", f"{url}/chain.0"),
            ("alternate", f"{url}/chain.1"),
            ("acme-optional-alternate", f"{url}/later"),
        ]
    )
    for key, count in (("chain.0", 1), ("chain.1", 2)):
        for answer in (await client.get(f"{url}/{key}"), await client.post(f"{url}/{key}")):
            assert (answer.status, answer.headers["Content-Type"]) == (200, PEM)
            assert len(x509.load_pem_x509_certificates(answer.body)) == count
    foreign = await other.post(f"{url}/chain.0")
    assert (foreign.status, foreign.error) == (401, "unauthorized")


async def test_an_alternate_of_later_is_202_until_it_is_there(site):
    client = await site.client()
    url = await issued(site, client)

    waiting = [await client.get(f"{url}/later"), await client.post(f"{url}/later")]
    assert [(one.status, one.headers["Retry-After"], one.body) for one in waiting] == [(202, "60", b"")] * 2

    later(site).there = Alternate(der=b"0\x00", media_type="application/pkix-cert", properties=PROPERTIES)
    der, pem = await client.get(f"{url}/later"), await client.post(f"{url}/later")
    listed = await client.get(f"{url}/later", headers={"Accept": f"text/html, {WITH_PROPERTIES};q=0.5"})
    assert der.body == pem.body == b"0\x00"
    assert der.headers["Content-Type"] == "application/pkix-cert"
    assert listed.headers["Content-Type"] == WITH_PROPERTIES
    assert listed.body == PROPERTY_BLOCK + b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"

    later(site).gone = True
    assert (await client.get(f"{url}/later")).status == 404


@pytest.mark.parametrize(
    ("accept", "takes"),
    [
        (WITH_PROPERTIES, True),
        (WITH_PROPERTIES.upper(), True),
        (f"{PEM}, {WITH_PROPERTIES} ; q=0.001", True),
        (f"{WITH_PROPERTIES};q=0", False),
        (f"{WITH_PROPERTIES};q=0.000", False),
        (PEM, False),
        ("*/*", False),
        (f"{WITH_PROPERTIES}-of-another-kind", False),
        (";;,,", False),
    ],
)
async def test_the_properties_of_a_certificate_go_to_who_names_their_media_type(site, accept, takes):
    client = await site.client()
    url = await issued(site, client)

    plain, answer = await client.get(url), await client.get(url, headers={"Accept": accept})

    assert answer.headers["Content-Type"] == (WITH_PROPERTIES if takes else PEM)
    assert answer.body == (PROPERTY_BLOCK if takes else b"") + plain.body


async def test_what_is_not_offered_is_404_or_401_and_never_asked_for(site):
    client = await site.client()
    url = await issued(site, client)
    unknown = f"{site.url}/acme/cert/{'0' * 8}-0000-8000-8000-{'0' * 12}"

    for path in ("chain", "chain.2", "chain.", "later.1", "other", "%2e%2e", "chain%2F0", "a" * 5000):
        found = await client.get(f"{url}/{path}")
        assert found.status in {404, 414}, path
    assert (await client.get(f"{unknown}/chain.0")).status == 404
    assert (await client.post(f"{url}/other")).error == (await client.post(f"{unknown}/chain.0")).error == "unauthorized"


async def test_who_breaks_takes_nothing_from_the_certificate(site):
    client = await site.client()
    url = await issued(site, client)
    later(site).broken = True

    answer = await client.get(url, headers={"Accept": WITH_PROPERTIES})

    assert answer.status == 200
    assert answer.headers["Content-Type"] == PEM
    assert [relation for relation, _ in relations(answer)] == ["alternate", "alternate"]
    assert (await client.get(f"{url}/later")).status == 404
