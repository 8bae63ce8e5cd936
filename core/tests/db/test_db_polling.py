"""Requests that a person decides about elsewhere: each step happens once, and in time."""

import pytest
from sqlalchemy import Column, MetaData, insert, select

from greatseal.api.problems import Conflict, NotFound
from greatseal.db.tables import Blob, Id, Moment, State, Text, param, table
from greatseal.polling import KEPT, PolledTable, Waiting
from greatseal.testing import FakeClock

START = 1_800_000_000_000_000
HOUR = 3_600_000_000
FAR = 2**62

metadata = MetaData()
request = table(
    "t_polled",
    metadata,
    State.OWNED,
    Column("digest", Blob, primary_key=True),
    Column("client_id", Id, nullable=False),
    Column("status", Text, nullable=False),
    Column("expires_at", Moment, nullable=False),
)
NEW = insert(request).values({column.name: param(column.name) for column in request.columns})


@pytest.fixture
def polled() -> PolledTable:
    return PolledTable(request, expired="too late", answered="too slow")


async def put(database, **statuses):
    """Requests by their names; ``late`` ones have expired."""
    for name, status in statuses.items():
        values = {"digest": name.encode(), "client_id": "c1", "status": status, "expires_at": 1 if "late" in name else FAR}
        await database.write(lambda tx, values=values: tx.run(NEW, **values))


async def statuses(database):
    return {row.digest.decode(): row.status for row in await database.read(lambda tx: tx.all(select(request)))}


async def test_a_decision_counts_once_in_time_and_for_its_own_request(database, polled):
    await put(database, tv="pending", radio="pending", late="pending")

    await database.write(polled.decide, b"tv", "approved")

    assert await statuses(database) == {"tv": "approved", "radio": "pending", "late": "pending"}
    for decision in ("denied", "approved"):
        with pytest.raises(Conflict, match="too slow"):
            await database.write(polled.decide, b"tv", decision)
    for gone in (b"late", b"nobody"):
        with pytest.raises(NotFound, match="too late"):
            await database.write(polled.decide, gone, "approved")
    assert await statuses(database) == {"tv": "approved", "radio": "pending", "late": "pending"}


async def test_what_was_approved_is_used_once_and_in_time(database, polled):
    await put(database, tv="approved", radio="approved", pending="pending", denied="denied", late="approved")

    assert [await database.write(polled.use_up, b"tv") for _ in range(2)] == [True, False]
    assert [await database.write(polled.use_up, one) for one in (b"pending", b"denied", b"late", b"nobody")] == [False] * 4
    assert await statuses(database) == {"tv": "used", "radio": "approved", "pending": "pending", "denied": "denied", "late": "approved"}


async def test_what_nobody_asks_for_again_is_deleted(database, polled):
    clock = FakeClock(START + HOUR)  # watched for an hour, so nothing older than START can come back
    for name, ends in (("old", START - KEPT), ("told", START - KEPT + 1), ("new", START + 2 * HOUR)):
        values = {"digest": name.encode(), "client_id": "c1", "status": "pending", "expires_at": ends}
        await database.write(lambda tx, values=values: tx.run(NEW, **values))

    await polled.sweep(database, clock)

    assert (await statuses(database)).keys() == {"told", "new"}, "who comes a little late still learns that it is too late"


def test_a_request_ends_when_its_time_has_come():
    waiting = Waiting(digest=b"", client_id="c1", status="pending", expires_at=START)

    assert [waiting.is_expired(now) for now in (START - 1, START, START + 1)] == [False, True, True]
