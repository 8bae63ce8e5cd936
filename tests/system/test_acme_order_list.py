"""The list of an account's orders (RFC 8555 s7.1.2.1), on both databases."""

import time
from collections.abc import AsyncIterator

import pytest
from rig.acme import Site, acme_site, csr_for

from greatseal.clock import FakeClock

SECOND = 1_000_000


@pytest.fixture
async def site(start_service, database_url) -> AsyncIterator[Site]:
    clock = FakeClock(int(time.time()) * SECOND)
    server = {"order_expiry_secs": 3600, "authz_expiry_secs": 1800}
    async with acme_site(start_service, database=database_url, clock=clock, server=server) as site:
        yield site


async def orders_of(client):
    return (await client.post((await client.post(client.kid)).json["orders"])).json["orders"]


async def test_an_account_lists_its_orders_but_not_invalid_ones(site):
    client, other = await site.client(), await site.client()
    pending, ready = await client.order("a.localhost"), await client.ready(site.responder, "b.localhost")
    valid = await client.ready(site.responder, "c.localhost")
    assert (await client.finalize(valid.json, csr_for("c.localhost"))).json["status"] == "valid"
    failed = await client.order("d.localhost")
    await client.post(failed.json["authorizations"][0], {"status": "deactivated"})
    foreign = await other.order("a.localhost")

    assert set(await orders_of(client)) == {pending.location, ready.location, valid.location}
    assert await orders_of(other) == [foreign.location]
    site.service.kernel.clock.advance(1801)  # the authorizations are over, the orders not yet
    assert await orders_of(client) == [valid.location]


async def test_pages_are_followed_by_their_links(site):
    client = await site.client()
    made = {(await client.order(f"n{number}.localhost")).location for number in range(5)}
    gone = (await client.order("gone.localhost")).json["authorizations"][0]
    await client.post(gone, {"status": "deactivated"})
    url = f"{client.kid}/orders?limit=2"
    found, sizes = [], []

    while url:
        page = await client.post(url)
        sizes.append(len(page.json["orders"]))
        found += page.json["orders"]
        url = page.links.get("next")

    assert len(sizes) == 3
    assert sum(sizes) == len(set(found)) == 5
    assert set(found) == made


async def test_s108_the_list_of_another_is_as_that_of_nobody(site):
    client, other = await site.client(), await site.client()
    await client.order("a.localhost")
    nobody = f"{site.url}/acme/account/00000000-0000-8000-8000-000000000000/orders"

    foreign, unknown = await other.post(f"{client.kid}/orders"), await other.post(nobody)

    assert {(one.status, one.error) for one in (foreign, unknown)} == {(401, "unauthorized")}
    assert foreign.body == unknown.body


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "offset=3", "after=%00"])
async def test_a_page_that_there_cannot_be_is_malformed(site, query):
    client = await site.client()

    refused = await client.post(f"{client.kid}/orders?{query}")

    assert (refused.status, refused.error) == (400, "malformed")


async def test_s117_the_list_is_only_read(site):
    client = await site.client()

    refused, got = await client.post(f"{client.kid}/orders", {}), await client.get(f"{client.kid}/orders")

    assert (refused.status, refused.error) == (400, "malformed")
    assert got.status == 405
