"""A connection in libpq's pipeline mode: statements are prepared once and go out together, and answers are waited for when one is needed.

A round trip wakes two processes and passes the interpreter's lock twice, which costs more than most statements do.
"""

import select
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Any

import psycopg
from psycopg import errors
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

Connection = psycopg.Connection[Any]

PREPARED = 1000
"""Statements that a connection keeps prepared; what comes later is planned every time."""
FAILURES = frozenset({ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED})


class Answer:
    """The answer to a statement, waited for when it is looked at (a :class:`greatseal.db.statements.Cursor`)."""

    __slots__ = ("_pipeline", "prepares", "result")

    def __init__(self, pipeline: "Pipeline", prepares: str | None = None) -> None:
        self._pipeline = pipeline
        self.prepares = prepares
        """The text, when this is the answer to its preparation."""
        self.result: PGresult | None = None

    @property
    def description(self) -> Sequence[Any]:
        result = self._known()
        return [((result.fname(number) or b"").decode(),) for number in range(result.nfields)]

    @property
    def rowcount(self) -> int:
        return self._known().command_tuples or 0

    def fetchall(self) -> list[Any]:
        return self._pipeline.rows(self._known())

    def _known(self) -> PGresult:
        if self.result is None:
            self._pipeline.settle()
        assert self.result is not None
        return self.result


class Pipeline:
    """A connection, used by one thread at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._libpq = connection.pgconn
        self._names: dict[str, bytes] = {}
        self._numbers = count()
        self._sent: deque[Answer] = deque()
        self._syncs = 0
        self._poll = select.poll()
        self._transformer = Transformer(connection)
        self._libpq.enter_pipeline_mode()

    @property
    def closed(self) -> bool:
        return self._connection.closed

    @property
    def idle(self) -> bool:
        """No transaction is open, as far as answers were taken."""
        return self._libpq.transaction_status == TransactionStatus.IDLE

    def close(self) -> None:
        self._connection.close()

    def execute(self, text: str, values: Sequence[Any] = ()) -> Answer:
        """Send it with what follows. An error shows when its answer or a later one is looked at, or in :meth:`settle`."""
        given = [encoded(value) for value in values]
        # As text, a string would end at its first NUL.
        formats = [Format.TEXT if isinstance(value, int) else Format.BINARY for value in values]
        name = self._names.get(text) or self._prepared(text)
        if name is None:
            self._libpq.send_query_params(text.encode(), given, param_formats=formats)
        else:
            self._libpq.send_query_prepared(name, given, param_formats=formats)
        answer = Answer(self)
        self._sent.append(answer)
        return answer

    def dispatch(self) -> None:
        """Send everything; whoever uses the connection next takes the answers."""
        self._libpq.pipeline_sync()
        self._syncs += 1

    def settle(self) -> None:
        """Send everything and take every answer. Raises the first error."""
        if self._sent:
            self.dispatch()
        failed: PGresult | None = None
        while self._syncs:
            result = self._next()
            if result.status == ExecStatus.PIPELINE_SYNC:
                self._syncs -= 1
                continue
            if not self._sent:  # about the connection
                raise errors.error_from_result(result)
            answer = self._sent.popleft()
            answer.result = result
            if result.status in FAILURES:
                failed = failed or result
                if answer.prepares is not None:
                    del self._names[answer.prepares]
        if failed is not None:
            raise errors.error_from_result(failed)

    def check(self) -> None:
        """Raise when the server has already ended the connection. No answer may be due."""
        self._poll.register(self._libpq.socket, select.POLLIN)
        while self._poll.poll(0):
            self._libpq.consume_input()

    def rows(self, result: PGresult) -> list[Any]:
        """As Python values."""
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def _prepared(self, text: str) -> bytes | None:
        if len(self._names) >= PREPARED:
            return None
        name = self._names[text] = f"s{next(self._numbers)}".encode()
        self._libpq.send_prepare(name, text.encode())
        self._sent.append(Answer(self, prepares=text))
        return name

    def _next(self) -> PGresult:
        """The next result, waited for without the interpreter's lock, which libpq's own waiting would hold."""
        libpq = self._libpq
        while True:
            while libpq.is_busy():
                unsent = libpq.flush()
                self._poll.register(libpq.socket, select.POLLIN | select.POLLOUT if unsent else select.POLLIN)
                self._poll.poll()
                libpq.consume_input()
            result = libpq.get_result()
            if result is not None:
                return result
            # None stands between two statements, and for a connection that is gone.
            if self.closed:
                raise psycopg.OperationalError("the connection is closed")


def encoded(value: object) -> bytes | None:
    """A value of the column types of :mod:`greatseal.db.tables`."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int):
        return b"%d" % value
    if value is None or isinstance(value, bytes):
        return value
    raise TypeError(f"a value is text, bytes, an integer or None, not {type(value).__name__}")
