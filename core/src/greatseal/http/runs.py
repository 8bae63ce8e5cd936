"""What other nodes pass on to the owner: run once for each operation, and answered again in the same bytes when the answer was lost."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from greatseal.api.http import Reply
from greatseal.api.nodes import Forwarded, Forwarding, Peers
from greatseal.http.owners import LARGEST

MOST_RUNS = 1000
"""Runs at once."""
MOST_BYTES = 64 * 1024 * 1024
"""Of the answers that are kept."""
KEPT_SECONDS = 10.0
"""How long an answer is kept: the sender has given up by then."""

_BUSY = Forwarding(outcome="busy")


class Runs:
    """The owner's side.

    A run belongs to this node, not to the one that asked: it goes on when nobody waits any more. ``handle`` raises nothing; it gives None
    for what another node owns. ``sender_of`` tells the node of an ``op_id``.
    """

    def __init__(
        self,
        boot: str,
        peers: Peers,
        handle: Callable[[Forwarded], Awaitable[Reply | None]],
        *,
        sender_of: Callable[[str], str | None],
        log: structlog.stdlib.BoundLogger,
        most: int = MOST_RUNS,
        kept_seconds: float = KEPT_SECONDS,
    ) -> None:
        self._boot = boot
        self._peers = peers
        self._handle = handle
        self._sender_of = sender_of
        self._log = log
        self._most = most
        self._kept_seconds = kept_seconds
        self._runs: dict[str, asyncio.Task[Forwarding]] = {}
        self._at_work: set[asyncio.Task[Forwarding]] = set()
        self._kept_bytes = 0
        self._stopping = False

    async def answer(self, forwarded: Forwarded) -> Forwarding:
        """See :class:`greatseal.api.nodes.Forwarding`."""
        if forwarded.boot != self._boot:
            return Forwarding(outcome="restarted")
        run = self._runs.get(forwarded.op_id)
        if run is None:
            if self._stopping or len(self._at_work) >= self._most or self._kept_bytes >= MOST_BYTES:
                return _BUSY
            run = self._begin(forwarded)
        # Waiting only: whoever asks may go away, or give up, and the run goes on.
        await asyncio.wait({run}, timeout=forwarded.deadline_ms / 1000)
        return run.result() if run.done() and not run.cancelled() else _BUSY

    async def stop(self, seconds: float) -> None:
        """Begin nothing more, let what runs come to its end, and cancel what takes longer."""
        self._stopping = True
        if self._at_work:
            _, late = await asyncio.wait(self._at_work, timeout=seconds)
            for run in late:
                run.cancel()
            if late:
                await asyncio.wait(late)

    def _begin(self, forwarded: Forwarded) -> asyncio.Task[Forwarding]:
        run = asyncio.create_task(self._run(forwarded), name=f"call {forwarded.op_id}")
        self._runs[forwarded.op_id] = run
        self._at_work.add(run)
        run.add_done_callback(lambda _: self._ended(forwarded.op_id, run))
        return run

    async def _run(self, forwarded: Forwarded) -> Forwarding:
        sender = self._sender_of(forwarded.op_id)
        if sender is None:
            return Forwarding(outcome="not_mine")
        try:
            async with asyncio.timeout(forwarded.deadline_ms / 1000):
                await self._peers.caught_up(sender, forwarded.seen)
        except Exception as error:  # noqa: BLE001  # whatever the transport raises: what the call stands on may not be here
            self._log.warning("a call was not run: the changes of its sender are not here yet", sender=sender, reason=type(error).__name__)
            return _BUSY
        reply = await self._handle(forwarded)
        if reply is None:
            return Forwarding(outcome="not_mine")
        if len(reply.body) > LARGEST:
            self._log.error("an answer for another node is too large", bytes=len(reply.body), most=LARGEST)
            return _BUSY
        return Forwarding(outcome="reply", reply=reply)

    def _ended(self, op_id: str, run: asyncio.Task[Forwarding]) -> None:
        self._at_work.discard(run)
        reply = None if run.cancelled() else run.result().reply
        size = len(reply.body) if reply is not None else 0
        self._kept_bytes += size
        asyncio.get_running_loop().call_later(self._kept_seconds, self._forget, op_id, size)

    def _forget(self, op_id: str, size: int) -> None:
        del self._runs[op_id]
        self._kept_bytes -= size
