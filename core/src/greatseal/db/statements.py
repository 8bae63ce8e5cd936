"""SQLAlchemy Core statements, compiled once for each dialect and run raw through the driver.

Values pass unconverted, so the column types of :mod:`greatseal.db.tables` are those that both drivers read alike.
"""

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import BindParameter, ClauseElement, Executable, Insert, Table, TextClause
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql import visitors
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase

from greatseal.db.tables import State

if TYPE_CHECKING:
    from greatseal.db.config import Dialect as DialectName


PLAIN = re.compile(r"[a-z_-]{1,40}|[0-9]{1,18}", re.ASCII)
"""Constants that need no quoting."""


class Cursor(Protocol):
    """What both drivers give after a statement."""

    @property
    def description(self) -> Sequence[Any] | None: ...
    @property
    def rowcount(self) -> int: ...
    def fetchall(self) -> list[Any]: ...


class Compiled:
    """The text of a statement, the names of its values in the order of the text, and what makes its rows."""

    __slots__ = ("fixed", "make", "names", "needed", "reference", "returns", "text", "writes")

    def __init__(self, text: str, names: tuple[str, ...], fixed: Mapping[str, Any], *, writes: bool, returns: bool) -> None:
        self.text = text
        self.names = names
        self.fixed = fixed
        self.needed = len(set(names) - fixed.keys())
        """How many values whoever runs it must give."""
        self.writes = writes
        self.returns = returns
        self.make: Callable[[Sequence[Any]], Any] | None = None
        self.reference: weakref.ref[Executable] | None = None


class Statements:
    """The compiled statements of one dialect, kept as long as the statement objects live. Safe for several threads."""

    def __init__(self, dialect: "DialectName") -> None:
        self._dialect = _dialect(dialect)
        self.known: dict[int, Compiled] = {}
        """What was compiled, by the ``id`` of the statement."""
        self.replicated: dict[Table, Any] = {}
        """What :mod:`greatseal.db.transaction` keeps for each REPLICATED table."""

    def of(self, statement: Executable) -> Compiled:
        """The compiled form; TypeError when the statement may not be run in a transaction function."""
        return self.known.get(id(statement)) or self._remember(statement, self.compile(statement))

    def _remember(self, statement: Executable, compiled: Compiled) -> Compiled:
        key = id(statement)

        def forget(_: object) -> None:
            # Another thread may have compiled the same statement: only the entry in force is taken out.
            if self.known.get(key) is compiled:
                del self.known[key]

        compiled.reference = weakref.ref(statement, forget)
        self.known[key] = compiled
        return compiled

    def compile(self, statement: Executable, *, replicated: bool = False) -> Compiled:
        """Compile without keeping. ``replicated`` allows a write to a REPLICATED table."""
        if isinstance(statement, TextClause) or not isinstance(statement, ClauseElement):
            raise TypeError("a statement is a SQLAlchemy Core select, insert, update or delete")
        writes = _check_tables(statement, replicated=replicated)
        if isinstance(statement, Insert):
            statement = statement.inline()  # a key that the database numbers comes back when it is asked for, not always
        compiled = statement.compile(dialect=self._dialect)
        assert isinstance(compiled, SQLCompiler)
        if compiled.post_compile_params or compiled.literal_execute_params:
            raise TypeError(f"a statement is compiled once, so IN takes no list: select from a table instead: {compiled}")
        names = tuple(compiled.positiontup or ())
        fixed = {name: compiled.binds[name].effective_value for name in names if not compiled.binds[name].required}
        returns = not isinstance(statement, UpdateBase) or bool(compiled.effective_returning)
        return Compiled(str(compiled), names, fixed, writes=writes, returns=returns)


def _check_tables(statement: ClauseElement, *, replicated: bool) -> bool:
    """Whether the statement writes; TypeError for a table without State or a raw write to a REPLICATED one."""
    writes = False
    for element in visitors.iterate(statement):
        if isinstance(element, Table) and not isinstance(element.info.get("state"), State):
            raise TypeError(f"table {element.name} declares no State: make it with greatseal.db.tables.table")
        if isinstance(element, UpdateBase):
            writes = True
            target = element.entity_description["table"]
            if target.info.get("state") is State.REPLICATED and not replicated:
                raise TypeError(f"table {target.name} is REPLICATED: write it with tx.put and tx.remove")
    return writes


def _dialect(name: "DialectName") -> Dialect:
    if name == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.dialect(paramstyle="qmark")
    from sqlalchemy.dialects.postgresql import psycopg

    dialect: Dialect = psycopg.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
    dialect.statement_compiler = _with_constants(dialect.statement_compiler)
    return dialect


def _with_constants(compiler: type[SQLCompiler]) -> type[SQLCompiler]:
    """Words and numbers of a statement stand in its text: a plan is made once for all values, and must know what a partial index asks."""

    class WithConstants(compiler):  # type: ignore[misc,valid-type]
        def visit_bindparam(self, bindparam: BindParameter[Any], literal_binds: bool = False, **more: Any) -> str:
            constant = not bindparam.required and PLAIN.fullmatch(str(bindparam.effective_value)) is not None
            return super().visit_bindparam(bindparam, literal_binds=literal_binds or constant, **more)  # type: ignore[no-any-return]

    return WithConstants
