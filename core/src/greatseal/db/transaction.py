"""What a transaction function is given, alike on both databases."""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CoroutineType
from typing import Any, NoReturn

from sqlalchemy import Executable, delete, insert, update

from greatseal.api.audit import AuditEvent
from greatseal.api.store import CollectionRef, Row
from greatseal.db.core_tables import audit
from greatseal.db.statements import Compiled, Cursor, Statements
from greatseal.db.tables import Collection, param

Execute = Callable[[str, Sequence[Any]], Cursor]

INSERT_AUDIT = insert(audit).values(
    {column: param(column) for column in ("event_type", "service", "outcome", "sub", "client_id", "principal", "detail", "created_at")}
)


class _Transaction:
    """Statements of one transaction. It ends with the function: a use after that is a RuntimeError."""

    __slots__ = ("_execute", "_failure", "_statements", "node_id", "now")

    def __init__(self, execute: Execute, statements: Statements, now: int, node_id: str) -> None:
        self._execute = execute
        self._statements = statements
        self._failure: Exception | None = None
        self.now = now
        self.node_id = node_id

    def perform(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the function to its end. Refuses what would commit on one database and fail on the other, or never run at all."""
        try:
            result = fn(self, *args, **kwargs)
        except StopIteration as error:
            # As in a generator (PEP 479): no future takes it.
            raise RuntimeError("a transaction function raised StopIteration") from error
        finally:
            self._execute = _finished
        if self._failure is not None:
            raise RuntimeError("a transaction function went on after a database error; let it pass") from self._failure
        if type(result) is CoroutineType:
            result.close()
            raise TypeError("a transaction function is a plain function, not async")
        return result

    def _compiled(self, statement: Executable) -> Compiled:
        return self._statements.known.get(id(statement)) or self._statements.of(statement)

    def run(self, statement: Executable, /, **values: Any) -> None:
        compiled = self._compiled(statement)
        arguments = arguments_of(compiled, values)
        try:
            cursor = self._execute(compiled.text, arguments)
            if compiled.returns:
                cursor.fetchall()
        except Exception as error:
            self._failure = error
            raise

    def one(self, statement: Executable, /, **values: Any) -> Row | None:
        compiled = self._compiled(statement)
        arguments = arguments_of(compiled, values)
        try:
            cursor = self._execute(compiled.text, arguments)
            fetched = cursor.fetchall()  # everything: a write with RETURNING is only done then
            return (compiled.make or _shape(compiled, cursor))(fetched[0]) if fetched else None
        except Exception as error:
            self._failure = error
            raise

    def all(self, statement: Executable, /, **values: Any) -> list[Row]:
        compiled = self._compiled(statement)
        arguments = arguments_of(compiled, values)
        try:
            cursor = self._execute(compiled.text, arguments)
            fetched = cursor.fetchall()
            if not fetched:
                return fetched
            make = compiled.make or _shape(compiled, cursor)
            return [make(row) for row in fetched]
        except Exception as error:
            self._failure = error
            raise

    def count(self, statement: Executable, /, **values: Any) -> int:
        compiled = self._compiled(statement)
        if not compiled.writes:
            raise TypeError("count tells how many rows a write changed: select func.count() with one")
        return self._run(compiled, values)

    def _run(self, compiled: Compiled, values: dict[str, Any]) -> int:
        arguments = arguments_of(compiled, values)
        try:
            cursor = self._execute(compiled.text, arguments)
            if compiled.returns:
                cursor.fetchall()  # SQLite says 0 rows until RETURNING is fetched
            changed = cursor.rowcount
        except Exception as error:
            self._failure = error
            raise
        return changed


class Reading(_Transaction):
    """A transaction that only selects."""

    __slots__ = ()

    def _compiled(self, statement: Executable) -> Compiled:
        compiled = self._statements.known.get(id(statement)) or self._statements.of(statement)
        if compiled.writes:
            _only_selects()
        return compiled

    def put(self, _collection: CollectionRef, _id: str, /, **_fields: Any) -> None:
        _only_selects()

    def remove(self, _collection: CollectionRef, _id: str, /) -> bool:
        _only_selects()

    def audit(self, _event: AuditEvent, /) -> None:
        _only_selects()

    def changed(self, _kind: str, _id: str, /) -> None:
        _only_selects()

    def after_commit(self, _fn: Callable[[], object], /) -> None:
        _only_selects()


class Writing(_Transaction):
    """A transaction that changes rows, and what has to happen after its commit."""

    __slots__ = ("after", "audited", "pairs")

    def __init__(self, execute: Execute, statements: Statements, now: int, node_id: str) -> None:
        super().__init__(execute, statements, now, node_id)
        self.pairs: list[tuple[str, str]] = []
        self.after: list[Callable[[], object]] = []
        self.audited = False

    def put(self, collection: CollectionRef, id: str, /, **fields: Any) -> None:
        assert isinstance(collection, Collection)
        statements = replicated_statements(collection, self._statements)
        change, create = statements.put(tuple(fields))
        values = {"id": id, **{f"new_{name}": value for name, value in fields.items()}}
        if self._run(change, values) == 0:
            self._run(create, values)
        self.changed(collection.name, id)

    def remove(self, collection: CollectionRef, id: str, /) -> bool:
        assert isinstance(collection, Collection)
        removed = self._run(replicated_statements(collection, self._statements).removal, {"id": id}) > 0
        self.changed(collection.name, id)
        return removed

    def audit(self, event: AuditEvent, /) -> None:
        self.audited = True
        self.run(
            INSERT_AUDIT,
            event_type=event.event_type,
            service=event.service,
            outcome=event.outcome,
            sub=event.sub,
            client_id=event.client_id,
            principal=event.principal,
            detail=event.detail,
            created_at=self.now,
        )

    def audit_all(self, events: Iterable[AuditEvent]) -> None:
        """Write the events of a refusal."""
        for event in events:
            self.audit(event)

    def changed(self, kind: str, id: str, /) -> None:
        self.pairs.append((kind, id))

    def after_commit(self, fn: Callable[[], object], /) -> None:
        self.after.append(fn)


class _ReplicatedStatements:
    """The writes of one REPLICATED table, by the set of fields given."""

    def __init__(self, collection: Collection, statements: Statements) -> None:
        self._table = collection.table
        self._key = collection.key
        self._statements = statements
        self._puts: dict[tuple[str, ...], tuple[Compiled, Compiled]] = {}
        self.removal = self._compile(delete(self._table).where(self._key == param("id")))

    def _compile(self, statement: Executable) -> Compiled:
        return self._statements.compile(statement, replicated=True)

    def put(self, fields: tuple[str, ...]) -> tuple[Compiled, Compiled]:
        """The UPDATE of the fields, and the INSERT for when it found no row."""
        known = self._puts.get(fields)
        if known is None:
            unknown = [name for name in fields if name not in self._table.columns or name == self._key.name]
            if unknown:
                raise TypeError(f"{self._table.name} has no such fields to put: {unknown}")
            values = {name: param(f"new_{name}") for name in fields}
            # Without fields nothing changes, but the count still says whether there is a row.
            change = update(self._table).where(self._key == param("id")).values(values or {self._key.name: param("id")})
            create = insert(self._table).values({self._key.name: param("id"), **values})
            known = self._compile(change), self._compile(create)
            self._puts[fields] = known
        return known


def replicated_statements(collection: Collection, statements: Statements) -> _ReplicatedStatements:
    """The statements of a collection, made once for each dialect."""
    known = statements.replicated.get(collection.table)
    if known is None:
        known = statements.replicated[collection.table] = _ReplicatedStatements(collection, statements)
    return known


def arguments_of(compiled: Compiled, values: Mapping[str, Any]) -> list[Any]:
    """The values in the order of the text; a missing or surplus one is a TypeError."""
    if len(values) != compiled.needed:
        raise _mismatch(compiled, values)
    given = {**compiled.fixed, **values} if compiled.fixed else values
    try:
        return [given[name] for name in compiled.names]
    except KeyError:
        raise _mismatch(compiled, values) from None


def _mismatch(compiled: Compiled, values: Mapping[str, Any]) -> TypeError:
    wanted = sorted(set(compiled.names) - compiled.fixed.keys())
    return TypeError(f"the statement takes {wanted}, given were {sorted(values)}: {compiled.text}")


def _shape(compiled: Compiled, cursor: Cursor) -> Callable[[Sequence[Any]], Any]:
    """What makes the rows of a statement, known from its first answer."""
    columns = [column[0] for column in cursor.description or ()]
    row = namedtuple("Row", columns, rename=True)  # type: ignore[misc]  # noqa: PYI024 - the columns are known only now
    compiled.make = row._make
    return row._make


def _only_selects() -> NoReturn:
    raise TypeError("a read only selects: use host.db.write")


def _finished(_text: str, _arguments: Sequence[Any]) -> NoReturn:
    raise RuntimeError("the transaction is over: tx may not be kept")
