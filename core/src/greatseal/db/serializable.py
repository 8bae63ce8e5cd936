"""What threads do with PostgreSQL: run functions in SERIALIZABLE transactions, and again when the database says so."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from greatseal import faults
from greatseal.api.problems import Unavailable, Uncertain
from greatseal.api.store import Refuse
from greatseal.db.delivery import Write
from greatseal.db.pipeline import Connection, Pipeline
from greatseal.db.statements import Statements
from greatseal.db.transaction import Reading, Writing
from greatseal.host import Clock

RETRY_SECONDS = 10.0
"""How long a function is repeated that others keep getting in the way of."""
RACES = 5
"""Repetitions after a unique violation: under SERIALIZABLE it is mostly a race, else it stays."""
LONG = 0.5
"""Seconds. A function that took longer has a transaction of its own the next time. It may get in the way of
others then, so that a busy machine must not make one of every function."""

REPEATED = (errors.SerializationFailure, errors.DeadlockDetected)
# https://www.postgresql.org/docs/current/errcodes-appendix.html: connection, resources, operator intervention, lock timeout, standby
OUTAGES = ("08", "53", "57", "58", "55P03", "25006", "XX")

T = TypeVar("T")


class Sessions:
    """The connections of this process that are at rest, and the work done on them. Safe for several threads."""

    def __init__(self, connect: Callable[[], Connection], *, clock: Clock, node_id: str) -> None:
        self._connect = connect
        self._clock = clock
        self._node_id = node_id
        self._statements = Statements("postgresql")
        self._resting: list[Pipeline] = []
        self._long: set[object] = set()

    def add(self, connection: Connection) -> None:
        """One that was made elsewhere."""
        self._give_back(Pipeline(connection))

    def is_long(self, code: object) -> bool:
        """Whether functions of this code took long the last time."""
        return code in self._long

    def read(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the function returns."""

        def work(pipeline: Pipeline) -> Any:
            with reading(pipeline):
                return Reading(pipeline.execute, self._statements, self._clock.now(), self._node_id).perform(fn, args, kwargs)

        return self._repeated(work)

    def write(self, calls: Sequence[Write]) -> None:
        """Run them and commit, in one transaction unless something is in the way. Every call has an outcome then."""
        try:
            for call in calls if len(calls) == 1 else self._together(calls):
                self._alone(call)
        except Exception as error:  # noqa: BLE001 - those that it kept from being tried as well
            for call in calls:
                if not call.settled:
                    call.fail(error)

    def close(self) -> None:
        """Close what rests: all of it is as old as the one that was cut, and a check of each would cost a caller."""
        while self._resting:
            self._resting.pop().close()

    def _together(self, calls: Sequence[Write]) -> Sequence[Write]:
        """One transaction; those that have to be tried alone after it."""
        pipeline, _ = self._take()
        try:
            return self._transact(pipeline, calls)
        except LostCommit as error:
            raise unavailable(error, Uncertain) from error
        except psycopg.Error:
            return calls
        finally:
            self._give_back(pipeline)

    def _alone(self, call: Write) -> None:
        """Raises Unavailable when nothing can be written now."""
        try:
            self._repeated(lambda pipeline: self._transact(pipeline, [call]))
        except Exception as error:
            call.fail(error)
            call.settled = True
            if isinstance(error, Unavailable) and not isinstance(error, Uncertain):
                raise

    def _transact(self, pipeline: Pipeline, calls: Sequence[Write]) -> list[Write]:
        """Begin, run, commit. Those of several whose statements failed, which another transaction may be the cause of."""
        failed: list[Write] = []
        with serializable(pipeline):
            for number, call in enumerate(calls):
                if number:
                    pipeline.execute("RELEASE call")
                pipeline.execute("SAVEPOINT call")
                try:
                    self._run(pipeline, call)
                except psycopg.Error as error:
                    if len(calls) == 1 or pipeline.closed or isinstance(error, REPEATED) or is_outage(error):
                        raise
                    pipeline.execute("ROLLBACK TO call")
                    failed.append(call)
        for call in calls:
            call.settled = call not in failed
        return failed

    def _run(self, pipeline: Pipeline, call: Write) -> None:
        """Run the function in its savepoint. Raises what the database said."""
        began = time.monotonic()
        tx = self._writing(pipeline)
        result, refused = None, None
        try:
            result = tx.perform(call.fn, call.args, call.kwargs)
        except psycopg.Error:
            raise
        except BaseException as error:  # noqa: BLE001 - the caller gets it; the others go on
            refused = error
        pipeline.settle()
        if refused is None:
            call.succeed(result, tx)
        else:
            # What it read is only true once this commits: a refusal is not to stand on a state that never was.
            pipeline.execute("ROLLBACK TO call")
            if isinstance(refused, Refuse):
                refused = self._told(pipeline, refused)
            pipeline.settle()
            call.fail(refused)
        if time.monotonic() - began > LONG:
            self._long.add(call.code)
        elif self._long:
            self._long.discard(call.code)

    def _told(self, pipeline: Pipeline, refusal: Refuse) -> BaseException:
        """Write the events of a refusal; what the caller gets. Raises what the database said."""
        try:
            self._writing(pipeline).audit_all(refusal.audit)
        except psycopg.Error:
            raise
        except Exception as error:  # noqa: BLE001 - as above: an event that is no row is this caller's alone
            pipeline.execute("ROLLBACK TO call")
            return error
        return refusal.problem

    def _writing(self, pipeline: Pipeline) -> Writing:
        return Writing(pipeline.execute, self._statements, self._clock.now(), self._node_id)

    def _repeated(self, work: Callable[[Pipeline], T]) -> T:
        """Do the work on a connection, again when it lost against another transaction or its connection was a dead one."""
        patience = Patience()
        while True:
            pipeline, fresh = self._take()
            try:
                return work(pipeline)
            except LostCommit as error:
                raise unavailable(error, Uncertain) from error
            except psycopg.Error as error:
                if pipeline.closed and not fresh:
                    self.close()
                else:
                    patience.endure(error)
            finally:
                self._give_back(pipeline)
            patience.wait()

    def _take(self) -> tuple[Pipeline, bool]:
        """A connection, and whether it was made for this."""
        try:
            return self._resting.pop(), False
        except IndexError:
            pass
        try:
            return Pipeline(self._connect()), True
        except psycopg.Error as error:
            raise unavailable(error) from error

    def _give_back(self, pipeline: Pipeline) -> None:
        if not pipeline.closed:
            self._resting.append(pipeline)


class Patience:
    """How often and how long a function is repeated."""

    def __init__(self) -> None:
        self._end = time.monotonic() + RETRY_SECONDS
        self._tried = self._races = 0

    def endure(self, error: psycopg.Error) -> None:
        """Return when the work is to be tried again, else raise what the caller is to see."""
        if isinstance(error, errors.UniqueViolation):
            self._races += 1
            if self._races <= RACES:
                return
        elif isinstance(error, REPEATED) and time.monotonic() < self._end:
            return
        elif isinstance(error, REPEATED) or is_outage(error):
            raise unavailable(error) from error
        raise error

    def wait(self) -> None:
        """Let the others finish."""
        self._tried += 1
        time.sleep(random.uniform(0, min(0.1, 0.001 * 2**self._tried)))  # noqa: S311 - jitter


class LostCommit(Exception):
    """The connection was cut while it committed: nobody can tell whether the changes are there."""


@contextmanager
def serializable(pipeline: Pipeline) -> Iterator[None]:
    """Commit, or roll back and let the error pass."""
    pipeline.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    # The first SELECT fixes what the transaction sees: its moment, read after that, is later than every moment in it.
    pipeline.execute("SELECT 1")
    try:
        pipeline.settle()
        yield
        pipeline.settle()
        faults.point("db.commit")
        pipeline.check()
    except BaseException:
        rollback(pipeline)
        raise
    try:
        pipeline.execute("COMMIT")
        pipeline.settle()
    except psycopg.Error as error:
        if pipeline.closed:
            raise LostCommit(str(error)) from error
        rollback(pipeline)
        raise
    faults.point("db.committed")


@contextmanager
def reading(pipeline: Pipeline) -> Iterator[None]:
    """One consistent state. Nobody waits for its end."""
    pipeline.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        yield
        pipeline.settle()
    except BaseException:
        rollback(pipeline)
        raise
    pipeline.execute("COMMIT")
    pipeline.dispatch()


def rollback(pipeline: Pipeline) -> None:
    """Back to before BEGIN; a connection that cannot do that is closed."""
    with suppress(psycopg.Error):
        pipeline.settle()
    try:
        if not pipeline.idle:
            pipeline.execute("ROLLBACK")
            pipeline.settle()
    except psycopg.Error:
        pipeline.close()


def is_outage(error: psycopg.Error) -> bool:
    """Whether the server or the way to it failed, not the statement."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(OUTAGES)


def unavailable(error: Exception, kind: type[Unavailable] = Unavailable) -> Unavailable:
    """What a caller sees of an outage."""
    return kind("the database cannot be used now", cause=f"{type(error).__name__}: {error}")
