"""Calls of another node: what the node that was asked sends to the one that owns the thing, and what it hears back.

Planned, for the feature cluster-nats, which will bring the way between nodes; until then a service is one node, and nothing here is used
outside of tests. A call travels as it came and is answered as it would have been there, by the same handler: neither callers nor problems
travel, and no node takes another one's word for who somebody is.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec

from greatseal.api.http import Call, Owner, Reply
from greatseal.api.problems import Problem, Unavailable
from greatseal.api.store import Operation

if TYPE_CHECKING:
    from greatseal.host import Host

S = TypeVar("S", bound=msgspec.Struct)


class Forwarded(msgspec.Struct, frozen=True, kw_only=True):
    """One call for its owner.

    ``op_id`` is that of the first try, a public id of the node that sends it. ``boot`` is the start of the owner as the sender knew it
    then, ``seen`` the sender's change clock: the owner waits until it has all of it. ``target`` is path and query as they were sent,
    ``body`` is inflated. Nobody waits for the answer after ``deadline_ms`` milliseconds.
    """

    op_id: str
    boot: str
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    remote: str
    certificate: bytes | None
    seen: int
    deadline_ms: int


class Forwarding(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it: ``reply``, or why there is none.

    ``restarted``: it was meant for an earlier start of the owner, which may have done it. ``busy``: it was not begun, or it takes longer
    than the sender waits. ``not_mine``: the owner thinks that it is another one's; nothing was done.
    """

    outcome: Literal["reply", "restarted", "busy", "not_mine"]
    reply: Reply | None = None


class OwnerUnavailable(Unavailable):
    """The node that owns what the call is about cannot answer now. It may have done what was asked; nobody else can say."""

    error = "temporarily_unavailable"


Answerer = Callable[[Forwarded], Awaitable[Forwarding]]


class Peers(Protocol):
    """Planned, for the feature cluster-nats: the other nodes and the way to them (service ``PEERS``).

    Where no plugin provides it, and where the nodes share a database, no route asks for the owner of a call.
    """

    @property
    def others(self) -> Sequence[str]:
        """The labels of the other configured nodes, whether they live or not. Asked once, before components are collected."""

    def serve(self, boot: str, answer: Answerer, operations: Mapping[str, Callable[..., Any]]) -> None:
        """Called before the listeners open. ``boot`` names this start of this node, for the others to know.

        ``answer`` is what the others ask for; ``operations`` are those of the hook ``operations``, by name, for ``host.db.write``.
        """

    def boot(self, node: str) -> str | None:
        """The start of that node as it is known here; None for one that cannot be reached now."""

    def seen(self) -> int:
        """The change clock of this node: it grows with every change of replicated rows that it made or heard of."""

    async def caught_up(self, node: str, seen: int) -> None:
        """Return when this node has what ``node`` had at ``seen``. The caller brings the deadline."""

    async def ask(self, owner: str, forwarded: Forwarded) -> Forwarding:
        """One try. Raises TimeoutError when no answer came, OwnerUnavailable when it was not sent. The caller brings the deadline."""

    async def forward(self, owner: str, operation: Operation, fn: Callable[..., Any], argument: Any) -> Any:
        """The result of an :func:`~greatseal.api.store.operation` on ``owner``.

        Raises the problem that it was refused with, OwnerUnavailable when the node cannot be reached.
        """


def owner_of_path(host: "Host", name: str) -> Owner:
    """For ``Route(owner=...)``: the node whose number is inside the public id that the path holds under ``name``."""

    async def owner(call: Call) -> str | None:
        return host.handles.owner_of_id(call.path[name])

    return owner


class _Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Problem as a value. ``kind`` is its class."""

    kind: str
    status: int
    error: str
    type: str
    detail: str = ""
    cause: str = ""
    headers: dict[str, str] = {}
    members: dict[str, Any] = {}
    identifier: dict[str, str] | None = None
    subproblems: "tuple[_Told, ...]" = ()


def packed(value: msgspec.Struct | Problem | None) -> bytes:
    """What goes over the wire between nodes. A Problem, also one inside of a Struct, goes as a value. TypeError for what cannot travel."""
    if value is not None and not isinstance(value, msgspec.Struct | Problem):
        raise TypeError(f"what travels between nodes are Structs, not {type(value).__name__}")
    return msgspec.msgpack.encode(value, enc_hook=_encoded)


def unpacked(content: bytes, kind: type[S]) -> S:
    """The Struct that was :func:`packed`. Raises msgspec.DecodeError, a ValueError."""
    return msgspec.msgpack.decode(content, type=kind, dec_hook=_decoded)


def unpacked_problem(content: bytes) -> Problem:
    """The Problem that was :func:`packed`: of its class where this node knows it, else one that says the same."""
    return _problem(msgspec.msgpack.decode(content, type=_Told))


def _encoded(value: object) -> object:
    if isinstance(value, Problem):
        return _told(value)
    raise NotImplementedError


def _decoded(kind: type, value: object) -> object:
    if issubclass(kind, Problem):
        return _problem(msgspec.convert(value, _Told))
    raise NotImplementedError


def _told(problem: Problem) -> _Told:
    return _Told(
        kind=_name(type(problem)),
        status=problem.status,
        error=problem.error,
        type=problem.type,
        detail=problem.detail,
        cause=problem.cause,
        headers=problem.headers,
        members=problem.members,
        identifier=None if problem.identifier is None else dict(problem.identifier),
        subproblems=tuple(map(_told, problem.subproblems)),
    )


def _problem(told: _Told) -> Problem:
    kind = next((one for one in _kinds(Problem) if _name(one) == told.kind), None) or _kind_like(told)
    problem = kind.__new__(kind)
    # Not the constructor of the class, which may take something else: this is what all of them come to.
    Problem.__init__(
        problem,
        told.detail,
        cause=told.cause,
        headers=told.headers,
        members=told.members,
        identifier=told.identifier,
        subproblems=[_problem(one) for one in told.subproblems],
    )
    return problem


def _kinds(kind: type[Problem]) -> "list[type[Problem]]":
    return [kind, *(one for sub in kind.__subclasses__() for one in _kinds(sub))]


def _kind_like(told: _Told) -> type[Problem]:
    return type(told.kind.rpartition(".")[2], (Problem,), {"status": told.status, "error": told.error, "type": told.type})


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
