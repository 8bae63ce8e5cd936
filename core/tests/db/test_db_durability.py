"""What was acknowledged survives kills, copies at bad moments, full disks; processes share the file."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Column, MetaData, insert, select

from greatseal.api.problems import Unavailable
from greatseal.db.config import sqlite_path
from greatseal.db.tables import Serial, State, Text, param, table
from greatseal.testing.store import make_tables, open_test_database

metadata = MetaData()
entry = table("t_entry", metadata, State.APPEND_ONLY, Column("id", Serial, primary_key=True), Column("text", Text, nullable=False))
WRITE = insert(entry).values(text=param("text"))
TEXTS = select(entry.c.text).order_by(entry.c.id)

PROGRAM = [sys.executable, str(Path(__file__).parent / "writer_process.py")]


def stored(path):
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [text for (text,) in connection.execute("SELECT text FROM t_entry ORDER BY id")]
    finally:
        connection.close()


def write_entry(tx, text):
    tx.run(WRITE, text=text)


def fill(path):
    with path.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


async def start_writing(*arguments):
    return await asyncio.create_subprocess_exec(*PROGRAM, *map(str, arguments), stdout=subprocess.PIPE)


async def test_kill_9_loses_nothing_that_was_acknowledged(sqlite_url):
    acknowledged = []
    for round_, after in enumerate((1, 30, 150, 400)):
        process = await start_writing(sqlite_url, f"r{round_}", 10_000, 16)
        acknowledged += [(await process.stdout.readline()).decode().strip() for _ in range(after)]
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += (await process.stdout.read()).decode().split()
        await process.wait()

        found = stored(sqlite_path(sqlite_url))
        assert len(found) == len(set(found))
        assert set(acknowledged) <= set(found)


async def test_two_processes_share_the_file_and_neither_starves(sqlite_url):
    processes = [await start_writing(sqlite_url, name, 50, 8) for name in "ab"]
    outputs = [(await process.communicate())[0].split() for process in processes]

    assert [process.returncode for process in processes] == [0, 0]
    assert [len(output) for output in outputs] == [400, 400]
    assert len(set(stored(sqlite_path(sqlite_url)))) == 800


async def test_f06_a_copy_made_in_the_middle_of_a_commit_opens_with_all_that_was_acknowledged(sqlite_url, tmp_path):
    """A power cut: what lies in the files at that moment is all that is left."""
    path, copies = sqlite_path(sqlite_url), []
    acknowledged = []

    def write_and_copy(tx, number):
        tx.run(WRITE, text=f"unfinished-{number}")
        copy = tmp_path / f"copy{number}" / path.name
        copy.parent.mkdir()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        copies.append((copy, list(acknowledged)))

    async with open_test_database(sqlite_url) as database:

        async def client(number):
            for turn in range(20):
                text = f"{number}-{turn}"
                await database.write(write_entry, text)
                acknowledged.append(text)

        clients = [asyncio.ensure_future(client(number)) for number in range(8)]
        for number in range(10):
            await database.write(write_and_copy, number)
        await asyncio.gather(*clients)

    assert len(copies) == 10
    for number, (copy, known) in enumerate(copies):
        found = stored(copy)
        assert set(known) <= set(found)
        assert f"unfinished-{number}" not in found


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


async def test_f07_a_full_disk_is_unavailable_with_no_half_state_and_heals_without_restart(small_disk):
    url = f"sqlite:///{small_disk}/greatseal.db"
    make_tables(url, metadata)
    acknowledged = []

    async def write(database, text):
        await database.write(write_entry, text)
        acknowledged.append(text)

    async with open_test_database(url) as database:
        await write(database, "before")
        with pytest.raises(OSError, match="No space"):
            fill(small_disk / "filler")
        refused = []
        for turn in range(5):
            writes = (write(database, f"{turn}-{number}-" + "x" * 20_000) for number in range(30))
            refused += [answer for answer in await asyncio.gather(*writes, return_exceptions=True) if answer]
        assert refused
        assert {type(answer) for answer in refused} == {Unavailable}

        (small_disk / "filler").unlink()
        await asyncio.gather(*(write(database, f"after-{number}") for number in range(30)))
        rows = [row.text for row in await database.read(lambda tx: tx.all(TEXTS))]

    assert sorted(rows) == sorted(acknowledged)
    assert sorted(stored(sqlite_path(url))) == sorted(acknowledged)
