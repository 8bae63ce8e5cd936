"""The audit log is kept short, or ends what writes to it, as the configuration says."""

import msgspec
import pytest
import structlog
from sqlalchemy import select

from greatseal.api.audit import AuditEvent
from greatseal.api.problems import Unavailable
from greatseal.api.store import Refuse
from greatseal.db.core_tables import audit
from greatseal.db.database import Store
from greatseal.kernel.overflow import AuditBound
from greatseal.kernel.settings import Admin
from greatseal.testing.store import open_test_database

EVENT = AuditEvent(event_type="login_success", service="idp", sub="ada")
LOG = structlog.get_logger()


@pytest.fixture
async def store(database_url):
    async with open_test_database(database_url) as database:
        store = Store(lambda _outcome: lambda _seconds: None)
        store.opened = database
        yield store


def bound(store, **more):
    return AuditBound(store, Admin(listen="127.0.0.1:1", audit_max_events=1000, **more), LOG)


def fill(tx, number):
    for _ in range(number):
        tx.audit(EVENT)


async def kept(store):
    return await store.read(lambda tx: tx.all(select(audit).order_by(audit.c.id)))


async def test_f30_the_oldest_events_are_dropped_and_an_event_says_so(store):
    watch = bound(store, audit_overflow="drop_oldest")
    await store.write(fill, 999)
    await watch.look()
    assert len(await kept(store)) == 999

    await store.write(fill, 2201)
    await watch.look()
    left = await kept(store)
    dropped = [row for row in left if row.event_type == "audit.drop"]
    await watch.look()

    assert (len(left), left[-1].id - left[0].id + 1) == (991, 991)  # the hundredth part is spare, for those that say so
    assert [row.detail.split(":")[0] for row in dropped] == [
        "1000 events to the number 1000", "1000 events to the number 2000", "212 events to the number 2212",
    ]  # fmt: skip
    assert await kept(store) == left
    await store.write(fill, 1)


async def test_f30_a_full_log_ends_what_writes_events_and_nothing_else(store):
    watch = bound(store)
    await store.write(fill, 1000)
    await watch.look()
    before = await kept(store)

    def refuse(tx):
        tx.audit(EVENT)
        raise Refuse(Unavailable("of its own"), audit=())

    with pytest.raises(Unavailable, match="the audit log is full"):
        await store.write(fill, 1)
    with pytest.raises(Unavailable, match="of its own"):
        await store.write(refuse)
    await store.write(lambda tx: tx.changed("thing", "1"))
    assert await kept(store) == before

    await AuditBound(store, Admin(listen="127.0.0.1:1", audit_max_events=2000), LOG).look()
    await store.write(fill, 1)
    assert len(await kept(store)) == 1001


async def test_without_a_bound_everything_is_kept(store):
    await store.write(fill, 1001)
    for admin in (None, Admin(listen="127.0.0.1:1")):
        await AuditBound(store, admin, LOG).look()

    assert (len(await kept(store)), store.audit_is_full) == (1001, False)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"audit_max_events": 999}, "audit_max_events: expected 0 or at least 1000"),
        ({"audit_overflow": "drop_oldest"}, "audit_overflow: drop_oldest needs audit_max_events"),
        ({"audit_overflow": "drop"}, "Invalid enum value 'drop'"),
    ],
    ids=str,
)
def test_a_bound_that_cannot_be_is_refused(section, words):
    with pytest.raises(msgspec.ValidationError, match=words):
        msgspec.convert({"listen": "127.0.0.1:1", **section}, Admin)
