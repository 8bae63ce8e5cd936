"""Whole orders over HTTP, on both databases."""

from collections.abc import AsyncIterator

import pytest
from cryptography import x509
from system.acme_client import Site, acme_site


@pytest.fixture
async def site(start_service, database_url) -> AsyncIterator[Site]:
    async with acme_site(start_service, database=database_url) as site:
        yield site


async def test_ca_001_an_order_gives_a_certificate_with_its_chain(site):
    client = await site.client()

    leaf, *issuers = await client.issue(site.responder, "one.localhost", "two.localhost")

    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    assert sorted(names) == ["one.localhost", "two.localhost"]
    assert len(issuers) == 2
    leaf.verify_directly_issued_by(issuers[0])
    issuers[0].verify_directly_issued_by(issuers[1])
