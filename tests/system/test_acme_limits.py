"""What an account may have under way, and what leaves the tables, on both databases."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from rig.acme import Site, acme_site

from greatseal.clock import FakeClock
from greatseal.handles import NodeHandles
from greatseal_acme import tables as t
from greatseal_acme.purge import BITE, ids_until
from greatseal_acme.settings import Acme
from greatseal_ca.tables import certificate

DAY = 86400
TABLES = (t.order, t.order_authorization, t.authorization, t.challenge, t.validation)


@pytest.fixture
async def start_site(start_service: Any, database_url: str) -> Any:
    """``async with start_site(acme={...}) as site``, on ``clock``."""
    clock = FakeClock(int(time.time()) * 1_000_000)

    def start(**sections: Any) -> Any:
        return acme_site(start_service, database=database_url, clock=clock, **sections)

    start.clock = clock
    return start


async def statuses(client: Any, number: int) -> list[int]:
    answers = await asyncio.gather(*(client.order(f"{one}.localhost") for one in range(number)))
    for answer in answers:
        if answer.status != 201:
            assert (answer.status, answer.json["type"]) == (429, "urn:ietf:params:acme:error:rateLimited")
            assert 0 < int(answer.headers["Retry-After"]) <= 3600
    return [answer.status for answer in answers]


async def rows(site: Site) -> Mapping[str, int]:
    db = site.service.host("acme").db
    return {table.name: len(await db.read(lambda tx, table=table: tx.all(table.select()))) for table in TABLES}


async def test_an_account_has_no_more_open_orders_than_it_may(start_site: Any) -> None:
    async with start_site(acme={"max_pending_orders": 3}) as site:
        client, other = await site.client(), await site.client()

        assert (await statuses(client, 10)).count(201) == 3
        assert (await statuses(other, 2)) == [201, 201]
        start_site.clock.advance(DAY)  # what expired does not count

        assert (await statuses(client, 4)).count(201) == 3


async def test_a_finished_order_makes_room(start_site: Any) -> None:
    async with start_site(acme={"max_pending_orders": 1}) as site:
        client = await site.client()
        for name in ("one.localhost", "two.localhost"):
            await client.issue(site.responder, name)

        assert (await statuses(client, 2)).count(201) == 1


async def test_orders_of_an_hour_are_limited_where_it_is_wanted(start_site: Any) -> None:
    async with start_site(acme={"new_orders_per_hour": 2}) as site:
        client = await site.client()
        assert (await statuses(client, 3)).count(201) == 2

        start_site.clock.advance(3600)
        assert (await statuses(client, 1)) == [201]


async def test_one_account_may_have_limits_of_its_own(start_site: Any) -> None:
    limits = {"max_pending_orders": 1, "account_limits": {"an-id": {"max_pending_orders": 4}}}
    async with start_site(acme=limits) as site:
        client, other = await site.client(), await site.client()
        of_account = site.service.host("acme").settings(Acme).account_limits
        of_account[client.kid.rpartition("/")[2]] = of_account.pop("an-id")

        assert (await statuses(other, 2)).count(201) == 1
        assert (await statuses(client, 5)).count(201) == 4


async def test_expired_orders_leave_with_all_that_hangs_on_them_and_certificates_stay(start_site: Any) -> None:
    async with start_site() as site:
        client = await site.client()
        leaf, *_ = await client.issue(site.responder, "old.localhost", "older.localhost")
        await statuses(client, BITE + 5)
        purge = site.service.kernel.hooks.instances["acme"].acme(site.service.host("acme")).purge
        start_site.clock.advance(31 * DAY)
        await statuses(await site.client(), 2)  # a nonce from before is too old
        before = await rows(site)

        await purge.run()
        assert await rows(site) == before  # 30 days after their end, not before

        start_site.clock.advance(DAY + 1)
        await purge.run()

        assert await rows(site) == {**dict.fromkeys(before, 2), "acme_validation": 0}
        certificates = await site.service.host("ca").db.read(lambda tx: tx.all(certificate.select()))
        assert [bytes(row.der) for row in certificates] == [leaf.public_bytes(Encoding.DER)]


def test_a_purge_looks_at_no_order_that_is_too_young():
    made = NodeHandles("n1", FakeClock(1_800_000_000_000_000)).new_id()

    assert ids_until(1_800_000_000_000_000) < made < ids_until(1_800_000_001_000_000)
    assert ids_until(-1) == ids_until(0) < made
