"""A named hold has one holder among all processes of a database."""

import asyncio
import os

import pytest

from greatseal.api.problems import Unavailable
from greatseal.api.store import Held
from greatseal.db.holds import this_process
from greatseal.testing.kills import KILLED, run_apart
from greatseal.testing.store import open_test_database


async def test_one_is_inside_and_the_next_is_told_who(database_url):
    async with open_test_database(database_url) as one, open_test_database(database_url) as other:
        async with one.hold("mtc.default-1"):
            for database in (one, other):
                with pytest.raises(Held, match=f"{this_process()} holds mtc.default-1"):
                    async with database.hold("mtc.default-1"):
                        pass
            async with other.hold("mtc.default-2"):
                pass
        for database in (one, other) * 10:
            async with database.hold("mtc.default-1"):
                pass


async def test_an_error_inside_gives_it_back(database_url):
    async with open_test_database(database_url) as database:
        with pytest.raises(ZeroDivisionError):
            async with database.hold("mtc.default-1"):
                raise ZeroDivisionError
        async with database.hold("mtc.default-1"):
            pass


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".", "A", "x" * 101, "a b", "a\n"])
async def test_an_odd_name_is_none(database_url, name):
    async with open_test_database(database_url) as database:
        with pytest.raises(ValueError, match="names no hold"):
            async with database.hold(name):
                pass


def test_kill_9_frees_it(database_url):
    async def holds():
        async with open_test_database(database_url) as database, database.hold("mtc.default-1"):
            os.kill(os.getpid(), 9)

    async def takes():
        async with open_test_database(database_url) as database:
            until = asyncio.get_running_loop().time() + 5
            while True:
                try:
                    async with database.hold("mtc.default-1"):
                        return
                except Held:  # the server looks for the end of the other
                    assert asyncio.get_running_loop().time() < until
                    await asyncio.sleep(0.02)

    assert run_apart(holds) == KILLED
    asyncio.run(takes())


async def test_a_server_that_is_gone_is_an_outage(postgres_cluster, postgres_url):
    async with open_test_database(postgres_url) as database:
        postgres_cluster.stop()
        try:
            with pytest.raises(Unavailable) as refused:
                async with database.hold("mtc.default-1"):
                    pass
        finally:
            postgres_cluster.start()
    assert not isinstance(refused.value, Held)


async def test_a_file_that_cannot_be_locked_is_an_outage(tmp_path):
    async with open_test_database(f"sqlite:///{tmp_path}/greatseal.db") as database:
        (tmp_path / "greatseal.db.mtc.default-1.hold").mkdir()
        with pytest.raises(Unavailable, match="cannot be locked"):
            async with database.hold("mtc.default-1"):
                pass
