"""Recovery codes: ten at a time, each good once in place of a code, shown when they are made and never again."""

import secrets
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeVar

import msgspec
from sqlalchemy import delete, func, select

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.messages import Message, marked
from greatseal.api.notices import Met, warning
from greatseal.api.otp import Holder
from greatseal.api.services import NOTICES
from greatseal.api.store import Tx, operation
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_otp import tables as t

T = TypeVar("T")
A = TypeVar("A", bound="Whose")

MANY = 10
DIGITS = 20
"""Of one code, 66 bits. Digits alone: the keyboard of the page is for codes."""

_STATE = select(t.recovery).where(t.recovery.c.subject == param("subject"))
_LEFT = select(func.count().label("left")).select_from(t.recovery_code).where(t.recovery_code.c.subject == param("subject"))
_INSERT = t.recovery_code.insert().values(digest=param("digest"), subject=param("subject"))
_USE = delete(t.recovery_code).where(t.recovery_code.c.digest == param("digest"), t.recovery_code.c.subject == param("subject"))
_FORGET = delete(t.recovery_code).where(t.recovery_code.c.subject == param("subject"))


class RecoveryState(msgspec.Struct, frozen=True, kw_only=True):
    """How many codes are left of those that were made then (microseconds)."""

    remaining: int
    created_at: int


class Whose(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the node that decides about a person's codes."""

    subject: str
    languages: tuple[str, ...] = ()


class NewCodes(Whose, frozen=True, kw_only=True):
    """Codes that replace all there were."""

    digests: tuple[bytes, ...]


class OneCode(Whose, frozen=True, kw_only=True):
    """A code that was typed."""

    digest: bytes


class Outcome(msgspec.Struct, frozen=True):
    """What another node answers: whether it was done."""

    done: bool


class Forgotten(Whose, frozen=True, kw_only=True):
    """All codes of a person."""


def read(typed: str) -> str | None:
    """The digits of a recovery code, None for what is none. Spaces and hyphens do not count."""
    digits = "".join(one for one in typed if one not in " -")
    return digits if len(digits) == DIGITS and digits.isascii() and digits.isdigit() else None


def digest_of(subject: str, digits: str) -> bytes:
    """What is stored of a code."""
    return sha256(f"{subject}\0{digits}".encode()).digest()


class Recovery:
    """The recovery codes of everybody."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._replace = self._decided("otp.recovery.replace", _replace)
        self._use = self._decided("otp.recovery.use", self._use_up)
        self._forget = self._decided("otp.recovery.forget", _forget)
        self.operations: Sequence[Callable[..., object]] = (self._replace, self._use, self._forget)
        """What other nodes ask for."""

    async def state(self, subject: str) -> RecoveryState | None:
        """What is left; None for a person without codes."""
        return await self._host.db.read(_state, subject)

    async def make(self, subject: str) -> tuple[str, ...]:
        """New codes, as they are shown; those before are worthless when this returns."""
        codes = tuple(f"{secrets.randbelow(10**DIGITS):0{DIGITS}}" for _ in range(MANY))
        await self._host.db.write(self._replace, NewCodes(subject=subject, digests=tuple(digest_of(subject, one) for one in codes)))
        return tuple("-".join(one[start : start + 4] for start in range(0, DIGITS, 4)) for one in codes)

    async def use(self, holder: Holder, digits: str) -> bool:
        """True once for each code."""
        one = OneCode(subject=holder.subject, digest=digest_of(holder.subject, digits), languages=holder.languages)
        return (await self._host.db.write(self._use, one)).done

    async def forget(self, subject: str) -> None:
        """Delete all codes of a person."""
        await self._host.db.write(self._forget, Forgotten(subject=subject))

    def drop(self, tx: Tx, subject: str) -> None:
        """As :meth:`forget`, in a transaction of the node that decides."""
        tx.run(_FORGET, subject=subject)
        tx.remove(t.RECOVERY, subject)

    def _use_up(self, tx: Tx, one: OneCode) -> Outcome:
        if not tx.count(_USE, digest=one.digest, subject=one.subject):
            return Outcome(done=False)
        faults.point("otp.recovered")
        row = tx.one(_LEFT, subject=one.subject)
        assert row is not None  # an aggregate has a row
        tx.put(t.RECOVERY, one.subject, remaining=row.left)
        tx.audit(AuditEvent(event_type="otp_recovery_code_used", service="idp", sub=one.subject, detail=f"{row.left} left"))
        if (notices := self._host.optional_service(NOTICES)) is not None:
            met = Met(facts={marked("Codes that are left"): str(row.left)}, languages=one.languages)
            notices.tell(tx, warning("recovery_code_used", one.subject, Message("A recovery code of your account was used"), met))
        return Outcome(done=True)

    def _decided(self, name: str, fn: Callable[[Tx, A], T]) -> Callable[[Tx, A], T]:
        def owner(asked: A) -> str:
            return self._host.handles.owner_of_key(f"otp:{asked.subject}")

        return operation(name, owner)(fn)


def _state(tx: Tx, subject: str) -> RecoveryState | None:
    row = tx.one(_STATE, subject=subject)
    return None if row is None else RecoveryState(remaining=row.remaining, created_at=row.created_at)


def _replace(tx: Tx, new: NewCodes) -> None:
    tx.run(_FORGET, subject=new.subject)
    for digest in new.digests:
        tx.run(_INSERT, digest=digest, subject=new.subject)
    tx.put(t.RECOVERY, new.subject, remaining=len(new.digests), created_at=tx.now)
    tx.audit(AuditEvent(event_type="otp_recovery_codes_created", service="idp", sub=new.subject))


def _forget(tx: Tx, whose: Forgotten) -> None:
    tx.run(_FORGET, subject=whose.subject)
    tx.remove(t.RECOVERY, whose.subject)
