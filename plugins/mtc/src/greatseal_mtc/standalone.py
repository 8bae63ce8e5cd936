"""Standalone certificates of ordinary ones: made after a checkpoint for each entry that lacks one, some at a time."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from greatseal.api.problems import Internal
from greatseal.host import Host
from greatseal_mtc.hashes import Hash
from greatseal_mtc.merkle import Range, cover, evaluate, inclusion
from greatseal_mtc.recording import keep_built, lacking
from greatseal_mtc.stored_checkpoints import Stored, cosignatures
from greatseal_mtc.structures import SubtreeSignature
from greatseal_mtc.wire import Proof, Signature, certificate_of, serial_of

if TYPE_CHECKING:
    from greatseal_mtc.logs import CaLog

POOL = "mtc-standalone"
ROOM = 65_000
"""Bytes for the signatures of a certificate: their length has two."""


class Subtree(msgspec.Struct, frozen=True, kw_only=True):
    """A subtree that certificates prove themselves to be in, with who signed it."""

    start: int
    end: int
    root: bytes
    signatures: tuple[Signature, ...]


class Standalones:
    """The standalone certificates of one log."""

    def __init__(self, host: Host, log: "CaLog") -> None:
        self._host = host
        self._log = log

    async def make(self, checkpoint: Stored, new_from: int) -> int:
        """Make those that are lacking below the size of the checkpoint; how many. ``new_from`` is the size of the one before it."""
        made, after = 0, 0  # the null entry is no certificate
        subtrees: list[Subtree] | None = None
        while found := await self._host.db.read(lacking, self._log.ca_id, self._log.number, after, checkpoint.size):
            subtrees = subtrees or await self._subtrees(checkpoint, new_from)
            made += await self._make_some(found, subtrees)
            after = found[-1][1]
            await asyncio.sleep(0)  # others may run
        return made

    async def _subtrees(self, checkpoint: Stored, new_from: int) -> list[Subtree]:
        """The small ones of the new entries first, unless others signed the whole tree; that one last, for all that is older."""
        whole = (0, checkpoint.size)
        others = await self._host.db.read(cosignatures, checkpoint.ca_id, checkpoint.sequence_no)
        by_seed = any((one.start, one.end) == whole and url in self._cosigners for url, one in others)
        small = () if by_seed or new_from >= checkpoint.size else cover(new_from, checkpoint.size)
        found = []
        for start, end in dict.fromkeys((*small, whole)):
            own = await self._log.signer.sign(start, end)
            signatures = self._fitting(own.signature, [(url, one) for url, one in others if (one.start, one.end) == (start, end)])
            found.append(Subtree(start=start, end=end, root=own.root, signatures=signatures))
        return found

    @property
    def _cosigners(self) -> Mapping[str, bool]:
        """The URLs of those who sign the whole tree alone, and whether their signatures are checked."""
        return {one.url: one.key is not None for one in self._log.settings.cosigners}

    def _fitting(self, own: Signature, others: Sequence[tuple[str, SubtreeSignature]]) -> tuple[Signature, ...]:
        """The CA's signature, and as many others as there is room for: what was checked goes first, and nobody counts twice."""
        ordered = sorted(others, key=lambda one: not self._cosigners.get(one[0], True))
        found, room = {own.cosigner.binary: own}, ROOM - len(own.signature)
        for url, one in ordered:
            room -= len(one.signature) + len(one.cosigner.binary) + 3
            if room < 0:
                self._host.log.warning("a certificate has no room for the signature of a cosigner", ca=self._log.ca_id, url=url)
                break
            found.setdefault(one.cosigner.binary, Signature(one.cosigner, one.signature))
        return tuple(found.values())

    async def _make_some(self, found: Sequence[tuple[str, int, bytes]], subtrees: Sequence[Subtree]) -> int:
        log = self._log.log
        of = {index: next(one for one in subtrees if one.start <= index < one.end) for _, index, _ in found}
        needed: dict[int, dict[Range, None]] = {}
        for index, subtree in of.items():
            needed.setdefault(subtree.end, {}).update(dict.fromkeys(inclusion(subtree.start, subtree.end, index)))
        hashes: dict[tuple[int, Range], bytes] = {}
        for size, ranges in needed.items():
            values = await log.hashes(size, list(ranges))
            hashes.update(((size, one), value) for one, value in zip(ranges, values, strict=True))
        built = await self._host.blocking.run(POOL, self._build, found, of, hashes)
        await self._host.db.write(keep_built, built)
        return len(built)

    def _build(
        self, found: Sequence[tuple[str, int, bytes]], of: Mapping[int, Subtree], hashes: Mapping[tuple[int, Range], bytes]
    ) -> list[tuple[str, bytes]]:
        """In a thread: it takes 15 ms for as many as there are at a time."""
        built, wrong = [], {}
        for id, index, tbs in found:
            try:
                built.append((id, self._certificate(of[index], index, tbs, hashes)))
            except Internal as problem:  # the others are right
                wrong[id] = problem.cause
        for id, cause in wrong.items():
            self._host.log.error("no standalone certificate is made", ca=self._log.ca_id, certificate=id, reason=cause)
        return built

    def _certificate(self, subtree: Subtree, index: int, tbs: bytes, hashes: Mapping[tuple[int, Range], bytes]) -> bytes:
        log, hash = self._log, self._log.log.hash
        path = tuple(hashes[subtree.end, one] for one in inclusion(subtree.start, subtree.end, index))
        check(hash, subtree, index, log.entry_of(tbs), path)
        proof = Proof(start=subtree.start, end=subtree.end, path=path, signatures=subtree.signatures)
        return certificate_of(log.settings.of_dialect, log.anchor, tbs, serial_of(log.number, index), proof)


def check(hash: Hash, subtree: Subtree, index: int, entry: bytes, path: Sequence[bytes]) -> None:
    """Whether whoever is given the proof will believe it. Raises Internal."""
    if evaluate(hash, subtree.start, subtree.end, index, leaf=hash.leaf(entry), proof=path) != subtree.root:
        raise Internal(cause=f"the entry {index} of the log is not that of its certificate")
