"""Who signs a checkpoint besides the log: cosigners and witnesses, all at the same time. One that fails is logged and passed over."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from greatseal.api.audit import AuditEvent
from greatseal.api.problems import Problem
from greatseal.api.services import RESOLVER
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.net import NameResolver, SystemResolver
from greatseal_mtc.cosigners import Refused, Silent, cosign
from greatseal_mtc.merkle import cover
from greatseal_mtc.settings import Cosigner, Witness
from greatseal_mtc.stored_checkpoints import (
    Stored,
    cosignatures,
    keep_cosignature,
    keep_witnessed,
    last_witnessed,
    witnesses_of,
)
from greatseal_mtc.structures import SubtreeSignature
from greatseal_mtc.witnesses import Larger, Witnessing

if TYPE_CHECKING:
    from greatseal_mtc.logs import CaLog


class Cosigning:
    """The cosigners and witnesses of one log."""

    def __init__(self, host: Host, log: "CaLog") -> None:
        self._host = host
        self._log = log
        self.larger: dict[str, str] = {}
        """What witnesses say who know a larger tree of the log, by their URLs."""

    @property
    def _resolver(self) -> NameResolver:
        return self._host.optional_service(RESOLVER) or SystemResolver()

    async def ask(self, checkpoint: Stored, new_from: int) -> bool:
        """Ask those who have not answered for the checkpoint; whether a witness did now. ``new_from`` is the size of the one before it."""
        settings = self._log.settings
        answered = {url for url, _ in await self._host.db.read(cosignatures, checkpoint.ca_id, checkpoint.sequence_no)}
        seen = await self._host.db.read(witnesses_of, checkpoint.ca_id, checkpoint.sequence_no)
        witnesses = [
            self._passed_over(one.url, checkpoint, self._witness(one, checkpoint, new_from))
            for one in settings.witnesses
            if one.url not in seen
        ]
        cosigners = [
            self._passed_over(one.url, checkpoint, self._cosigner(one, checkpoint)) for one in settings.cosigners if one.url not in answered
        ]
        outcomes = await asyncio.gather(*witnesses, *cosigners)
        return any(outcomes[: len(witnesses)])

    async def _cosigner(self, cosigner: Cosigner, checkpoint: Stored) -> None:
        signed = await cosign(cosigner, checkpoint, self._log.id.name, resolver=self._resolver, log=self._host.log)
        await self._host.db.write(keep_cosignature, checkpoint, cosigner.url, signed)

    async def _witness(self, witness: Witness, checkpoint: Stored, new_from: int) -> None:
        """Its cosignature; then its signatures of the subtrees that certificates are in, where it gives such."""
        log = self._log.log
        at = Witnessing(witness, checkpoint, log, resolver=self._resolver)
        line = await at.add(await self._host.db.read(last_witnessed, checkpoint.ca_id, checkpoint.log_number, witness.url))
        self.larger.pop(witness.url, None)
        subtrees = []
        if witness.subtrees:
            new = cover(new_from, checkpoint.size) if new_from < checkpoint.size else ()
            for start, end in dict.fromkeys((*new, (0, checkpoint.size))):
                subtrees.append(await at.sign((start, end), await log.subtree_root(start, end), line))
        await self._host.db.write(_keep, checkpoint, witness, line.line, subtrees)

    async def _passed_over(self, url: str, checkpoint: Stored, asked: Awaitable[None]) -> bool:
        """Whether it answered as it should; what it did else is logged, and is no matter of the checkpoint."""
        try:
            await asked
        except Larger as error:
            self.larger[url] = str(error)
            await self._refused(url, checkpoint, str(error))
        except Refused as error:
            await self._refused(url, checkpoint, str(error))
        except (Silent, Problem) as problem:
            reason = (problem.cause or problem.detail) if isinstance(problem, Problem) else str(problem)
            self._host.log.warning("a cosigner did not sign", ca=self._log.ca_id, url=url, reason=reason)
        except Exception:  # whatever a stranger brings about is no matter of the others
            self._host.log.exception("a cosigner could not be asked", ca=self._log.ca_id, url=url)
        else:
            return True
        return False

    async def _refused(self, url: str, checkpoint: Stored, reason: str) -> None:
        """It answered what nobody may believe: an operator should know."""
        self._host.log.error("the answer of a cosigner is refused", ca=self._log.ca_id, url=url, reason=reason)
        detail = f"CA {checkpoint.ca_id}, log {checkpoint.log_number}, checkpoint {checkpoint.sequence_no}: {url}: {reason}"
        await self._host.audit_log(AuditEvent(event_type="log.cosigner", service="ca", outcome="failure", detail=detail[:1000]))


def _keep(tx: Tx, checkpoint: Stored, witness: Witness, line: str, subtrees: Sequence[SubtreeSignature]) -> None:
    keep_witnessed(tx, checkpoint, witness.url, line, of_log=witness.subtrees)
    for signed in subtrees:
        keep_cosignature(tx, checkpoint, witness.url, signed)
