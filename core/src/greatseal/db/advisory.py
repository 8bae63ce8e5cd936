"""The right to write to a PostgreSQL database: an advisory lock, which ends with the session that has it."""

import asyncio
import secrets
from contextlib import suppress

import psycopg
import structlog

from greatseal.api.problems import Unavailable
from greatseal.db.config import StoreProblem
from greatseal.db.database import DatabaseImpl
from greatseal.db.holds import checked, held, this_process
from greatseal.db.pipeline import Connection
from greatseal.db.postgres import connect_first, store_problem
from greatseal.db.sole import InUse, in_use

CLASS = 0x67736561
"""The first half of the lock's key, "gsea". The second is the schema: a database may hold several stores."""
AGAIN = 0.2
"""Seconds between attempts to take it again."""
NAME_BYTES = 63
"""PostgreSQL cuts application_name there."""
FOREVER = 1 << 62

# A machine that is gone is missed in half a minute on both sides, and a session that waits is not ended.
SETTINGS = """
SELECT set_config(name, CASE name WHEN 'idle_session_timeout' THEN '0' WHEN 'tcp_keepalives_idle' THEN '15' ELSE '5' END, false)
FROM pg_settings WHERE name IN ('idle_session_timeout', 'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count')
"""
TAKE = "SELECT pg_try_advisory_lock(%s, (SELECT oid FROM pg_namespace WHERE nspname = current_schema())::int)"
HOLDER = """
SELECT session.pid, session.application_name FROM pg_locks AS held JOIN pg_stat_activity AS session ON session.pid = held.pid
WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 2 AND held.classid = %s::bigint::oid
AND held.objid = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

# A key of 64 bits, apart from those of two halves. The schema belongs to it: a database may hold several stores.
NAMED_KEY = "hashtextextended(current_schema() || ' ' || %s, 0)"
TAKE_NAMED = f"SELECT pg_try_advisory_lock({NAMED_KEY})"
NAMED_HOLDER = f"""
SELECT session.application_name FROM pg_locks AS held JOIN pg_stat_activity AS session ON session.pid = held.pid
WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 1
AND (held.classid::bigint << 32 | held.objid::bigint) = {NAMED_KEY}
AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""  # noqa: S608 - of constants alone


def named_hold(url: str, name: str) -> Connection:
    """A connection that has the lock of that name until it is closed. Raises Held, and Unavailable when the server cannot be asked."""
    checked(name)
    try:
        connection = _session(url)
    except StoreProblem as problem:
        raise Unavailable("the database cannot be used now", cause=str(problem)) from problem
    try:
        if connection.execute(TAKE_NAMED, [name]).fetchone() == (True,):
            return connection
        (holder,) = connection.execute(NAMED_HOLDER, [name]).fetchone() or ("",)
    except psycopg.Error as error:
        connection.close()
        raise Unavailable("the database cannot be used now", cause=str(error)) from error
    connection.close()
    raise held(name, holder if holder.startswith("process ") else "")


def give_back(connection: Connection) -> None:
    """End a named hold: when this returns the next one can have it, while the server takes its time over the end of a session."""
    with suppress(psycopg.Error):
        connection.execute("SELECT pg_advisory_unlock_all()")
    connection.close()


def _session(url: str) -> Connection:
    """A connection that says which process has it, and stays open."""
    connection = connect_first(url)
    try:
        connection.execute("SELECT set_config('application_name', %s, false)", [this_process()[:NAME_BYTES]])
        connection.execute(SETTINGS)
    except psycopg.Error as error:
        connection.close()
        raise store_problem(error) from error
    return connection


class AdvisoryHold:
    """A :class:`greatseal.db.sole.Hold` with a connection of its own.

    When that ends, so does the lock, and it is taken again. Each holder leaves a strike in the database and removes all others: one whose
    strike is gone was not the only one meanwhile, and what it remembers may be wrong.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = _session(self._url)
        info = self._connection.info
        self.place = f"{info.dbname} of PostgreSQL at {info.host or 'its socket'}"
        self._token = secrets.token_hex(16)

    def taken(self) -> bool:
        """See :class:`greatseal.db.sole.Hold`."""
        try:
            if self._connection.closed:
                self._connection = _session(self._url)
            return self._connection.execute(TAKE, [CLASS]).fetchone() == (True,)
        except psycopg.Error as error:
            self._connection.close()
            raise store_problem(error) from error

    def holder(self) -> str:
        """See :class:`greatseal.db.sole.Hold`."""
        return self._session()[1]

    def mark(self) -> None:
        """See :class:`greatseal.db.sole.Hold`."""
        try:
            if self._has_marks():
                with self._connection.transaction():
                    self._connection.execute("DELETE FROM core_strike WHERE kind = 'holder'")
                    values = [self._token, FOREVER]
                    self._connection.execute("INSERT INTO core_strike (kind, key, until) VALUES ('holder', %s, %s)", values)
        except psycopg.Error as error:
            raise store_problem(error) from error

    async def keep(self, database: DatabaseImpl, log: structlog.stdlib.BoundLogger) -> None:
        """See :class:`greatseal.db.sole.Hold`."""
        while True:
            lost = self._connection.info.backend_pid
            await self._end_of_session()
            database.suspended = True
            log.warning("the lock on the database ended with its connection; the database is not used until it is taken again")
            while not await asyncio.to_thread(self._taken_again, lost):  # noqa: ASYNC110  # nobody tells when the server is back
                await asyncio.sleep(AGAIN)
            database.suspended = False
            log.info("the lock on the database is taken again")

    def close(self) -> None:
        """See :class:`greatseal.db.sole.Hold`."""
        self._connection.close()

    def _session(self) -> tuple[int, str]:
        """The server's number of the session that has the lock, and which process that is; 0 and nothing when it cannot be told."""
        try:
            number, name = self._connection.execute(HOLDER, [CLASS]).fetchone() or (0, "")
        except psycopg.Error as error:
            raise store_problem(error) from error
        return number, name if name and name.startswith("process ") else ""

    def _has_marks(self) -> bool:
        return self._connection.execute("SELECT to_regclass('core_strike')").fetchone() != (None,)

    def _is_marked(self) -> bool:
        query = "SELECT 1 FROM core_strike WHERE kind = 'holder' AND key = %s"
        return self._has_marks() and self._connection.execute(query, [self._token]).fetchone() is not None

    async def _end_of_session(self) -> None:
        """Return when the connection is cut; whatever else the server says is read and dropped."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        connection, number = self._connection, self._connection.fileno()

        def heard() -> None:
            try:
                connection.pgconn.consume_input()
                connection.pgconn.is_busy()
            except psycopg.Error:
                # Before the number can belong to another connection.
                loop.remove_reader(number)
                connection.close()
                ended.set()

        loop.add_reader(number, heard)
        try:
            await ended.wait()
        finally:
            if not ended.is_set():
                loop.remove_reader(number)

    def _taken_again(self, lost: int) -> bool:
        """False: not yet. Raises InUse when another process has it, or had it."""
        try:
            if self.taken():
                if self._is_marked():
                    return True
                raise InUse(f"another process wrote to the database {self.place} while this one had lost its lock: start the service again")
            number, holder = self._session()
            if number == lost:
                # The server has not missed us: it is our own session, on a connection that is gone.
                self._connection.execute("SELECT pg_terminate_backend(%s)", [lost])
            elif number:
                raise InUse(in_use(self.place, holder))
        except (StoreProblem, psycopg.Error) as error:
            if isinstance(error, InUse):
                raise
        return False
