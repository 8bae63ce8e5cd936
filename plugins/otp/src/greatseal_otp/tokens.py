"""Tokens in tables of this service: the store of everybody whom no other one keeps."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from sqlalchemy import delete, select, update

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.messages import Message, marked
from greatseal.api.moments import SECOND
from greatseal.api.notices import Met, warning
from greatseal.api.otp import CodeStore, Holder, NewToken, Token, TokenKey
from greatseal.api.problems import Conflict
from greatseal.api.services import NOTICES
from greatseal.api.store import Refuse, Row, Tx, operation, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_otp import devices
from greatseal_otp import tables as t
from greatseal_otp.recovery import Outcome, Recovery

T = TypeVar("T")
A = TypeVar("A", bound="Asked")

MOST = 10
"""Tokens of one person."""
WAITING = 3600 * SECOND
"""How long a token waits for its first code."""
SWEEP = 100
"""Tokens that one transaction removes."""

_OF = select(t.token).where(t.token.c.subject == param("subject")).order_by(t.token.c.created_at, t.token.c.token_id)
_FIND = select(t.token).where(t.token.c.token_id == param("token_id"), t.token.c.subject == param("subject"))
_KEYS = (
    select(t.token, t.step.c.step)
    .join_from(t.token, t.step, t.token.c.token_id == t.step.c.token_id, isouter=True)
    .where(t.token.c.subject == param("subject"))
    .order_by(t.token.c.created_at, t.token.c.token_id)
)
_BEGIN = t.step.insert().values(token_id=param("token_id"), step=-1)
_ADVANCE = update(t.step).where(t.step.c.token_id == param("token_id"), t.step.c.step < param("to")).values(step=param("to"))
_END = delete(t.step).where(t.step.c.token_id == param("token_id"))
ABANDONED = (
    select(t.token.c.token_id)
    .where(t.token.c.confirmed_at.is_(None), t.token.c.created_at <= param("before"))
    .order_by(t.token.c.created_at)
    .limit(SWEEP)
)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the node that decides about a person's tokens."""

    subject: str
    token_id: str
    languages: tuple[str, ...] = ()


class Step(Asked, frozen=True, kw_only=True):
    """A step that is to be used up."""

    to: int


class Added(Asked, frozen=True, kw_only=True):
    """A token that is to be stored."""

    label: str
    key: bytes
    algorithm: str
    digits: int
    period: int

    def __repr__(self) -> str:
        return f"Added(token_id={self.token_id!r})"


class Removed(Asked, frozen=True, kw_only=True):
    """A token that is to be deleted; ``by`` is who does it when it is somebody else."""

    by: str | None


class LocalTokens(CodeStore):
    """See :class:`greatseal.api.otp.CodeStore`. Whatever changes a token runs on the node that decides about its holder."""

    name = "local"

    def __init__(self, host: Host, recovery: Recovery) -> None:
        self._host = host
        self._recovery = recovery
        self._advance = self._decided("otp.advance", self._use_up)
        self._add = self._decided("otp.add", self._store)
        self._remove = self._decided("otp.remove", self._delete)
        self.operations: Sequence[Callable[..., object]] = (self._advance, self._add, self._remove)
        """What other nodes ask for."""

    def keeps(self, holder: Holder) -> bool:  # noqa: ARG002 - everybody's home, asked last
        return True

    async def tokens(self, holder: Holder) -> Sequence[Token]:
        return await self._host.db.read(_tokens, holder.subject)

    async def keys(self, holder: Holder) -> Sequence[TokenKey]:
        rows = await self._host.db.read(_keys, holder.subject)
        return [
            TokenKey(
                token_id=row.token_id,
                type="totp",
                key=self._host.keys.open(row.secret, table="otp_token", row=row.token_id, field="secret"),
                algorithm=row.algorithm,
                digits=row.digits,
                period=row.period,
                used=row.step,
                confirmed=row.confirmed_at is not None,
            )
            for row in rows
        ]

    async def advance(self, holder: Holder, key: TokenKey, to: int) -> bool:
        return (
            await self._host.db.write(self._advance, Step(subject=holder.subject, token_id=key.token_id, to=to, languages=holder.languages))
        ).done

    async def add(self, holder: Holder, new: NewToken) -> Token:
        added = Added(
            subject=holder.subject,
            token_id=self._host.handles.new_id(),
            label=new.label,
            key=new.key,
            algorithm=new.algorithm,
            digits=new.digits,
            period=new.period,
        )
        return await self._host.db.write(self._add, added)

    async def remove(self, holder: Holder, token_id: str, *, by: str | None = None) -> bool:
        return (
            await self._host.db.write(self._remove, Removed(subject=holder.subject, token_id=token_id, by=by, languages=holder.languages))
        ).done

    async def sweep(self) -> None:
        """Remove tokens of which no code was ever given."""
        before = self._host.clock.passed() - WAITING
        while await self._host.db.write(_sweep_some, before) == SWEEP:
            pass

    def _decided(self, name: str, fn: Callable[[Tx, A], T]) -> Callable[[Tx, A], T]:
        def owner(asked: A) -> str:
            return self._host.handles.owner_of_key(f"otp:{asked.subject}")

        return operation(name, owner)(fn)

    def _use_up(self, tx: Tx, asked: Step) -> Outcome:
        row = tx.one(_FIND, token_id=asked.token_id, subject=asked.subject)
        if row is None or not tx.count(_ADVANCE, token_id=asked.token_id, to=asked.to):
            return Outcome(done=False)
        faults.point("otp.used")
        first = row.confirmed_at is None
        tx.put(t.TOKEN, asked.token_id, last_used_at=tx.now, confirmed_at=tx.now if first else row.confirmed_at)
        if first:
            devices.drop(tx, asked.subject)
            tx.audit(_event("otp_token_confirmed", asked))
            self._tell(tx, "code_token_added", Message("An authenticator app was added to your account"), row, asked)
        return Outcome(done=True)

    def _store(self, tx: Tx, new: Added) -> Token:
        if len(tx.all(_OF, subject=new.subject)) >= MOST:
            raise Refuse(Conflict(Message("there are %(most)d tokens already; delete one first", {"most": MOST})))
        tx.put(
            t.TOKEN,
            new.token_id,
            subject=new.subject,
            label=new.label,
            secret=self._host.keys.seal(new.key, table="otp_token", row=new.token_id, field="secret"),
            algorithm=new.algorithm,
            digits=new.digits,
            period=new.period,
            created_at=tx.now,
            confirmed_at=None,
            last_used_at=None,
        )
        tx.run(_BEGIN, token_id=new.token_id)
        tx.audit(_event("otp_token_created", new))
        row = tx.one(_FIND, token_id=new.token_id, subject=new.subject)
        assert row is not None  # put just now
        return _token(row)

    def _delete(self, tx: Tx, asked: Removed) -> Outcome:
        row = tx.one(_FIND, token_id=asked.token_id, subject=asked.subject)
        if row is None:
            return Outcome(done=False)
        _drop(tx, asked.token_id)
        devices.drop(tx, asked.subject)
        if all(row.confirmed_at is None for row in tx.all(_OF, subject=asked.subject)):
            self._recovery.drop(tx, asked.subject)
        tx.audit(_event("otp_token_deleted", asked, by=asked.by))
        if row.confirmed_at is not None:
            self._tell(tx, "code_token_deleted", Message("An authenticator app of your account was deleted"), row, asked)
        return Outcome(done=True)

    def _tell(self, tx: Tx, kind: str, title: Message, row: Row, asked: Asked) -> None:
        if (notices := self._host.optional_service(NOTICES)) is not None:
            met = Met(facts={marked("App"): row.label}, languages=asked.languages)
            notices.tell(tx, warning(kind, row.subject, title, met))


def _event(event_type: str, asked: Asked, by: str | None = None) -> AuditEvent:
    return AuditEvent(event_type=event_type, service="idp", sub=asked.subject, principal=by, detail=asked.token_id)


def _drop(tx: Tx, token_id: str) -> None:
    tx.remove(t.TOKEN, token_id)
    tx.run(_END, token_id=token_id)


@scan
def _sweep_some(tx: Tx, before: int) -> int:
    rows = tx.all(ABANDONED, before=before)
    for row in rows:
        _drop(tx, row.token_id)
    return len(rows)


def _tokens(tx: Tx, subject: str) -> list[Token]:
    return [_token(row) for row in tx.all(_OF, subject=subject)]


def _keys(tx: Tx, subject: str) -> list[Row]:
    return tx.all(_KEYS, subject=subject)


def _token(row: Row) -> Token:
    return Token(
        token_id=row.token_id,
        label=row.label,
        type="totp",
        algorithm=row.algorithm,
        digits=row.digits,
        period=row.period,
        confirmed=row.confirmed_at is not None,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
    )
