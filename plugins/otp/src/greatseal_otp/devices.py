"""Devices that are not asked for a code for some days: a handle in a cookie, and a sealed row that says whose it is.

The row holds what was so when it was made: the password, and which tokens there were. When either is another, the device is asked again.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeVar

import msgspec
from sqlalchemy import select

from greatseal.api.audit import AuditEvent
from greatseal.api.browsers import browser_of, kept_browser
from greatseal.api.http import Call
from greatseal.api.messages import Text
from greatseal.api.moments import SECOND
from greatseal.api.otp import Holder, Token
from greatseal.api.store import Row, Tx, operation, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.http.cookies import cookie_of, set_cookie
from greatseal_otp import tables as t
from greatseal_otp.recovery import Outcome, Whose
from greatseal_otp.settings import OtpSettings

T = TypeVar("T")
A = TypeVar("A", bound=Whose)

NAME = "greatseal_device"
KIND = "rd"
"""The kind of the handles in the cookie."""
MOST = 10
"""Devices of one person: with one more, the oldest is asked again."""
DAY = 86_400
SWEEP = 100
"""Devices that one transaction removes."""

_OF = select(t.device).where(t.device.c.subject == param("subject")).order_by(t.device.c.created_at, t.device.c.device_id)
_FIND = select(t.device).where(t.device.c.digest == param("digest"))
_BY_ID = select(t.device).where(t.device.c.device_id == param("device_id"), t.device.c.subject == param("subject"))
OVER = select(t.device.c.device_id).where(t.device.c.expires_at <= param("before")).order_by(t.device.c.expires_at).limit(SWEEP)


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """What the row keeps sealed: nobody who writes into the database makes a device of it."""

    digest: bytes
    subject: str
    tokens: bytes
    password_changed_at: int | None


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """What a person sees of one. Moments are microseconds."""

    device_id: str
    label: str
    created_at: int
    last_used_at: int
    expires_at: int

    @property
    def words(self) -> Text:
        """The label, for pages."""
        return kept_browser(self.label)


class NewDevice(Whose, frozen=True, kw_only=True):
    """A device that is to be remembered."""

    device_id: str
    digest: bytes
    sealed: bytes
    label: str
    seconds: int


class OneDevice(Whose, frozen=True, kw_only=True):
    """A device that is used, or forgotten; ``by`` is who forgets it when that is somebody else."""

    device_id: str


class Devices:
    """The remembered devices of everybody."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._secure = host.issuer.startswith("https:")
        self.days = host.settings(OtpSettings).remember_days
        self._add = self._decided("otp.device.add", self._store)
        self._use = self._decided("otp.device.use", _use)
        self._remove = self._decided("otp.device.remove", _remove)
        self._forget = self._decided("otp.device.forget", _forget)
        self.operations: Sequence[Callable[..., object]] = (self._add, self._use, self._remove, self._forget)
        """What other nodes ask for."""

    async def remember(self, call: Call, holder: Holder, tokens: Sequence[Token]) -> tuple[tuple[str, str], ...]:
        """Remember the device of a call, where that is allowed: the header that gives it its handle."""
        if not self.days:
            return ()
        handle, device_id = self._host.handles.mint(KIND), self._host.handles.new_id()
        bound = _bound(handle, holder, tokens)
        sealed = self._host.keys.seal(msgspec.json.encode(bound), table="otp_device", row=device_id, field="sealed")
        seconds = self.days * DAY
        label = str(browser_of(call.headers.get("User-Agent")))
        new = NewDevice(subject=holder.subject, device_id=device_id, digest=bound.digest, sealed=sealed, label=label, seconds=seconds)
        await self._host.db.write(self._add, new)
        return (set_cookie(NAME, handle, max_age=seconds, secure=self._secure),)

    async def is_remembered(self, call: Call, holder: Holder, tokens: Sequence[Token]) -> bool:
        """Whether the device of a call is one of the person's. One that is none any more is forgotten."""
        handle = cookie_of(call.headers.get("Cookie", ""), NAME, secure=self._secure)
        if not self.days or handle is None or self._host.handles.node_of(handle, KIND) is None:
            return False
        row = await self._host.db.read(_find, sha256(handle.encode()).digest())
        if row is None or row.subject != holder.subject:
            return False
        one = OneDevice(subject=holder.subject, device_id=row.device_id)
        if not self._is_good(row, _bound(handle, holder, tokens)):
            await self._host.db.write(self._remove, one)
            return False
        return (await self._host.db.write(self._use, one)).done

    async def of(self, holder: Holder, tokens: Sequence[Token]) -> list[Device]:
        """Those of a person that are not asked now, the oldest first."""
        rows = await self._host.db.read(_of, holder.subject)
        return [_device(row) for row in rows if self.days and self._is_good(row, _bound(None, holder, tokens, row.digest))]

    async def forget(self, subject: str, device_id: str | None = None) -> bool:
        """Forget a device of a person, all of them without ``device_id``; False when they have none of this id."""
        if device_id is None:
            await self._host.db.write(self._forget, Whose(subject=subject))
            return True
        return (await self._host.db.write(self._remove, OneDevice(subject=subject, device_id=device_id))).done

    async def sweep(self) -> None:
        """Remove those whose days are over."""
        before = self._host.clock.passed()
        while await self._host.db.write(_sweep_some, before) == SWEEP:
            pass

    def _is_good(self, row: Row, bound: Bound) -> bool:
        if row.expires_at <= self._host.clock.now():
            return False
        sealed = self._host.keys.open(row.sealed, table="otp_device", row=row.device_id, field="sealed")
        return msgspec.json.decode(sealed, type=Bound) == bound

    def _decided(self, name: str, fn: Callable[[Tx, A], T]) -> Callable[[Tx, A], T]:
        def owner(asked: A) -> str:
            return self._host.handles.owner_of_key(f"otp:{asked.subject}")

        return operation(name, owner)(fn)

    def _store(self, tx: Tx, new: NewDevice) -> None:
        for row in tx.all(_OF, subject=new.subject)[: -MOST + 1]:
            tx.remove(t.DEVICE, row.device_id)
        tx.put(
            t.DEVICE,
            new.device_id,
            subject=new.subject,
            digest=new.digest,
            sealed=new.sealed,
            label=new.label,
            created_at=tx.now,
            last_used_at=tx.now,
            expires_at=tx.now + new.seconds * SECOND,
        )
        tx.audit(AuditEvent(event_type="otp_device_remembered", service="idp", sub=new.subject, detail=new.device_id))


def drop(tx: Tx, subject: str) -> None:
    """Forget every device of a person, in a transaction of the node that decides."""
    for row in tx.all(_OF, subject=subject):
        tx.remove(t.DEVICE, row.device_id)
        tx.audit(AuditEvent(event_type="otp_device_forgotten", service="idp", sub=subject, detail=row.device_id))


def _bound(handle: str | None, holder: Holder, tokens: Sequence[Token], digest: bytes = b"") -> Bound:
    ids = sorted(token.token_id for token in tokens if token.confirmed)
    return Bound(
        digest=bytes(digest) if handle is None else sha256(handle.encode()).digest(),
        subject=holder.subject,
        tokens=sha256("\0".join(ids).encode()).digest(),
        password_changed_at=None if holder.user is None else holder.user.password_changed_at,
    )


def _find(tx: Tx, digest: bytes) -> Row | None:
    return tx.one(_FIND, digest=digest)


def _of(tx: Tx, subject: str) -> list[Row]:
    return tx.all(_OF, subject=subject)


def _use(tx: Tx, one: OneDevice) -> Outcome:
    if tx.one(_BY_ID, device_id=one.device_id, subject=one.subject) is None:
        return Outcome(done=False)
    tx.put(t.DEVICE, one.device_id, last_used_at=tx.now)
    return Outcome(done=True)


def _remove(tx: Tx, one: OneDevice) -> Outcome:
    if tx.one(_BY_ID, device_id=one.device_id, subject=one.subject) is None:
        return Outcome(done=False)
    tx.remove(t.DEVICE, one.device_id)
    tx.audit(AuditEvent(event_type="otp_device_forgotten", service="idp", sub=one.subject, detail=one.device_id))
    return Outcome(done=True)


def _forget(tx: Tx, whose: Whose) -> None:
    drop(tx, whose.subject)


@scan
def _sweep_some(tx: Tx, before: int) -> int:
    rows = tx.all(OVER, before=before)
    for row in rows:
        tx.remove(t.DEVICE, row.device_id)
    return len(rows)


def _device(row: Row) -> Device:
    return Device(
        device_id=row.device_id,
        label=row.label,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        expires_at=row.expires_at,
    )
