"""Landmarks: sizes of the log that relying parties know in advance, so that a certificate needs no signature (draft ...-05 s6.4).

Each tick looks whether one is due, builds the certificates of those that have none, and drops what is beyond the limit.
"""

from typing import TYPE_CHECKING

from greatseal import der
from greatseal.api.issuance import Issuance
from greatseal.api.moments import SECOND
from greatseal.host import Host
from greatseal_mtc.landmark_list import LandmarkList, dated_list
from greatseal_mtc.merkle import Range, cover
from greatseal_mtc.recording import Entry, newest_below
from greatseal_mtc.stored_landmarks import Landmark, active, allocate, build, newest, prune, unbuilt
from greatseal_mtc.structures import LandmarkCertificate, LandmarkId, LogId
from greatseal_mtc.wire import Proof, certificate_of, serial_of

if TYPE_CHECKING:
    from greatseal_mtc.logs import CaLog

EVERY = 60.0
TRIED = 100
"""Entries below a landmark that are looked at together for its representative: one whose issuance was given up is none."""


class Landmarks:
    """The landmarks of one log."""

    def __init__(self, host: Host, log: "CaLog", issuance: Issuance) -> None:
        self._host = host
        self._log = log
        self._issuance = issuance

    async def tick(self) -> None:
        """Allocate when it is time, build what is not built."""
        log = self._log
        if await self._is_due() and await self.maybe_allocate() is not None:
            await self._host.db.write(prune, log.ca_id, log.number, log.settings.max_active_landmarks)
        for one in await self._host.db.read(unbuilt, log.ca_id, log.number):
            await self._build(one)

    async def maybe_allocate(self) -> Landmark | None:
        """A landmark over all that is in the log, where it has grown and has a certificate; its size is that of a checkpoint."""
        log = self._log
        size, _ = log.log.head
        last = await self._host.db.read(newest, log.ca_id, log.number)
        if last is not None and last.tree_size >= size:
            return None
        if log.checkpoints.published is None or log.checkpoints.published.size < size:
            await log.checkpoints.run()
        published = log.checkpoints.published
        if published is None or await self._representative(published.size) is None:
            return None
        return await self._host.db.write(allocate, log.ca_id, log.number, published.size)

    async def text(self) -> str:
        """The list for relying parties, as the dialect of the log has it."""
        log = self._log
        if not log.settings.of_dialect.dated_landmarks:
            return (await self.list()).text
        known = await self._host.db.read(active, log.ca_id, log.number)
        life = log.settings.max_active_landmarks * log.settings.landmark_interval_secs
        dated = [(one.tree_size, one.created + life) for one in reversed(known)]
        first = known[0].previous_size if known else 0
        return dated_list(known[-1].number if known else 0, [*dated, (first, 0)], self._host.clock.now() // SECOND)

    async def list(self) -> LandmarkList:
        """What relying parties of draft -05 are told."""
        known = await self._host.db.read(active, self._log.ca_id, self._log.number)
        if not known:
            return LandmarkList()
        known = known[-self._log.settings.max_active_landmarks :]
        sizes = [*(one.tree_size for one in reversed(known)), known[0].previous_size]
        return LandmarkList(known[-1].number, tuple(sizes))

    async def relative(self, entry: Entry, landmark: Landmark) -> bytes | None:
        """The landmark-relative certificate of an entry: no signatures, and the proof that it is in a subtree of the landmark that first
        had it (s6.4.4). None where that landmark is not kept any more, or the certificate is not known."""
        assert entry.index is not None, "it is logged"
        tbs = await self._tbs(entry)
        if not landmark.previous_size <= entry.index < landmark.tree_size or tbs is None:
            return None
        start, end = self._subtree(landmark, entry.index)
        path = tuple(await self._log.log.inclusion(entry.index, start, end))
        return self._certificate(tbs, entry.index, Proof(start=start, end=end, path=path))

    async def _is_due(self) -> bool:
        last = await self._host.db.read(newest, self._log.ca_id, self._log.number)
        if last is None:
            return True
        passed = self._host.clock.now() // SECOND - last.created
        # A clock that was set back since does not hold up the next one for longer than an interval.
        return not 0 <= passed < self._log.settings.landmark_interval_secs

    async def _build(self, landmark: Landmark) -> None:
        log = self._log
        found = await self._representative(landmark.tree_size)
        if found is None:
            return
        index, tbs = found
        size = landmark.tree_size
        path = tuple(await log.log.inclusion(index, 0, size))
        signed = await log.signer.sign(0, size)
        certificate = LandmarkCertificate(
            tbs=tbs,
            index=index,
            path=path,
            landmark=LandmarkId(LogId(log.log.hash, log.keys.spki), size),
            algorithm=log.keys.algorithm,
            signature=signed.signature.signature,
        )
        await self._host.db.write(build, landmark.id, certificate.der)

    async def _representative(self, size: int) -> tuple[int, bytes] | None:
        """The newest certificate below a size: its index, and its TBSCertificate as the standalone certificate has it."""
        below = size
        while entries := await self._host.db.read(newest_below, self._log.ca_id, self._log.number, below, TRIED):
            for entry in entries:
                assert entry.index is not None, "it is below a size"
                below, tbs = entry.index, await self._tbs(entry)
                if tbs is not None:
                    return entry.index, der.children(self._certificate(tbs, entry.index, Proof(start=0, end=size, path=())))[0]
        return None

    async def _tbs(self, entry: Entry) -> bytes | None:
        """A TBSCertificate of the entry, of whatever issuer; None for a certificate that was never issued."""
        if entry.tbs is not None:
            return entry.tbs
        whole = entry.standalone
        if whole is None:
            certificate = await self._issuance.certificate(entry.certificate_id)
            whole = None if certificate is None else certificate.der
        return None if whole is None else der.children(whole)[0]

    def _certificate(self, tbs: bytes, index: int, proof: Proof) -> bytes:
        log = self._log
        return certificate_of(log.settings.of_dialect, log.anchor, tbs, serial_of(log.number, index), proof)

    def _subtree(self, landmark: Landmark, index: int) -> Range:
        return next(one for one in cover(landmark.previous_size, landmark.tree_size) if one[0] <= index < one[1])
