"""What a plugin sees of the kernel."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, ParamSpec, Protocol, TypeVar

import msgspec
import structlog

from greatseal.api.audit import AuditEvent, AuditQuery, AuditRecord
from greatseal.api.declarations import EventType, PermissionName
from greatseal.api.keys import BlockedKeys, Keys
from greatseal.api.languages import Languages
from greatseal.api.services import ServiceKey
from greatseal.api.store import Database, Tx

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S", bound=msgspec.Struct)
P = ParamSpec("P")


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> int:
        """Microseconds since 1970 UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def passed(self) -> int:
        """The earliest that the clock showed in the last hour, microseconds; 0 in the first hour after the start.

        What expired before this may be forgotten: neither a clock that jumped ahead and is put right, nor one that is set back by less
        than an hour, finds it in force again.
        """


class Handles(Protocol):
    """Mints what clients hold: typed secrets and public ids: each names its node, so that any node knows whose row it is."""

    @property
    def members(self) -> Sequence[str]:
        """The labels of the configured nodes, this one among them, in order."""

    def mint(self, kind: str, size: int = 32) -> str:
        """``<kind>_<node>_<random>``: a secret of ``size`` random bytes that is never taken for one of another kind."""

    def node_of(self, handle: str, kind: str) -> str | None:
        """The node label of a well-formed handle of that kind, else None."""

    def new_id(self) -> str:
        """A public id: UUID version 8 with the node's number inside."""

    def owner_of_id(self, id: str) -> str | None:
        """The label of the configured node whose number is inside a public id, else None."""

    def owner_of_key(self, key: str) -> str:
        """The label of the node that decides about a key from outside, such as an EAB kid: the same answer on every node."""


class Cache(Protocol[T_co]):
    """A bounded map by key that forgets what changed. A value may be None: the thing is known not to exist."""

    async def get(self, key: str) -> T_co | None:
        """From memory, else loaded in a read; concurrent misses of one key load once."""

    def peek(self, key: str) -> T_co | None:
        """From memory alone."""


class Snapshot(Protocol[T_co]):
    """A small immutable whole, loaded again before the next use after a change."""

    async def get(self) -> T_co:
        """The whole, as of the last change that was told before this call."""


class KeyedTables(Protocol):
    """Tables of a keyed section that come while the service runs. Each is bound as if it stood in the configuration file."""

    @property
    def configured(self) -> frozenset[str]:
        """The keys of those in the file: they cannot be changed."""

    def read(self, key: str, table: Mapping[str, object]) -> Mapping[type, msgspec.Struct]:
        """What every plugin that reads the section makes of a table, by Struct. Raises ValueError that says what is wrong."""

    def put(self, key: str, table: Mapping[str, object]) -> None:
        """Add or replace one, for every plugin that reads the section. Raises ValueError for a wrong one, and for one of the file."""

    def remove(self, key: str) -> None:
        """Take one away. Raises ValueError for one of the file."""


class Changes(Protocol):
    """One mechanism that keeps memory and database together: caches and snapshots forget what a commit changed."""

    def cache(self, kind: str, load: Callable[[Tx, str], T | None], *, size: int = 10_000) -> Cache[T]:
        """A cache fed by ``tx.changed(kind, id)``."""

    def snapshot(self, kinds: Sequence[str], load: Callable[[Tx], T]) -> Snapshot[T]:
        """A snapshot that any change of ``kinds`` invalidates."""

    def subscribe(self, kind: str, fn: Callable[[str], None]) -> None:
        """``fn(id)`` on the loop after every change of ``kind``."""


class Strikes(Protocol):
    """Single use of keys that come from outside."""

    async def take(self, kind: str, key: str, until: int) -> bool:
        """Durable, committed when it returns: True the first time, False until ``until`` (microseconds) has passed.

        Of several nodes the one that the key names decides. Raises Unavailable when it cannot be asked: nobody may be let in on that.

        ``until`` is the end of the thing itself, the same for each use of it: a second use is known whatever the clock did between them.
        A later ``until`` is another thing of that name.
        """

    def take_within(self, tx: Tx, kind: str, key: str, until: int) -> bool:
        """As :meth:`take`, in the transaction of what the first use gives: undone with it.

        It asks no other node: the request must be at the one that ``handles.owner_of_key(f"{kind}:{key}")`` names, so its route has an
        ``owner``, or its grant a :meth:`greatseal.api.tokens.Grant.outside_key`.
        """

    def seen(self, kind: str, key: str, until: int) -> bool:
        """In memory, node-wide: True when it was seen before. Bounded: when full, what expires first is forgotten."""


class Limits(Protocol):
    """Node-wide rate limits."""

    def hit(self, bucket: str, key: str, limit: int, window: float) -> int | None:
        """Count one; seconds to wait when there were more than ``limit`` in ``window`` seconds, else None. ``limit`` 0 is off."""

    def reset(self, bucket: str, key: str) -> None:
        """Forget what was counted, for example after a success."""

    def undo(self, bucket: str, key: str) -> None:
        """Forget what was counted last, for example when nobody could tell whether it was a failure."""


class Envelopes(Protocol):
    """What leaves this service sealed, and comes back: cookies, hidden fields, handles without a row. Only this plugin can read it."""

    async def seal(self, kind: str, value: object, *, seconds: int | None) -> str:
        """``<kind>_<node>_<sealed>``: ``value``, a Struct or what msgspec encodes else, good for ``seconds``, always for None.

        Safe in cookies, forms and URLs, and longer by a third than the JSON of the value; ``kind`` is two to eight lower-case letters.
        It is good at every node, any number of times: single use is a matter of :class:`Strikes`.
        """

    async def open(self, kind: str, text: str, type: type[T]) -> T | None:
        """The value; None for every text that was not sealed here for this kind, that is too old, or that is no ``type`` any more."""


class Counter(Protocol):
    """What only grows."""

    def add(self, amount: float, *labels: str) -> None:
        """Count ``amount`` for these values of the labels, in their order. Values are few: never what a caller may choose."""


class Histogram(Protocol):
    """How something is spread, such as seconds."""

    def observe(self, value: float, *labels: str) -> None:
        """One more, for these values of the labels, in their order. Values are few: never what a caller may choose."""


class Metrics(Protocol):
    """Counters and histograms in the memory of this process; /metrics on the admin listener shows them to Prometheus.

    The kernel counts requests, writes, jobs, and the calls of components that had to wait. A name has one owner: begin it with
    ``greatseal_<feature>_`` and end it with its unit. Raises ValueError for a name that exists or is none.
    """

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:
        """A new counter; its name ends in ``_total``."""

    def histogram(self, name: str, help: str, labels: Sequence[str] = (), bounds: Sequence[float] = ...) -> Histogram:
        """A new histogram; ``bounds`` are the upper ends of its buckets, by default those of seconds from 1 ms to 10 s."""


class Blocking(Protocol):
    """Bounded thread pools, one per kind of slow work."""

    async def run(self, pool: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``fn`` in a thread of ``pool``. Raises Unavailable when its queue is full."""


class ScriptResult(msgspec.Struct, frozen=True):
    """How a script ended; output is cut at 64 KiB."""

    code: int | None
    stdout: bytes
    timed_out: bool


class Scripts(Protocol):
    """Operators' programs: no shell, cleared environment, killed with their group."""

    async def run(self, path: Path, *, env: Mapping[str, str], stdin: bytes = b"", timeout: float) -> ScriptResult:
        """Run the program with exactly ``env``, at most ``timeout`` seconds. Raises OSError when it cannot be started."""


class ProtocolRange(msgspec.Struct, frozen=True, kw_only=True):
    """The versions of the protocol between nodes that one speaks."""

    min: int
    max: int


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the cluster, as this one knows it. Moments are microseconds.

    ``address`` is where its peers reach it, ``name`` that of its machine, ``is_self`` marks this node. ``kek_ids`` are the cluster keys
    that it holds, ``roles`` what it alone does. The others tell how far it is apart from this one: the versions that it speaks, its clock,
    how many parts of its data differ, and the logical time up to which it has heard all. They are None or 0 where nodes do not talk.
    """

    node_id: str
    name: str
    address: str
    status: Literal["alive", "suspect", "offline"]
    last_seen: int
    is_self: bool
    version: str
    started_at: int
    protocol: ProtocolRange | None = None
    clock_offset_ms: int = 0
    differing_buckets: int = 0
    stable_hlc: str | None = None
    kek_ids: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


class Host(Protocol):
    """The kernel, for one plugin."""

    @property
    def node_id(self) -> str:
        """The label of this node, `[cluster] node_id`."""

    @property
    def base_url(self) -> str:
        """`[server] base_url` without a final slash: ACME, log and account URLs begin with it."""

    @property
    def issuer(self) -> str:
        """`[server] issuer`: tokens, discovery, SPIFFE and the admin API use it."""

    @property
    def realm(self) -> str:
        """`[server] realm`: that of the people of this service; left out, the host of the base URL in upper case."""

    @property
    def state_dir(self) -> Path:
        """A folder of this node for files, beside the database."""

    @property
    def log(self) -> structlog.stdlib.BoundLogger:
        """A logger that carries the plugin's name. Secrets are not for it."""

    @property
    def clock(self) -> Clock:
        """The time; in a transaction it is ``tx.now``."""

    @property
    def db(self) -> Database:
        """The store, usable from the first lifespan on."""

    @property
    def handles(self) -> Handles:
        """Mints and reads handles and public ids."""

    @property
    def keys(self) -> Keys:
        """Key rings and sealing, usable from the first lifespan on; ``from_file`` in every hook."""

    @property
    def envelopes(self) -> Envelopes:
        """What leaves this service sealed and comes back, usable from the first lifespan on."""

    @property
    def blocked_keys(self) -> BlockedKeys:
        """Public keys that nobody may use any more, usable from the first lifespan on."""

    @property
    def changes(self) -> Changes:
        """Caches and snapshots that follow the database."""

    @property
    def strikes(self) -> Strikes:
        """Single use of keys that come from outside."""

    @property
    def languages(self) -> Languages:
        """Those of pages and mails, from the first lifespan on."""

    @property
    def limits(self) -> Limits:
        """Rate limits."""

    @property
    def metrics(self) -> Metrics:
        """Counters and histograms, from every hook on."""

    @property
    def blocking(self) -> Blocking:
        """Threads for what blocks."""

    @property
    def scripts(self) -> Scripts:
        """Operators' programs."""

    def settings(self, struct: type[S]) -> S:
        """The bound Struct of an ``Owns`` or ``Reads`` of one table."""

    def settings_by_key(self, struct: type[S]) -> Mapping[str, S]:
        """Those of a keyed section, ``name.*``: a view that changes with :meth:`tables`, so look a key up when it is needed."""

    def tables(self, section: str) -> KeyedTables:
        """Tables of the keyed section ``section.*`` that the owner of the section keeps elsewhere than in the configuration file."""

    def settings_list(self, struct: type[S]) -> Sequence[S]:
        """Those of a repeated section, ``name[]``, in order."""

    def section_present(self, section: str) -> bool:
        """Whether the configuration has the section at all."""

    def service(self, key: ServiceKey[T]) -> T:
        """A service named in ``requires``."""

    def optional_service(self, key: ServiceKey[T]) -> T | None:
        """A service named in ``uses``, or None when no plugin provides it."""

    def components(self, contract: type[T]) -> Mapping[str, T]:
        """The frozen registry of a component type, by key. Complete from the lifespans on."""

    def brought_by(self, contract: type[object], key: str) -> str:
        """The feature whose plugin brought a component of :meth:`components`: what is wrong with it is told with that name."""

    def discovery(self, document: str, *, ca_id: str | None = None) -> Mapping[str, object]:
        """The members that plugins add to a discovery document, merged now, with those of one CA where it has them.

        Tell ``tx.changed(document, "")`` to have it read again.
        """

    def permissions(self) -> Sequence[PermissionName]:
        """The permissions that enabled plugins declare. Complete from the hook ``verify`` on."""

    def audit_events(self) -> Sequence[EventType]:
        """The audit event types of the kernel and of enabled plugins. Complete from the hook ``verify`` on."""

    def configuration(self) -> Mapping[str, Any]:
        """Every key of the kernel and of enabled plugins by section, with its value or default, fit for JSON; secrets are left out."""

    def nodes(self) -> Sequence[NodeInfo]:
        """Every node that this one knows, itself too, by label; from memory."""

    def spawn(self, name: str, task: Awaitable[Any]) -> None:
        """A task that belongs to the kernel: its failure is logged, it is cancelled at the stop."""

    def audit_log(self, event: AuditEvent) -> Awaitable[None]:
        """Write an event in a transaction of its own, where no state changes."""

    def audit_records(self, query: AuditQuery) -> Awaitable[Sequence[AuditRecord]]:
        """Events that were written, for a service that lists its own."""
