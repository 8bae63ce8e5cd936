"""Single use of keys that come from outside."""

import asyncio

import pytest
from sqlalchemy import MetaData, func, select

from greatseal.api.problems import BadRequest
from greatseal.api.store import Refuse
from greatseal.clock import FakeClock
from greatseal.db.core_tables import strike
from greatseal.db.database import Store
from greatseal.handles import NodeHandles
from greatseal.kernel.strikes import PORTION, TAKE, StrikesImpl, forget_expired
from greatseal.testing.store import open_test_database

metadata = MetaData()
SECOND = 1_000_000
COUNT = select(func.count().label("many")).select_from(strike)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def database(database_url, clock):
    async with open_test_database(database_url, clock=clock) as opened:
        yield opened


async def test_of_fifty_uses_of_one_key_one_is_the_first(database, clock):
    strikes, until = StrikesImpl(clock, database, NodeHandles("n1", clock)), clock.now() + 60 * SECOND

    answers = await asyncio.gather(*(strikes.take("jti", "a", until) for _ in range(50)))

    assert sum(answers) == 1


async def test_within_a_transaction_the_first_use_is_undone_with_it(database, clock):
    strikes, until = StrikesImpl(clock, database, NodeHandles("n1", clock)), clock.now() + 60 * SECOND

    def use_and_fail(tx):
        assert strikes.take_within(tx, "jti", "a", until)
        raise Refuse(BadRequest("no"))

    with pytest.raises(BadRequest):
        await database.write(use_and_fail)
    answers = await asyncio.gather(*(database.write(strikes.take_within, "jti", "a", until) for _ in range(50)))
    assert sum(answers) == 1
    assert not await strikes.take("jti", "a", until), "it is the same use"


async def test_kinds_and_keys_do_not_meet(database, clock):
    strikes, until = StrikesImpl(clock, database, NodeHandles("n1", clock)), clock.now() + 60 * SECOND

    for kind, key in (("jti", "a"), ("jti", "b"), ("nonce", "a")):
        assert await strikes.take(kind, key, until)


async def test_a_key_is_free_again_when_its_time_has_passed(database, clock):
    strikes, until = StrikesImpl(clock, database, NodeHandles("n1", clock)), clock.now() + 60 * SECOND
    assert await strikes.take("jti", "a", until)

    clock.advance(60)
    assert not await strikes.take("jti", "a", until)
    clock.advance(0.000001)
    assert await strikes.take("jti", "a", until + 60 * SECOND)
    assert not await strikes.take("jti", "a", until + 60 * SECOND)


async def test_expired_strikes_are_deleted_in_portions_and_others_stay(database, clock):
    now = clock.now()

    def fill(tx):
        for number in range(PORTION + 5):
            tx.count(TAKE, kind="jti", key=str(number), until=now + SECOND)
        tx.count(TAKE, kind="jti", key="stays", until=now + 60 * SECOND)

    await database.write(fill)
    clock.advance(2)
    assert await forget_expired(database, clock) == 0, "not before an hour more"
    clock.advance(3600)

    assert await forget_expired(database, clock) == PORTION + 5
    assert (await database.read(lambda tx: tx.one(COUNT))).many == 1


async def test_no_jump_of_the_clock_makes_a_used_key_free(database, clock):
    strikes, until = StrikesImpl(clock, database, NodeHandles("n1", clock)), clock.now() + 60 * SECOND
    await strikes.take("jti", "a", until)
    clock.step(24 * 3600)

    assert not await strikes.take("jti", "a", until), "the same thing, while the clock is ahead"
    for _ in range(3):
        assert await forget_expired(database, clock) == 0
        clock.advance(600)
    clock.step(-24 * 3600)

    assert not await strikes.take("jti", "a", until)


def in_memory(clock, **more):
    """Without a database."""
    return StrikesImpl(clock, Store(lambda _outcome: lambda _seconds: None), NodeHandles("n1", clock), **more)


@pytest.mark.parametrize("steps", [(90, -90), (-90, 90), (24 * 3600, -24 * 3600)])
def test_no_jump_of_the_clock_makes_memory_forget(clock, steps):
    strikes, until = in_memory(clock), clock.now() + 60 * SECOND
    strikes.seen("jti", "a", until)

    for step in steps:
        clock.step(step)
        clock.advance(25)
        assert strikes.seen("jti", "a", until)


def test_what_memory_is_to_forget_it_keeps_for_as_long_as_the_clock_went_back(clock):
    strikes, until = in_memory(clock), clock.now() + 60 * SECOND
    strikes.seen("jti", "a", until)
    clock.step(-90)
    clock.advance(149)

    assert strikes.seen("jti", "a", until)
    clock.advance(2)
    assert not strikes.seen("jti", "a", until + 60 * SECOND)


def test_in_memory_a_key_is_seen_until_its_time_has_passed(clock):
    strikes, until = in_memory(clock), clock.now() + SECOND

    assert [strikes.seen("jti", "a", until) for _ in range(3)] == [False, True, True]
    clock.advance(1.5)
    assert [strikes.seen("jti", "a", until + SECOND) for _ in range(2)] == [False, True]


def test_memory_is_bounded_and_forgets_first_what_expires_first(clock):
    strikes, now = in_memory(clock, size=3), clock.now()
    for key, seconds in (("late", 90), ("soon", 10), ("later", 95)):
        strikes.seen("jti", key, now + seconds * SECOND)

    strikes.seen("jti", "new", now + 50 * SECOND)

    assert len(strikes._seen) == 3
    assert [strikes.seen("jti", key, now + 60 * SECOND) for key in ("late", "later", "new")] == [True] * 3
    assert strikes.seen("jti", "soon", now + 60 * SECOND) is False
