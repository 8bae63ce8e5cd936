"""Group commit on SQLite: one commit for all who wait, one's failure is its own, nobody is told success before COMMIT."""

import asyncio
import contextvars
import os
import sqlite3
import stat
import threading
from contextlib import asynccontextmanager
from functools import partial

import pytest
from sqlalchemy import Column, MetaData, func, insert, select

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.api.store import Refuse, scan
from greatseal.db import writer
from greatseal.db.config import DatabaseConfig, StoreProblem, sqlite_path
from greatseal.db.core_tables import audit
from greatseal.db.sqlite import prepare_file
from greatseal.db.tables import Serial, State, Text, param, table
from greatseal.testing.store import open_test_database

metadata = MetaData()
entry = table("t_entry", metadata, State.APPEND_ONLY, Column("id", Serial, primary_key=True), Column("text", Text, nullable=False))
WRITE = insert(entry).values(text=param("text"))
TEXTS = select(entry.c.text).order_by(entry.c.id)
EVENTS = select(func.count().label("many")).select_from(audit)


@pytest.fixture
async def database(sqlite_url, monkeypatch):
    monkeypatch.setattr(writer, "BRIEF", 30.0)
    monkeypatch.setattr(writer, "TURN", 30.0)
    async with open_test_database(sqlite_url) as opened:
        yield opened


def write_entry(tx, text):
    tx.run(WRITE, text=text)
    return text


async def texts(database):
    return [row.text for row in await database.read(lambda tx: tx.all(TEXTS))]


@asynccontextmanager
async def writer_held(database):
    """The writer is inside a function, in its thread: what is handed over meanwhile is one group."""
    entered, release = threading.Event(), threading.Event()

    @scan
    def hold(_tx):
        entered.set()
        assert release.wait(30)

    holding = asyncio.ensure_future(database.write(hold))
    await asyncio.to_thread(entered.wait, 30)
    try:
        yield
    finally:
        release.set()
        await holding


async def start(*writes):
    """Tasks that have handed over their function."""
    tasks = [asyncio.ensure_future(one) for one in writes]
    await asyncio.sleep(0)
    return tasks


async def test_what_waits_together_commits_together(database, sqlite_url):
    other = sqlite3.connect(sqlite_path(sqlite_url), check_same_thread=False)
    committed_before = []

    def look_from_outside(tx, text):
        write_entry(tx, text)
        committed_before.append(other.execute("SELECT count(*) FROM t_entry").fetchone()[0])

    async with writer_held(database):
        tasks = await start(*(database.write(look_from_outside, str(number)) for number in range(20)))
    await asyncio.gather(*tasks)

    assert committed_before == [0] * 20
    assert other.execute("SELECT count(*) FROM t_entry").fetchone() == (20,)
    other.close()


async def test_one_that_fails_does_not_spoil_the_group(database):
    def fail(tx):
        write_entry(tx, "undone")
        raise KeyError("poison")

    def refuse(tx):
        write_entry(tx, "undone too")
        raise Refuse(BadRequest("no"), [AuditEvent(event_type="refused", service="ca")])

    async with writer_held(database):
        tasks = await start(
            database.write(write_entry, "a"),
            database.write(fail),
            database.write(write_entry, "b"),
            database.write(refuse),
            database.write(lambda tx: tx.run(WRITE, text=None)),
            database.write(write_entry, "c"),
        )
    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(answer) for answer in answers] == [str, KeyError, str, BadRequest, sqlite3.IntegrityError, str]
    assert await texts(database) == ["a", "b", "c"]
    assert (await database.read(lambda tx: tx.one(EVENTS))).many == 1


async def test_a_refusal_whose_events_cannot_be_written_is_the_callers_failure_alone(database):
    def refuse(_tx):
        raise Refuse(BadRequest("no"), [AuditEvent(event_type=None, service="ca")])

    async with writer_held(database):
        tasks = await start(database.write(refuse), database.write(write_entry, "kept"))
    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(answer) for answer in answers] == [sqlite3.IntegrityError, str]


async def test_a_full_queue_is_unavailable_at_once(database, monkeypatch):
    monkeypatch.setattr(writer, "WAITING", 3)
    async with writer_held(database):
        tasks = await start(*(database.write(write_entry, str(number)) for number in range(3)))
        with pytest.raises(Unavailable) as caught:
            await database.write(write_entry, "one too many")
    await asyncio.gather(*tasks)

    assert caught.value.headers["Retry-After"] == "1"
    assert await texts(database) == ["0", "1", "2"]


async def test_what_was_cancelled_before_it_began_does_not_run(database):
    async with writer_held(database):
        (waiting,) = await start(database.write(write_entry, "nobody waits for it"))
        waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await database.write(write_entry, "next")

    assert await texts(database) == ["next"]


async def test_brief_functions_run_on_the_loop_and_long_ones_in_the_thread_until_they_are_brief_again(database, monkeypatch):
    threads = []

    def where(_tx):
        threads.append(threading.current_thread())

    await database.write(where)  # the thread has opened the connection by then
    await database.write(where)
    monkeypatch.setattr(writer, "BRIEF", -1.0)
    await database.write(where)
    monkeypatch.setattr(writer, "BRIEF", 30.0)
    await database.write(where)
    await database.write(where)
    await database.write(scan(where))

    here, there = threading.current_thread(), database._writer._thread
    assert threads[1:] == [here, here, there, here, there]


async def test_a_partial_that_was_long_is_known_again(database, monkeypatch):
    def where(_tx, _number):
        return threading.current_thread()

    await database.write(write_entry, "first")
    monkeypatch.setattr(writer, "BRIEF", -1.0)

    assert [await database.write(partial(where, _number=number)) for number in range(2)] == [
        threading.current_thread(),
        database._writer._thread,
    ]


async def test_a_group_ends_where_the_loop_was_held_up_for_long_enough(database, sqlite_url, monkeypatch):
    await database.write(write_entry, "first")
    other = sqlite3.connect(sqlite_path(sqlite_url), check_same_thread=False)
    monkeypatch.setattr(writer, "TURN", -1.0)

    def committed(tx, text):
        write_entry(tx, text)
        return other.execute("SELECT count(*) FROM t_entry").fetchone()[0]

    tasks = await start(database.write(committed, "a"), database.write(lambda tx: committed(tx, "b")))

    assert await asyncio.gather(*tasks) == [1, 2]
    other.close()


async def test_a_process_that_holds_the_file_holds_up_its_writers_alone(database, sqlite_url):
    """With the lock file or without it."""
    await database.write(write_entry, "before")
    path = sqlite_path(sqlite_url)
    lock = writer.FileLock(path)
    foreign = sqlite3.connect(path, isolation_level=None)

    assert lock.taken_at_once()
    (first,) = await start(database.write(write_entry, "a"))
    assert await texts(database) == ["before"]
    lock.release()
    assert await first == "a"

    foreign.execute("BEGIN IMMEDIATE")
    (second,) = await start(database.write(write_entry, "b"))
    assert await texts(database) == ["before", "a"]
    assert not second.done()
    foreign.execute("ROLLBACK")
    assert await second == "b"

    lock.close()
    foreign.close()


async def test_a_function_hears_nothing_of_the_context_of_its_callers(database):
    """Callers share a group; what one has bound to its log lines is not another's."""
    bound = contextvars.ContextVar("bound", default="nothing")
    await database.write(write_entry, "first")
    bound.set("mine")

    assert await database.write(lambda _tx: bound.get()) == "nothing"


async def test_closing_writes_what_waits_and_refuses_what_comes_later(sqlite_url):
    async with open_test_database(sqlite_url) as database:
        tasks = await start(*(database.write(write_entry, str(number)) for number in range(300)))
    assert len(await asyncio.gather(*tasks)) == 300

    with pytest.raises(Unavailable):
        await database.write(write_entry, "late")


async def test_more_than_a_group_waits_for_the_next_one(database):
    async with writer_held(database):
        tasks = await start(*(database.write(write_entry, str(number)) for number in range(writer.GROUP * 2 + 10)))

    assert await asyncio.gather(*tasks) == [str(number) for number in range(writer.GROUP * 2 + 10)]


@pytest.mark.parametrize("point", ["db.begun", "db.commit"])
@pytest.mark.parametrize("failure", ["enospc", "eio"])
async def test_f08_a_group_that_cannot_commit_is_written_one_by_one(database, monkeypatch, point, failure):
    monkeypatch.setattr(faults, "point", faults.passed)
    runs = []

    def run(tx, text):
        runs.append(text)
        return write_entry(tx, text)

    async with writer_held(database):
        tasks = await start(*(database.write(run, text) for text in "abc"))
        faults.arm(f"{point}:{failure}:{2 if point == 'db.commit' else 1}")  # the first COMMIT is that of the held group
    assert await asyncio.gather(*tasks) == ["a", "b", "c"]

    assert "".join(runs) == ("abcabc" if point == "db.commit" else "abc")
    assert await texts(database) == ["a", "b", "c"]


async def test_f08_a_write_alone_that_cannot_commit_is_unavailable_and_changes_nothing(database, monkeypatch):
    monkeypatch.setattr(faults, "point", faults.passed)
    told = []

    def act(tx):
        write_entry(tx, "lost")
        tx.after_commit(lambda: told.append("lost"))

    faults.arm("db.commit:enospc")
    with pytest.raises(Unavailable) as caught:
        await database.write(act)
    await database.write(write_entry, "next")

    assert "No space left" in caught.value.cause
    assert await texts(database) == ["next"]
    assert told == []


async def test_the_files_are_ours_alone_whatever_the_umask(tmp_path):
    url, before = f"sqlite:///{tmp_path}/state/greatseal.db", os.umask(0)
    try:
        async with open_test_database(url) as database:
            await database.healthy()
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state").iterdir()}
    finally:
        os.umask(before)

    assert modes == dict.fromkeys(("greatseal.db", "greatseal.db-wal", "greatseal.db-shm", "greatseal.db.lock"), 0o600)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


async def test_commits_are_on_the_disk_before_they_are_told(database):
    def settings(_tx):
        connection = database._writer._connection
        return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "foreign_keys")}

    assert await database.write(settings) == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


async def test_when_idle_the_write_ahead_log_is_emptied(database, sqlite_url, monkeypatch):
    monkeypatch.setattr(writer, "IDLE", 0.01)
    wal = sqlite_path(f"{sqlite_url}-wal")
    await database.write(write_entry, "x" * 100_000)

    async with asyncio.timeout(30):
        while wal.stat().st_size:  # noqa: ASYNC110 - the file system tells nobody
            await asyncio.sleep(0.01)

    assert len(await texts(database)) == 1


def test_an_sqlite_without_returning_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))

    with pytest.raises(StoreProblem, match=r"too old: 3\.35 or newer is needed"):
        prepare_file(tmp_path / "greatseal.db")


def test_a_database_without_a_file_is_refused():
    for url in ("sqlite://", "sqlite:///:memory:"):
        with pytest.raises(StoreProblem, match="names no file"):
            sqlite_path(url)
    with pytest.raises(StoreProblem, match="mysql"):
        _ = DatabaseConfig(url="mysql://host/name").mode
