"""A call about what another node keeps is sent there as it came, and its answer is sent on."""

import asyncio
from collections.abc import Callable

from multidict import CIMultiDictProxy

from greatseal.api.http import Reply
from greatseal.api.nodes import Forwarded, Forwarding, OwnerUnavailable, Peers
from greatseal.api.problems import PayloadTooLarge
from greatseal.http.call import ForwardedCall, RoutedCall

LARGEST = 256 * 1024
"""Bytes of a body on its way, and of the body of its answer."""
FIRST_SECONDS = 2.0
"""After these the owner is asked once more: the question or its answer may have been lost."""
ALL_SECONDS = 10.0
"""How long both tries may take together."""

UNREACHABLE = "the part of this service that keeps this cannot be reached now; try again soon"

_BEHIND = frozenset(
    {
        "connection", "content-encoding", "content-length", "expect", "forwarded", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Hop by hop (RFC 9110 s7.6.1), what described a body that is inflated by now, and what proxies said: the address goes apart."""


class NotMine(OwnerUnavailable):
    """Another node passed on what belongs to a third one: they disagree who keeps what. It goes no further."""


class Owners:
    """The sender's side. ``new_id`` makes public ids of this node, by which operations are known."""

    def __init__(self, peers: Peers, new_id: Callable[[], str]) -> None:
        self._peers = peers
        self._others = frozenset(peers.others)
        self.new_id = new_id

    async def of(self, call: RoutedCall) -> str | None:
        """The other node that owns what the call is about; None for this one, and for a label that nobody has.

        Raises NotMine where the call was passed on before.
        """
        assert call.route.owner is not None
        owner = await call.route.owner(call)
        if owner not in self._others:
            return None
        if isinstance(call, ForwardedCall):
            raise NotMine(UNREACHABLE, cause=f"passed on by another node; its owner is {owner}")
        return owner

    async def ask(self, owner: str, call: RoutedCall, op_id: str) -> Reply:
        """What the owner answers. Raises OwnerUnavailable, and what is wrong with the body."""
        boot = self._peers.boot(owner)
        if boot is None:
            raise OwnerUnavailable(UNREACHABLE, cause=f"{owner} is out of reach")
        forwarded = Forwarded(
            op_id=op_id,
            boot=boot,
            method=call.method,
            target=call.target,
            headers=travelling(call.headers),
            body=await call.raw(),
            remote=call.remote,
            certificate=call.connection.certificate,
            seen=self._peers.seen(),
            deadline_ms=int(ALL_SECONDS * 1000),
        )
        if len(forwarded.body) > LARGEST:
            raise PayloadTooLarge(f"the body is over {LARGEST} bytes")
        found = await self._tried(owner, forwarded)
        if found.reply is None:
            raise OwnerUnavailable(UNREACHABLE, cause=f"{owner}: {found.outcome}")
        return found.reply

    async def _tried(self, owner: str, forwarded: Forwarded) -> Forwarding:
        try:
            async with asyncio.timeout(ALL_SECONDS):
                try:
                    async with asyncio.timeout(FIRST_SECONDS):
                        return await self._peers.ask(owner, forwarded)
                except TimeoutError:
                    return await self._peers.ask(owner, forwarded)
        except TimeoutError:
            raise OwnerUnavailable(UNREACHABLE, cause=f"{owner} did not answer; it may have done it") from None


def travelling(headers: CIMultiDictProxy[str]) -> tuple[tuple[str, str], ...]:
    """The header fields of a request that go with it to another node."""
    named = {name.strip().lower() for field in headers.getall("Connection", ()) for name in field.split(",")}
    return tuple(
        (str(name), value)  # aiohttp has a str of its own, which no encoder knows
        for name, value in headers.items()
        if (lower := name.lower()) not in _BEHIND and lower not in named and not lower.startswith("x-forwarded-")
    )
