"""What only PostgreSQL does: conflicts that are repeated, connections that are lost or all in use."""

import asyncio
import signal
import threading

import psycopg
import pytest
from sqlalchemy import Column, MetaData, func, insert, select, update

from greatseal.api.audit import AuditEvent
from greatseal.api.problems import BadRequest, Unavailable, Uncertain
from greatseal.api.store import Refuse, scan
from greatseal.clock import SystemClock
from greatseal.db import postgres
from greatseal.db.config import StoreProblem
from greatseal.db.core_tables import audit
from greatseal.db.migrate import ensure
from greatseal.db.tables import Id, Serial, State, param, table
from greatseal.testing.store import make_tables, open_test_database

metadata = MetaData()
entry = table("t_entry", metadata, State.OWNED, Column("id", Serial, primary_key=True), Column("name", Id, nullable=False, unique=True))
account = table("t_account", metadata, State.OWNED, Column("name", Id, primary_key=True), Column("sum", Serial, nullable=False))

WRITE = insert(entry).values(name=param("name"))
NAMES = select(entry.c.name).order_by(entry.c.id)
MANY = select(func.count().label("many")).select_from(entry)
OPEN = insert(account).values(name=param("name"), sum=0)
ADD = update(account).where(account.c.name == param("name")).values(sum=account.c.sum + 1)
SUMS = select(account.c.sum).order_by(account.c.name)
EVENTS = select(func.count().label("many")).select_from(audit)


@pytest.fixture
def url(postgres_url):
    make_tables(postgres_url, metadata)
    return postgres_url


@pytest.fixture
async def database(url):
    async with open_test_database(url) as opened:
        yield opened


def write_entry(tx, name):
    tx.run(WRITE, name=name)
    return name


async def names(database):
    return [row.name for row in await database.read(lambda tx: tx.all(NAMES))]


@pytest.fixture
def together(database):
    """``await together(function, ...)``: the outcomes of functions that wait at once, and so run in one transaction."""

    async def run(*functions):
        entered, release = threading.Event(), threading.Event()

        def hold(_tx):
            entered.set()
            assert release.wait(30)

        holding = asyncio.ensure_future(database.write(hold))
        await asyncio.to_thread(entered.wait, 30)
        waiting = [asyncio.ensure_future(database.write(function)) for function in functions]
        await asyncio.sleep(0)
        release.set()
        await holding
        return await asyncio.gather(*waiting, return_exceptions=True)

    return run


async def test_f10_brief_functions_of_one_process_are_never_in_each_others_way(database):
    """Each reads what the others write, on tables of a few rows."""
    await database.write(lambda tx: tx.run(OPEN, name="a"))
    runs = []

    def look_and_add(tx, number):
        runs.append(number)
        many = tx.one(MANY).many
        tx.run(ADD, name="a")
        write_entry(tx, f"{number} after {many}")
        return many

    seen = await asyncio.gather(*(database.write(look_and_add, number) for number in range(100)))

    assert sorted(seen) == list(range(100))
    assert sorted(runs) == list(range(100))


async def test_f10_what_fails_of_a_group_is_undone_alone(database, together):
    await database.write(write_entry, "there")

    def refuse(tx):
        write_entry(tx, "refused")
        raise Refuse(BadRequest("no"), [AuditEvent(event_type="refused", service="ca")])

    def fail(tx):
        write_entry(tx, "failed")
        raise ValueError("a mistake")

    def fail_unseen(tx):
        tx.run(WRITE, name="there")

    answers = await together(lambda tx: write_entry(tx, "first"), refuse, fail, fail_unseen, lambda tx: write_entry(tx, "last"))

    assert [type(answer).__name__ for answer in answers] == ["str", "BadRequest", "ValueError", "UniqueViolation", "str"]
    assert await names(database) == ["there", "first", "last"]
    assert (await database.read(lambda tx: tx.one(EVENTS))).many == 1


@pytest.mark.parametrize(("detail", "error"), [("\ud800", "UnicodeEncodeError"), ("\0", "DataError")])
async def test_f10_a_refusal_whose_event_cannot_be_written_fails_alone(database, together, detail, error):
    def refuse(tx):
        write_entry(tx, "refused")
        raise Refuse(BadRequest("no"), [AuditEvent(event_type="refused", service="ca", detail=detail)])

    answers = await together(lambda tx: write_entry(tx, "first"), refuse, lambda tx: write_entry(tx, "last"))

    assert answers[::2] == ["first", "last"]
    assert error in [kind.__name__ for kind in type(answers[1]).__mro__]
    assert await names(database) == ["first", "last"]


async def test_f10_a_group_that_lost_against_another_is_repeated_each_alone(database, together, url):
    await database.write(lambda tx: tx.run(OPEN, name="a"))
    runs = []

    def look_and_write(tx):
        runs.append("look")
        if runs.count("look") == 1:
            with psycopg.connect(url, autocommit=True) as other:
                other.execute("UPDATE t_account SET sum = sum + 10")
        tx.run(ADD, name="a")
        return tx.one(SUMS).sum

    def write(tx):
        runs.append("write")
        return write_entry(tx, "once")

    assert await together(write, look_and_write) == ["once", 11]
    assert runs == ["write", "look", "write", "look"]
    assert await names(database) == ["once"]


async def test_f10_the_rows_that_a_write_finds_by_a_key_are_all_that_it_locks_of_a_small_table(database, url):
    """A whole table that was read conflicts with every writer of it."""
    await database.write(lambda tx: [tx.run(OPEN, name=name) for name in ("a", "b")])
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("ANALYZE t_account")
    locks = table("pg_locks", MetaData(), State.LOCAL, Column("mode", Id), Column("locktype", Id))
    found = select(locks.c.locktype).where(locks.c.mode == "SIReadLock")

    def add(tx):
        tx.run(ADD, name="a")
        return {row.locktype for row in tx.all(found)}

    assert await database.write(add) == {"tuple", "page"}


async def test_what_reads_a_whole_table_is_not_compiled_for_it(database):
    """With sequential scans priced out, the server would compile each statement that needs one: a second of its CPU."""
    settings = table("pg_settings", MetaData(), State.LOCAL, Column("name", Id), Column("setting", Id))

    def ask(tx):
        return tx.one(select(settings.c.setting).where(settings.c.name == "jit")).setting

    assert await database.read(ask) == "off"


async def test_a_text_with_a_nul_is_refused_and_not_cut_short(database):
    with pytest.raises(psycopg.DataError):
        await database.write(write_entry, "cut\0short")

    assert await names(database) == []


async def test_f10_a_function_that_lost_a_conflict_runs_again_with_its_events_and_promises_started_again(database):
    """Both look before either writes: one of them has to see the other's entry in the end."""
    barrier, runs, after = threading.Barrier(2), [], []

    @scan
    def look_and_write(tx, name):
        many = tx.one(MANY).many
        runs.append(name)
        if runs.count(name) == 1:
            barrier.wait(30)
        tx.audit(AuditEvent(event_type="look", service="ca"))
        tx.after_commit(lambda: after.append(name))
        write_entry(tx, name)
        return many

    seen = await asyncio.gather(database.write(look_and_write, "a"), database.write(look_and_write, "b"))

    assert sorted(seen) == [0, 1]
    assert len(runs) > 2
    assert sorted(after) == ["a", "b"]
    assert (await database.read(lambda tx: tx.one(EVENTS))).many == 2


async def test_f10_a_refusal_does_not_stand_on_a_state_that_never_was(database):
    """A refusal is repeated too when what it read was not serializable with what others committed."""
    await database.write(lambda tx: [tx.run(OPEN, name=name) for name in ("a", "b")])
    barrier, runs = threading.Barrier(2), []

    @scan
    def crosswise(tx, mine, others):
        total = sum(row.sum for row in tx.all(SUMS))
        runs.append(mine)
        if runs.count(mine) == 1:
            barrier.wait(30)
        tx.run(ADD, name=others)
        if total:
            raise Refuse(BadRequest("there was a sum"), [AuditEvent(event_type="refused", service="ca")])

    answers = await asyncio.gather(database.write(crosswise, "a", "b"), database.write(crosswise, "b", "a"), return_exceptions=True)

    assert sorted(type(answer).__name__ for answer in answers) == ["BadRequest", "NoneType"]
    assert (await database.read(lambda tx: tx.one(EVENTS))).many == 1


async def test_the_moment_of_a_transaction_is_read_after_what_it_sees_was_fixed(url):
    """What is younger than ``tx.now`` is not seen: each look at the clock lets somebody else commit."""

    class Clock(SystemClock):
        looks = 0

        def now(self):
            self.looks += 1
            with psycopg.connect(url, autocommit=True) as other:
                other.execute("INSERT INTO t_entry (name) VALUES (%s)", [f"younger {self.looks}"])
            return self.looks

    clock, runs = Clock(), []
    async with open_test_database(url, clock=clock) as database:

        def look(tx):
            runs.append((tx.now, [row.name for row in tx.all(NAMES)]))
            if len(runs) == 1:
                raise psycopg.errors.SerializationFailure("as if another had been faster")

        await database.write(look)

    assert runs == [(1, []), (2, ["younger 1"])]


async def test_f10_a_deadlock_is_repeated(database):
    await database.write(lambda tx: [tx.run(OPEN, name=name) for name in ("a", "b")])
    barrier, runs = threading.Barrier(2), []

    @scan
    def add_both(tx, first, second):
        tx.run(ADD, name=first)
        runs.append(first)
        if runs.count(first) == 1:
            barrier.wait(30)
        tx.run(ADD, name=second)

    await asyncio.gather(database.write(add_both, "a", "b"), database.write(add_both, "b", "a"))

    assert [row.sum for row in await database.read(lambda tx: tx.all(SUMS))] == [2, 2]


async def test_f10_a_lost_race_of_plain_inserts_is_the_callers_in_bounded_time(database):
    answers = await asyncio.gather(*(database.write(write_entry, "same") for _ in range(10)), return_exceptions=True)

    assert sorted(type(answer).__name__ for answer in answers) == ["UniqueViolation"] * 9 + ["str"]


async def database_waits(database):
    """Until somebody waits for a connection."""
    for _ in range(100):
        if database._waiting:
            return
        await asyncio.sleep(0)
    raise AssertionError


async def test_f11_with_all_connections_in_use_callers_queue_and_then_are_unavailable(url, monkeypatch):
    async with open_test_database(url, max_connections=2) as database:
        entered, release = threading.Semaphore(0), threading.Event()

        @scan
        def hold(_tx):
            entered.release()
            assert release.wait(30)

        holding = [asyncio.ensure_future(database.write(hold)) for _ in range(2)]
        for _ in holding:
            await asyncio.to_thread(entered.acquire, timeout=30)

        queued = asyncio.ensure_future(database.write(write_entry, "queued"))
        await database_waits(database)
        monkeypatch.setattr(postgres, "QUEUE_SECONDS", 0.01)
        with pytest.raises(Unavailable, match="no database connection"):
            await database.write(write_entry, "impatient")
        monkeypatch.setattr(postgres, "WAITING", 1)
        with pytest.raises(Unavailable, match="too many"):
            await database.read(lambda tx: tx.all(NAMES))

        release.set()
        assert await queued == "queued"
        await asyncio.gather(*holding)
        assert await names(database) == ["queued"]


async def test_f11_many_more_callers_than_connections_all_get_through(url):
    async with open_test_database(url, max_connections=2) as database:
        await asyncio.gather(*(database.write(write_entry, str(number)) for number in range(60)))

        assert len(await names(database)) == 60


DIE_AT_COMMIT = """
    CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON t_entry DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()
"""


def end_session(tx, url):
    """Cut the connection under a transaction, as a server or a firewall would."""
    pid = tx.one(select(func.pg_backend_pid().label("pid"))).pid
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])


async def test_f09_a_connection_lost_before_the_commit_is_replaced_and_the_function_runs_again(database, url):
    runs = []

    def lose_the_first(tx):
        runs.append(1)
        if len(runs) == 1:
            end_session(tx, url)
        return write_entry(tx, "once")

    assert await database.write(lose_the_first) == "once"
    assert len(runs) == 2
    assert await names(database) == ["once"]


async def test_f09_a_connection_lost_while_it_commits_is_unavailable_and_not_repeated(database, url):
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(DIE_AT_COMMIT)
    runs, after = [], []

    def write(tx):
        runs.append(1)
        tx.after_commit(lambda: after.append(1))
        write_entry(tx, "unknown")

    with pytest.raises(Unavailable) as caught:
        await database.write(write)

    assert "LostCommit" in caught.value.cause
    assert (len(runs), after) == (1, [])
    assert (await database.healthy()).ok


async def test_f09_a_group_lost_while_it_commits_is_uncertain_for_all_of_it(database, together, url):
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(DIE_AT_COMMIT)

    def refuse(_tx):
        raise Refuse(BadRequest("no"))

    answers = await together(lambda tx: write_entry(tx, "unknown"), refuse)

    assert [type(answer) for answer in answers] == [Uncertain, Uncertain]


async def test_f09_a_server_that_goes_and_comes_back_needs_no_restart_of_ours(mortal_cluster):
    url = mortal_cluster.make()
    make_tables(url, metadata)
    async with open_test_database(url) as database:
        await asyncio.gather(*(database.write(write_entry, str(number)) for number in range(10)))

        await asyncio.to_thread(mortal_cluster.stop, signal.SIGQUIT)
        with pytest.raises(Unavailable) as caught:
            await database.write(write_entry, "down")
        with pytest.raises(Unavailable):
            await names(database)
        assert not (await database.healthy()).ok
        assert caught.value.headers["Retry-After"]

        await asyncio.to_thread(mortal_cluster.start)
        await asyncio.gather(*(database.write(write_entry, f"again-{number}") for number in range(10)))
        assert len(await names(database)) == 20


async def test_a_caller_who_went_away_does_not_stop_what_the_commit_has_to_tell(url):
    told, entered, release = [], threading.Event(), threading.Event()

    def slow(tx):
        entered.set()
        assert release.wait(30)
        tx.changed("entry", write_entry(tx, "e1"))

    async with open_test_database(url, on_changed=told.extend) as database:
        caller = asyncio.ensure_future(database.write(slow))
        await asyncio.to_thread(entered.wait, 30)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        release.set()

    assert told == [("entry", "e1")]


async def test_a_server_that_cannot_be_reached_is_one_line_without_the_password():
    with pytest.raises(StoreProblem) as caught:
        ensure("postgresql://someone:hunter2@127.0.0.1:1/nothing?connect_timeout=2", [], "auto")

    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_a_database_of_another_encoding_is_refused(postgres_cluster):
    postgres_cluster.query("CREATE DATABASE latin ENCODING 'SQL_ASCII' TEMPLATE template0")

    with pytest.raises(StoreProblem, match="SQL_ASCII"):
        async with open_test_database(postgres_cluster.url("latin")):
            """Not reached."""
