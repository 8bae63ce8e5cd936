"""PEERS over a message bus: calls for their owner, operations, what others have seen.

Examples of the contract, checked by mypy: no plugin has this code.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, get_type_hints

import msgspec

from greatseal.api.nodes import Answerer, Forwarded, Forwarding, OwnerUnavailable, packed, unpacked
from greatseal.api.store import Database, Operation

Handler = Callable[[bytes], Awaitable[bytes]]


class Bus(Protocol):
    """What a client of NATS gives: one answer to a request on a subject; ConnectionError when nobody listens there."""

    def answer(self, subject: str, handler: Handler) -> None: ...
    async def request(self, subject: str, content: bytes) -> bytes: ...


def types_of(fn: Callable[..., Any]) -> tuple[Any, Any]:
    """The Structs that an operation takes and gives."""
    _, asked, result = get_type_hints(fn).values()
    return asked, result


class Heartbeat(msgspec.Struct, frozen=True):
    """What a node says of itself every second."""

    node: str
    boot: str
    seen: int


class BusPeers:
    """The other nodes on a bus."""

    def __init__(self, bus: Bus, here: str, others: Sequence[str], db: Database) -> None:
        self.bus = bus
        self.here = here
        self.others = tuple(others)
        self.db = db
        self.heard: dict[str, Heartbeat] = {}
        self.applied: dict[str, int] = {}
        self.own = 0
        self.news = asyncio.Condition()

    def serve(self, boot: str, answer: Answerer, operations: Mapping[str, Callable[..., Any]]) -> None:
        async def call(content: bytes) -> bytes:
            return packed(await answer(unpacked(content, Forwarded)))

        self.bus.answer(f"call.{self.here}", call)
        for name, fn in operations.items():
            self.bus.answer(f"operation.{self.here}.{name}", self._operation(fn))
        self.heard[self.here] = Heartbeat(self.here, boot, self.own)

    def boot(self, node: str) -> str | None:
        heard = self.heard.get(node)
        return None if heard is None else heard.boot

    def seen(self) -> int:
        return self.own

    async def caught_up(self, node: str, seen: int) -> None:
        async with self.news:
            await self.news.wait_for(lambda: self.applied.get(node, 0) >= seen)

    async def ask(self, owner: str, forwarded: Forwarded) -> Forwarding:
        return unpacked(await self._requested(f"call.{owner}", packed(forwarded)), Forwarding)

    async def forward(self, owner: str, operation: Operation, fn: Callable[..., Any], argument: Any) -> Any:
        _, result = types_of(fn)
        return unpacked(await self._requested(f"operation.{owner}.{operation.name}", packed(argument)), result)

    def _operation(self, fn: Callable[..., Any]) -> Handler:
        async def run(content: bytes) -> bytes:
            asked, _ = types_of(fn)
            return packed(await self.db.write(fn, unpacked(content, asked)))

        return run

    async def _requested(self, subject: str, content: bytes) -> bytes:
        try:
            return await self.bus.request(subject, content)
        except ConnectionError as error:
            raise OwnerUnavailable("the node that owns this cannot be reached", cause=f"{subject}: {error}") from error
