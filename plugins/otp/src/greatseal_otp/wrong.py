"""Wrong codes in a row, over all doors and however slowly they come: after so many no code is good until somebody helps.

Who guesses has the password of the person already. The limits of a sign-in make it slow; this makes it end (NIST SP 800-63B s5.2.2).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy import delete, select, update

from greatseal.api.audit import AuditEvent
from greatseal.api.store import Tx, operation
from greatseal.db.tables import insert_new, param
from greatseal.host import Host
from greatseal_otp import tables as t
from greatseal_otp.recovery import Outcome, Whose

T = TypeVar("T")

MOST = 100
"""Wrong codes in a row."""

_COUNT = select(t.wrong).where(t.wrong.c.subject == param("subject"))
_FIRST = insert_new(t.wrong)
_AGAIN = update(t.wrong).where(t.wrong.c.subject == param("subject"), t.wrong.c.failures < MOST).values(failures=t.wrong.c.failures + 1)
_FORGET = delete(t.wrong).where(t.wrong.c.subject == param("subject"))


class WrongCodes:
    """Those of everybody, counted at the node that decides about a person's codes."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._count = self._decided("otp.wrong.count", _count)
        self._clear = self._decided("otp.wrong.clear", _clear)
        self.operations: Sequence[Callable[..., object]] = (self._count, self._clear)
        """What other nodes ask for."""

    async def are_too_many(self, subject: str) -> bool:
        """Whether no code of the person is good any more."""
        return await self._host.db.read(_failures, subject) >= MOST

    async def note(self, subject: str) -> None:
        """One more."""
        await self._host.db.write(self._count, Whose(subject=subject))

    async def clear(self, subject: str) -> bool:
        """After a good one, or by an administrator; whether there were any."""
        if not await self._host.db.read(_failures, subject):
            return False
        return (await self._host.db.write(self._clear, Whose(subject=subject))).done

    def _decided(self, name: str, fn: Callable[[Tx, Whose], T]) -> Callable[[Tx, Whose], T]:
        def owner(asked: Whose) -> str:
            return self._host.handles.owner_of_key(f"otp:{asked.subject}")

        return operation(name, owner)(fn)


def _failures(tx: Tx, subject: str) -> int:
    row = tx.one(_COUNT, subject=subject)
    return 0 if row is None else int(row.failures)


def _count(tx: Tx, whose: Whose) -> None:
    if tx.count(_FIRST, subject=whose.subject, failures=1):
        return
    if tx.count(_AGAIN, subject=whose.subject) and _failures(tx, whose.subject) == MOST:
        tx.audit(AuditEvent(event_type="otp_locked", service="idp", outcome="failure", sub=whose.subject))


def _clear(tx: Tx, whose: Whose) -> Outcome:
    return Outcome(done=bool(tx.count(_FORGET, subject=whose.subject)))
