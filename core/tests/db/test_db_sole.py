"""One process writes to a database; the next one is told who it is."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from greatseal.api.problems import Unavailable
from greatseal.audit import SCHEMA
from greatseal.db.advisory import CLASS, HOLDER, TAKE, AdvisoryHold
from greatseal.db.config import StoreProblem
from greatseal.db.sole import InUse, sole, this_process
from greatseal.testing.store import open_test_database
from greatseal.testing.template import migrated

HOLDING = "import sys; from greatseal.db.sole import sole\nwith sole(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
WAIT = TAKE.replace("pg_try_advisory_lock", "pg_advisory_lock")


@contextmanager
def another_process(url):
    with subprocess.Popen([sys.executable, "-c", HOLDING, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_process_is_refused_with_one_line_that_names_the_first(database_url):
    with another_process(database_url) as other:
        with pytest.raises(InUse) as refused, sole(database_url, patience=0):
            pass

        (line,) = refused.value.messages
        assert line.startswith(f"process {other.pid} on ")
        assert "stop the service first" in line
        assert "\n" not in line


def test_kill_9_frees_the_database_for_the_next_one(database_url):
    with another_process(database_url) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        # PostgreSQL looks for the end of the other; SQLite's lock ends with it.
        with sole(database_url, patience=0 if database_url.startswith("sqlite") else 5):
            pass


@pytest.mark.parametrize("name", ["relative", "link", "link of the folder", "dots"])
def test_a_file_is_one_database_under_every_name(tmp_path, monkeypatch, name):
    folder = tmp_path / "state"
    folder.mkdir()
    (tmp_path / "link.db").symlink_to(folder / "greatseal.db")
    (tmp_path / "linked").symlink_to(folder)
    monkeypatch.chdir(folder)
    other = {
        "relative": "greatseal.db",
        "link": f"{tmp_path}/link.db",
        "link of the folder": f"{tmp_path}/linked/greatseal.db",
        "dots": f"{folder}/../state/greatseal.db",
    }[name]

    with sole(f"sqlite:///{folder}/greatseal.db"), pytest.raises(InUse), sole(f"sqlite:///{other}", patience=0):
        pass


def test_two_files_are_two_databases(tmp_path):
    with sole(f"sqlite:///{tmp_path}/a.db"), sole(f"sqlite:///{tmp_path}/b.db", patience=0):
        pass


def test_a_program_that_outlives_the_process_does_not_keep_the_lock(database_url):
    with sole(database_url):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with sole(database_url, patience=5):
            pass
    finally:
        child.kill()
        child.wait()


def test_a_forked_child_that_outlives_the_process_does_not_keep_the_lock(tmp_path):
    url = f"sqlite:///{tmp_path}/greatseal.db"
    link, others = os.pipe(), os.pipe()
    with sole(url):
        child = os.fork()
        if child == 0:
            os.write(link[1], b"x")
            os.read(others[0], 1)
            os._exit(0)
        os.read(link[0], 1)
    try:
        with sole(url, patience=0):
            pass
    finally:
        os.write(others[1], b"x")
        os.waitpid(child, 0)
        for end in (*link, *others):
            os.close(end)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(StoreProblem, match=r"cannot be opened: Not a directory$"), sole(f"sqlite:///{tmp_path}/file/sub/greatseal.db"):
        pass


def test_the_password_of_a_url_is_shown_to_nobody(postgres_url):
    url = postgres_url + "&password=hunter2"

    with sole(url), pytest.raises(InUse) as refused, sole(url, patience=0):
        pass

    assert "hunter2" not in str(refused.value)
    assert this_process() in str(refused.value)


def test_two_schemas_of_a_database_are_two_stores(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA other")

    with sole(postgres_url), sole(postgres_url + "&options=-csearch_path%3Dother", patience=0):
        pass


class Told:
    """A log: ``lost`` and ``again`` are set when the lock is."""

    def __init__(self):
        self.lost, self.again = asyncio.Event(), asyncio.Event()

    def warning(self, _event):
        self.lost.set()

    def info(self, _event):
        self.again.set()


def end_session(url):
    with psycopg.connect(url, autocommit=True) as connection:
        number, _ = connection.execute(HOLDER, [CLASS]).fetchone()
        connection.execute("SELECT pg_terminate_backend(%s)", [number])


@contextmanager
def next_in_line(url):
    """A session that gets the lock in the moment in which its holder ends."""
    with psycopg.connect(url, autocommit=True) as connection, psycopg.connect(url, autocommit=True) as observer:
        waiting = threading.Thread(target=lambda: connection.execute(WAIT, [CLASS]))
        waiting.start()
        while observer.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone() is None:
            pass
        yield
        waiting.join()


@pytest.fixture
async def served(postgres_url):
    """A database with its hold, the task that keeps it, and its log."""
    migrated(postgres_url, [SCHEMA])
    with sole(postgres_url) as hold:
        async with open_test_database(postgres_url) as database:
            told = Told()
            keeping = asyncio.create_task(hold.keep(database, told))
            await asyncio.sleep(0)
            yield database, keeping, told
            keeping.cancel()
            await asyncio.wait({keeping})


@pytest.mark.timeout(30)
async def test_a_lock_whose_connection_was_cut_is_taken_again(served, postgres_url):
    database, keeping, told = served
    for _ in range(2):
        end_session(postgres_url)
        await told.again.wait()
        told.again.clear()

        assert (await database.healthy()).ok
        with pytest.raises(InUse), sole(postgres_url, patience=0):
            pass
    assert not keeping.done()


@pytest.mark.timeout(30)
async def test_a_process_that_was_overtaken_uses_the_database_no_more(served, postgres_url):
    database, keeping, told = served
    with next_in_line(postgres_url):
        end_session(postgres_url)
        await told.lost.wait()
        with pytest.raises(Unavailable):
            await database.write(print)
        with pytest.raises(Unavailable):
            await database.read(print)
        with pytest.raises(InUse, match="another process uses the database"):
            await keeping


@pytest.mark.timeout(30)
async def test_a_process_that_missed_another_one_uses_the_database_no_more(served, postgres_url):
    """It came and went while the connection was cut: what is remembered from before may be wrong."""
    database, keeping, _ = served
    other = AdvisoryHold(postgres_url)
    other.mark()
    other.close()

    end_session(postgres_url)

    with pytest.raises(InUse, match="wrote to the database"):
        await keeping
    with pytest.raises(Unavailable):
        await database.read(print)


@pytest.mark.timeout(30)
async def test_a_setting_that_the_server_tells_is_no_end(served, postgres_url):
    _, keeping, told = served
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET timezone = 'Asia/Tokyo'")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("ALTER SYSTEM RESET timezone")
        connection.execute("SELECT pg_reload_conf()")

    end_session(postgres_url)
    await told.again.wait()

    assert not keeping.done()


def test_locks_are_beside_the_file_and_private(tmp_path):
    with sole(f"sqlite:///{tmp_path}/greatseal.db"):
        pass

    assert sorted(path.name for path in tmp_path.iterdir()) == ["greatseal.db", "greatseal.db.pid"]
    assert Path(tmp_path / "greatseal.db.pid").stat().st_mode & 0o777 == 0o600
