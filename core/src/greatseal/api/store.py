"""Transactions as plain functions, and how they refuse."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

import msgspec

from greatseal.api.audit import AuditEvent
from greatseal.api.problems import Problem, Unavailable

if TYPE_CHECKING:
    from sqlalchemy import Executable

P = ParamSpec("P")
T = TypeVar("T")
Argument = TypeVar("Argument", bound=msgspec.Struct)

OPERATION, SCAN = "__greatseal_operation__", "__greatseal_scan__"
"""The attributes by which transaction functions are known: the mark of :func:`operation`, and True after :func:`scan`."""


class Row(Protocol):
    """A fetched row: columns by attribute, unconverted (Moment: microseconds, Flag: 0 or 1, Document: JSON text). Rows of equal values are
    equal."""

    def __getattr__(self, name: str, /) -> Any: ...
    def __hash__(self) -> int: ...


class CollectionRef(Protocol):
    """A :class:`greatseal.db.tables.Collection`: a REPLICATED table under its name."""

    @property
    def name(self) -> str:
        """The kind under which its changes are told."""


class Tx(Protocol):
    """What a transaction function may touch: rows, and nothing else.

    The function is sync, runs on the event loop or in a thread, perhaps twice, and never catches a database error.
    """

    @property
    def now(self) -> int:
        """The time of this transaction, microseconds since 1970 UTC, and the only "now" inside it.

        In a write it is read when what the transaction sees is fixed, and again when it is repeated: no moment in the rows is later,
        unless the clock was set back meanwhile, which every comparison has to bear.
        """

    @property
    def node_id(self) -> str:
        """The label of the node that runs it."""

    def run(self, statement: "Executable", /, **values: Any) -> None:
        """Execute; the result is not wanted, and an error may show as late as the end of the function."""

    def one(self, statement: "Executable", /, **values: Any) -> Row | None:
        """The first row of a select or of RETURNING, or None; everything is fetched before it returns."""

    def all(self, statement: "Executable", /, **values: Any) -> list[Row]:
        """Every row."""

    def count(self, statement: "Executable", /, **values: Any) -> int:
        """How many rows a write changed: this number decides a guarded UPDATE or an :func:`insert_new`."""

    def put(self, collection: CollectionRef, id: str, /, **fields: Any) -> None:
        """Create or change a row of a REPLICATED table; fields not given keep their value. Tells :meth:`changed`."""

    def remove(self, collection: CollectionRef, id: str, /) -> bool:
        """Delete a row of a REPLICATED table; False when there was none. Tells :meth:`changed`."""

    def audit(self, event: AuditEvent, /) -> None:
        """Write the event in this transaction."""

    def changed(self, kind: str, id: str, /) -> None:
        """After the commit every cache of ``kind`` forgets ``id``, before the caller resumes."""

    def after_commit(self, fn: Callable[[], object], /) -> None:
        """Call ``fn`` on the event loop after the commit and before the caller resumes."""


class Refuse(Exception):
    """Raised in a transaction function: undo all of it, write ``audit``, and let the caller of ``write`` or ``read`` see ``problem``.

    A ``read`` has no ``audit``: it is a RuntimeError there.
    """

    def __init__(self, problem: Problem, audit: Iterable[AuditEvent] = ()) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.audit = tuple(audit)


class Refused(msgspec.Struct, frozen=True):
    """Returned by a transaction function: what it changed commits, and the answer is ``problem`` all the same."""

    problem: Problem


class Database(Protocol):
    """The store of this node."""

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""

    async def write(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``fn(tx, ...)`` in a serializable transaction and return after COMMIT.

        On SQLite the event loop runs ``fn`` and a thread commits, which is right for rows found by a key; what visits many rows runs
        in the thread when it is marked with :func:`scan`, or was long the last time.

        Raises the problem of a :class:`Refuse`, :class:`~greatseal.api.problems.Unavailable` when the store cannot take it (nothing
        was changed then, unless it is :class:`~greatseal.api.problems.Uncertain`). An :func:`operation` runs on the node that owns
        its rows.
        """

    async def read(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``fn(tx, ...)``, which only selects, on one consistent state.

        On SQLite it runs in line, which is right for rows found by a key; mark what visits many rows with :func:`scan`.
        Raises the problem of a :class:`Refuse`, and :class:`~greatseal.api.problems.Unavailable` when the store cannot be read.
        """

    def hold(self, name: str) -> AbstractAsyncContextManager[None]:
        """Be the only one, of all processes that use this store, inside of a hold of that ``name``, for work that is more than a
        transaction, such as writing a log. It ends with its process at the latest.

        On PostgreSQL it is lost, without a word, with the connection that has it: what two holders would spoil needs a guard in its rows
        besides, such as a number that each holder raises. ``name`` has 1 to 100 of a to z, 0 to 9, '.', '_' and '-'; begin it with the
        feature. Raises :class:`Held` at once when another one has it, Unavailable when it cannot be asked for.
        """


class Held(Unavailable):
    """Another one is inside of that hold; the detail names it where that is known."""


def operation(name: str, owner: Callable[[Argument], str]) -> Callable[[Callable[[Tx, Argument], T]], Callable[[Tx, Argument], T]]:
    """Mark a transaction function as one that another node may have to run.

    ``owner(argument)`` gives the label of the node whose rows it changes. It is for what a key from outside decides, such as an EAB kid;
    a call about what one node keeps goes there as a whole (``Route.owner``). Argument and result are Structs, so that both can travel; a
    Problem travels as a value, whether it was raised by :class:`Refuse` or is inside of a :class:`Refused`. The hook ``operations`` gives
    it to the other nodes.
    For a method, mark the bound one: ``self.create = operation(...)(self._create)``.
    """

    def mark(fn: Callable[[Tx, Argument], T]) -> Callable[[Tx, Argument], T]:
        def run(tx: Tx, argument: Argument) -> T:
            return fn(tx, argument)

        update_wrapper(run, fn)
        setattr(run, OPERATION, Operation(name, owner))
        return run

    return mark


class Operation(msgspec.Struct, frozen=True):
    """The mark that :func:`operation` leaves."""

    name: str
    owner: Callable[[Any], str]


def scan(fn: Callable[P, T]) -> Callable[P, T]:
    """Mark a function that visits many rows (a listing, a search, a sum, a sweep): it runs in a thread on both databases, and when it
    writes on PostgreSQL, in a transaction of its own."""
    setattr(fn, SCAN, True)
    return fn
