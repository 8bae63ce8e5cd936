import pytest

from greatseal.api.audit import AuditEvent, AuditQuery
from greatseal.audit import recorded
from greatseal.testing.store import open_test_database


@pytest.fixture
async def database(database_url):
    async with open_test_database(database_url) as database:
        await database.write(fill)
        yield database


def fill(tx):
    for number in range(5):
        tx.audit(AuditEvent(event_type="login_success" if number % 2 else "logout", service="idp", sub=f"u{number % 3}"))
    tx.audit(AuditEvent(event_type="logout", service="ca", sub="u0", outcome="failure", principal="p", client_id="c", detail="d"))


async def ids(database, **query):
    return [record.id for record in await database.read(recorded, AuditQuery(**{"service": "idp", **query}))]


async def test_events_of_a_service_come_newest_first_with_all_that_was_written(database):
    (record,) = await database.read(recorded, AuditQuery(service="ca"))

    assert (record.id, record.event_type, record.service, record.outcome) == (6, "logout", "ca", "failure")
    assert (record.sub, record.client_id, record.principal, record.detail) == ("u0", "c", "p", "d")
    assert record.created_at > 1_700_000_000_000_000
    assert await ids(database) == [5, 4, 3, 2, 1]


async def test_events_are_paged_and_filtered(database):
    assert await ids(database, limit=2, offset=1) == [4, 3]
    assert await ids(database, offset=2**63 - 1) == []
    assert await ids(database, event_type="logout") == [5, 3, 1]
    assert await ids(database, sub="u0") == [4, 1]
    assert await ids(database, sub="u0", event_type="logout") == [1]
    assert await ids(database, sub="' OR 1=1 --") == []


async def test_events_are_filtered_by_their_outcome_and_time(database):
    await database.write(lambda tx: tx.audit(AuditEvent(event_type="login_failure", service="idp", sub="u0", outcome="failure")))
    first, *_, last = reversed(await database.read(recorded, AuditQuery(service="idp")))

    assert await ids(database, outcome="failure") == [last.id]
    assert await ids(database, outcome="failure", sub="u1") == []
    assert await ids(database, outcome="success", until=last.created_at, limit=1) == [5]
    assert await ids(database, since=last.created_at) == [last.id]
    assert await ids(database, since=first.created_at, until=first.created_at) == []
    assert await ids(database, since=first.created_at + 1, until=last.created_at) == []
