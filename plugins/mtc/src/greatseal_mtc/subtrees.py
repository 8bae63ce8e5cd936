"""The CA's signatures over subtrees of its log, for certificates: one for each subtree, whoever asks for it."""

import asyncio
from collections import OrderedDict

from greatseal import faults
from greatseal.api.problems import Internal
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.keys import LogKeys
from greatseal_mtc.merkle import Range
from greatseal_mtc.views import LogView
from greatseal_mtc.wire import Signature, cosigned_message

KEPT = 256


class Signed:
    """A subtree with its hash and the CA's signature."""

    __slots__ = ("end", "root", "signature", "start")

    def __init__(self, start: int, end: int, root: bytes, signature: Signature) -> None:
        self.start = start
        self.end = end
        self.root = root
        self.signature = signature


class SubtreeSigner:
    """Signs subtrees of one log. Entries of one batch share a signature."""

    def __init__(self, log: LogView, keys: LogKeys, anchor: TrustAnchorId, log_id: TrustAnchorId) -> None:
        self._log = log
        self._keys = keys
        self._anchor = anchor
        self._log_id = log_id
        self._signed: OrderedDict[Range, asyncio.Task[Signed]] = OrderedDict()

    async def sign(self, start: int, end: int) -> Signed:
        """The signature over ``[start, end)``, which is on the disk: the log says nothing earlier of it. Raises Unavailable, and Internal
        where the signature would be wrong."""
        key = (start, end)
        task = self._signed.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._signed[key] = asyncio.get_running_loop().create_task(self._sign(start, end))
            while len(self._signed) > KEPT:
                self._signed.popitem(last=False)
        return await asyncio.shield(task)

    async def _sign(self, start: int, end: int) -> Signed:
        if end > self._log.size:
            raise Internal(cause=f"[{start}, {end}) was to be signed of a log with {self._log.size} entries")
        root = await self._log.subtree_root(start, end)
        message = self.message(start, end, root)
        faults.point("mtc.subtree.signing")
        signature = await self._keys.sign(message)
        faults.point("mtc.subtree.signed")
        return Signed(start, end, root, Signature(self._anchor, signature))

    def message(self, start: int, end: int, root: bytes, *, time: int = 0) -> bytes:
        """What the CA signs of a subtree."""
        return cosigned_message(self._anchor.name, self._log_id.name, start, end, root, time=time)
