"""A process of its own for the durability tests: writes numbered entries and says so after each commit.

Arguments: url, name, how many, how many at once.
"""

import asyncio
import os
import sys

from sqlalchemy import Column, MetaData, insert

from greatseal.api.store import Tx
from greatseal.clock import SystemClock
from greatseal.db.database import DatabaseConfig, open_database
from greatseal.db.tables import Serial, State, Text, param, table

entry = table("t_entry", MetaData(), State.APPEND_ONLY, Column("id", Serial, primary_key=True), Column("text", Text, nullable=False))
WRITE = insert(entry).values(text=param("text"))


def write_entry(tx: Tx, text: str) -> None:
    tx.run(WRITE, text=text)


async def main(url: str, name: str, count: int, at_once: int) -> None:
    async def client(number: int) -> None:
        for turn in range(count):
            text = f"{name}-{number}-{turn}"
            await database.write(write_entry, text)
            os.write(1, f"{text}\n".encode())

    async with open_database(DatabaseConfig(url=url), node_id="n1", clock=SystemClock(), log=None, on_changed=print) as database:
        await asyncio.gather(*(client(number) for number in range(at_once)))


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
