"""What plugins declare as data: settings, schemas, jobs, checks, commands, permissions, events."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import msgspec

if TYPE_CHECKING:
    import sqlalchemy


class Placement(Enum):
    """How many of it run: one for each worker, one for each node, or one in the cluster.

    One process at a time serves a database, so all three are that process today. A command beside it (``doctor``) opens what is for a
    worker and nothing else: no second one of what a node or the cluster has once.
    """

    WORKER = "worker"
    NODE = "node"
    CLUSTER = "cluster"


class Owns(msgspec.Struct, frozen=True):
    """The plugin owns these keys of ``section``.

    ``section`` is ``name`` for one table, ``name.*`` for keyed tables (``profiles.*``), ``name[]`` for one table or several.
    A key has one owner; several plugins may own different keys of a section.
    """

    section: str
    struct: type[msgspec.Struct]


class Reads(msgspec.Struct, frozen=True):
    """The plugin reads keys that another plugin owns; type and default must agree with the owner's."""

    section: str
    struct: type[msgspec.Struct]


class Secret:
    """A secret setting: a TOML string, ``{ file = "..." }`` or ``{ env = "..." }``. It never shows its value."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "Secret(...)"


class Schema(msgspec.Struct, frozen=True):
    """The tables of a plugin and their alembic migrations.

    ``python -m greatseal.db.revise greatseal_notes.tables:SCHEMA 0001 "notes"`` writes a migration from what the tables declare, and
    ``greatseal.testing.schema.schema_matches`` tests that the migrations make them. A start brings the database to ``head`` (on
    PostgreSQL ``greatseal migrate`` does); a head that no migration has stops it.
    """

    feature: str
    """The feature id of the plugin. Every table is named ``<feature>_<noun>``, with ``_`` for ``-``."""
    metadata: "sqlalchemy.MetaData"
    """The tables, each made by :func:`greatseal.db.tables.table`."""
    migrations: str
    """The import path of the package that holds ``versions``, for example ``greatseal_notes.migrations``."""
    head: str
    """The newest revision, for example ``0001``. The start compares it with the recorded one before alembic is imported."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Work that repeats. ``every`` and ``jitter`` are seconds; the first run is after ``jitter`` at most."""

    name: str
    every: Annotated[float, msgspec.Meta(gt=0)]
    run: Callable[[], Awaitable[object]]
    placement: Placement = Placement.NODE
    jitter: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class Lifespan(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that lives while the service runs; opened in the order of ``requires``, closed in reverse."""

    name: str
    open: Callable[[], AbstractAsyncContextManager[object]]
    placement: Placement = Placement.WORKER


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """``ok``, and one line that says what was seen and, when not ok, what to do.

    /readyz shows both to everybody; ``cause`` (hosts, paths, reasons) only doctor shows.
    """

    ok: bool
    detail: str
    cause: str = ""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of something that was looked at as a whole, and what was seen."""

    name: str
    result: CheckResult


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A line of /readyz and of ``greatseal doctor``. ``ready=False`` is for doctor alone."""

    name: str
    run: Callable[[], Awaitable[CheckResult]]
    ready: bool = True


class Statistic(msgspec.Struct, frozen=True, kw_only=True):
    """How many there are of something, for overviews: ``count`` gives totals by what they count, such as ``total`` and ``active``.

    It may visit every row: whoever shows it asks seldom.
    """

    name: str
    count: Callable[[], Awaitable[Mapping[str, int]]]


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that ``greatseal serve`` prints for a person on a terminal when it is ready."""

    title: str
    lines: Callable[[], Sequence[str]]


class EventType(msgspec.Struct, frozen=True):
    """An audit event type and when it is written, for the reference."""

    name: str
    service: str
    summary: str


class PermissionName(msgspec.Struct, frozen=True):
    """A permission that a role may grant."""

    name: str
    summary: str


class ScopeDefinition(msgspec.Struct, frozen=True):
    """A scope that OAuth clients may ask for, and the claims that it releases (OpenID Connect Core s5.4).

    Pages say the description in their language where a catalogue has it.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]+$")]
    description: str
    claims: tuple[str, ...] = ()
