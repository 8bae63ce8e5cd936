"""What ends with a client, a consent, a session or a code: over with one row, however many rows have to follow it.

The row of an ending commits with what caused it. From then on nothing of it is good, on this node at once and after a restart too; its
families, consents and codes are marked afterwards, in bites, so that nobody waits for them. An ending of a single bite leaves no row.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Protocol

import msgspec
from sqlalchemy import delete, exists, insert, or_, select, tuple_, update

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.store import Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.jose.compact import b64url_encode
from greatseal_idp import tables as t
from greatseal_idp.token.revoked import Revocations

Kind = Literal["client", "consent", "session", "origin", "families"]
Step = Literal["families", "consents", "codes"]

BITE = 100
"""Rows that one transaction looks at: about 3 ms on SQLite."""

OFFLINE = "offline_access"
"""A family with this scope outlives its session (OpenID Connect Core s11)."""

_STEPS: Mapping[Kind, tuple[Step, ...]] = {
    "client": ("families", "consents", "codes"),
    "consent": ("families", "codes"),
    "session": ("families",),
    "origin": ("families",),
    "families": ("families",),
}
_WHOLE: frozenset[Kind] = frozenset({"client", "consent"})
"""With these end codes, consents and the tokens without a family too."""
_FOR_GOOD: frozenset[Kind] = frozenset({"client", "session", "origin"})
"""Nothing of these can be granted afterwards, so that nothing is compared with a clock that was set meanwhile."""
_EVER = (1 << 63) - 1
_NAMED = ("origin", "session_id", "subject", "client_id")
"""By what families are found: the first that an ending names."""

_IS_OFFLINE = t.family.c.scopes.contains(f'"{OFFLINE}"', autoescape=True)
_NEW = insert(t.ending).values({column.name: param(column.name) for column in t.ending.columns})
_ALL = select(t.ending).order_by(t.ending.c.id)
_REACHED = update(t.ending).where(t.ending.c.id == param("ending")).values(step=param("new_step"), reached=param("new_reached"))
_OVER = delete(t.ending).where(t.ending.c.id == param("ending"))

_FAMILIES = {
    name: select(t.family, _IS_OFFLINE.label("is_offline"))
    .where(
        t.family.c[name] == param("whose"),
        t.family.c.revoked_at.is_(None),
        tuple_(t.family.c.expires_at, t.family.c.id) > tuple_(param("moment"), param("last")),
    )
    .order_by(t.family.c.expires_at, t.family.c.id)
    .limit(BITE)
    for name in _NAMED
}
_END_FAMILY = (
    update(t.family)
    .where(t.family.c.id == param("family"), t.family.c.revoked_at.is_(None))
    .values(revoked_at=param("moment"))
    .returning(t.family.c.id, t.family.c.subject, t.family.c.client_id, t.family.c.rotated_at)
)
_CONSENTS = (
    select(t.consent.c.id)
    .where(t.consent.c.client_id == param("whose"), t.consent.c.id > param("after"))
    .order_by(t.consent.c.id)
    .limit(BITE)
)
# An index here would cost every sign-in something: a reader looks through the codes of the last hour, and no writer waits for it.
_CODES = (
    select(t.code.c.digest, t.code.c.client_id, t.code.c.subject, t.code.c.created_at)
    .where(t.code.c.digest > param("after"), t.code.c.client_id == param("client"))
    .order_by(t.code.c.digest)
    .limit(BITE)
)
_USE_UP = update(t.code).where(t.code.c.digest == param("code"), t.code.c.used_at.is_(None)).values(used_at=param("moment"))

IS_OVER = exists().where(
    *(or_(t.ending.c[name].is_(None), t.ending.c[name] == t.family.c[name]) for name in _NAMED),
    t.ending.c.up_to >= t.family.c.created_at,
    or_(t.ending.c.kind != "session", ~_IS_OFFLINE),
)
"""Of a row of ``idp_family``: an ending covers it, whether or not the row says so by now."""


CODE_IS_OVER = exists().where(
    or_(t.ending.c.kind == "client", t.ending.c.kind == "consent"),
    *(or_(t.ending.c[name].is_(None), t.ending.c[name] == t.code.c[name]) for name in ("client_id", "subject")),
    t.ending.c.up_to >= t.code.c.created_at,
)
"""Of a row of ``idp_code``: as :data:`IS_OVER`."""


class OfFamily(Protocol):
    """What tells whether a family is over: its row or its grant."""

    @property
    def client_id(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def session_id(self) -> str | None: ...
    @property
    def origin(self) -> bytes | None: ...
    @property
    def is_offline(self) -> bool: ...
    @property
    def created_at(self) -> int: ...


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What is over: all of it that was granted until ``up_to``, microseconds. A name that is None stands for every one."""

    id: str
    kind: Kind
    up_to: int
    client_id: str | None = None
    subject: str | None = None
    session_id: str | None = None
    origin: bytes | None = None

    def covers(self, client_id: str, subject: str, since: int) -> bool:
        """Whether it ends what a client got of a person at ``since``, as far as session and code do not matter."""
        return since <= self.up_to and self.client_id in {None, client_id} and self.subject in {None, subject}

    def covers_family(self, family: OfFamily | Row) -> bool:
        """Whether it ends a family."""
        return (
            self.covers(family.client_id, family.subject, family.created_at)
            and self.session_id in {None, family.session_id}
            and self.origin in {None, family.origin}
            and not (self.kind == "session" and family.is_offline)
        )


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """How far an ending was followed: the step, and the key of the last row that was looked at in it."""

    step: int = 0
    reached: str = ""


class Endings:
    """The endings of this node, and the job that follows them."""

    def __init__(self, host: Host, revocations: Revocations) -> None:
        self._host = host
        self._revocations = revocations
        self._working = asyncio.Lock()
        self.pending: dict[str, Ending] = {}
        """Those whose rows do not all say so yet: none, most of the time."""
        self._bites: Mapping[Step, Callable[[Tx, Ending, str], str | None]] = {"families": self._families, "consents": self._consents}

    async def open(self) -> None:
        """At the start: what a stop left behind is as much over as before."""
        self.pending |= {ending.id: ending for ending, _ in await self._host.db.read(_stored)}

    def begin(
        self,
        tx: Tx,
        kind: Kind,
        *,
        client_id: str | None = None,
        subject: str | None = None,
        session_id: str | None = None,
        origin: bytes | None = None,
    ) -> None:
        """End all that was granted until now to what is named, in the transaction of what caused it."""
        ending = Ending(
            id=self._host.handles.new_id(),
            kind=kind,
            up_to=_EVER if kind in _FOR_GOOD else tx.now,
            client_id=client_id,
            subject=subject,
            session_id=session_id,
            origin=origin,
        )
        # What is there now was granted before, whatever the clock said then.
        place = self._bite(tx, msgspec.structs.replace(ending, up_to=_EVER), Place())
        if place is not None:
            tx.run(_NEW, **msgspec.structs.asdict(ending), **msgspec.structs.asdict(place))
            tx.after_commit(partial(self._begun, ending))

    def cover_family(self, family: OfFamily) -> bool:
        """Whether a family is over."""
        return any(one.covers_family(family) for one in self.pending.values())

    def cover(self, client_id: str, subject: str, since: int) -> bool:
        """Whether a code or consent that was made at ``since`` is over."""
        return any(one.kind in _WHOLE and one.covers(client_id, subject, since) for one in self.pending.values())

    def cover_token(self, claims: Mapping[str, Any]) -> bool:
        """Whether an access token is over. What of it hangs on a session or a code alone is in the revoked set."""
        since = claims["iat"] * 1_000_000
        return any(
            (one.kind in _WHOLE or (one.kind == "families" and "family" in claims and one.session_id in {None, claims.get("sid")}))
            and one.covers(claims["client_id"], claims["sub"], since)
            for one in self.pending.values()
        )

    async def carry_on(self) -> None:
        """Follow all endings: after each, and in a job for what a crash left behind. Others write between the bites."""
        async with self._working:
            for ending, stored in await self._host.db.read(_stored):
                place: Place | None = stored
                while place is not None:
                    if _STEPS[ending.kind][place.step] == "codes":
                        place = await self._host.db.write(self._follow, ending, *await self._host.db.read(_codes, ending, place))
                    else:
                        place = await self._host.db.write(self._follow, ending, place)
                    faults.point("idp.ending.followed")

    def end_family(self, tx: Tx, id: str, *, event_type: str, by: str | None = None, listed: bool = True) -> bool:
        """End one family and its access tokens, unless these are revoked already; False when it was not active."""
        row = tx.one(_END_FAMILY, family=id, moment=tx.now)
        if row is None:
            return False
        if listed:
            self._revocations.revoke(tx, "family", row.id, issued_at=row.rotated_at)
        outcome = "failure" if event_type == "refresh_replay" else "success"
        tx.audit(
            AuditEvent(
                event_type=event_type,
                service="idp",
                outcome=outcome,
                sub=row.subject,
                client_id=row.client_id,
                principal=by,
                detail=f"family {row.id}",
            )
        )
        return True

    @scan
    def _follow(self, tx: Tx, ending: Ending, place: Place | None, codes: Sequence[bytes] = ()) -> Place | None:
        """One bite; where the next one begins, None when it was the last. ``codes`` were found before, up to ``place``."""
        for code in codes:
            tx.run(_USE_UP, code=code, moment=tx.now)
            if ending.kind == "consent":
                self._revocations.revoke(tx, "origin", b64url_encode(code))
        if place is not None:
            place = self._bite(tx, ending, place)
        if place is None:
            tx.run(_OVER, ending=ending.id)
            tx.after_commit(partial(self.pending.pop, ending.id, None))
        else:
            tx.run(_REACHED, ending=ending.id, new_step=place.step, new_reached=place.reached)
        return place

    def _bite(self, tx: Tx, ending: Ending, place: Place) -> Place | None:
        """At most a bite of each step, as far as they are found by an index; where to go on, None when nothing is left."""
        steps = _STEPS[ending.kind]
        while steps[place.step] != "codes":
            reached = self._bites[steps[place.step]](tx, ending, place.reached)
            after = _after(ending, place, reached)
            if after is None or reached is not None:
                return after
            place = after
        return place

    def _families(self, tx: Tx, ending: Ending, reached: str) -> str | None:
        named = next(name for name in _NAMED if getattr(ending, name) is not None)
        moment, _, last = reached.partition(" ")
        rows = tx.all(_FAMILIES[named], whose=getattr(ending, named), moment=int(moment or 0), last=last)
        for row in rows:
            if ending.covers_family(row):
                # The tokens of a deleted client are refused by its own row of the revoked set.
                self.end_family(tx, row.id, event_type="refresh_family_revoked", listed=ending.kind != "client")
        return f"{rows[-1].expires_at} {rows[-1].id}" if len(rows) == BITE else None

    def _consents(self, tx: Tx, ending: Ending, reached: str) -> str | None:
        rows = tx.all(_CONSENTS, whose=ending.client_id, after=reached)
        for row in rows:
            tx.remove(t.CONSENT, row.id)
        return str(rows[-1].id) if len(rows) == BITE else None

    def _begun(self, ending: Ending) -> None:
        self.pending[ending.id] = ending
        self._host.spawn(f"follow the end of a {ending.kind}", self.carry_on())


def _after(ending: Ending, place: Place, reached: str | None) -> Place | None:
    """The rest of the step, else the next step, else None."""
    if reached is not None:
        return Place(step=place.step, reached=reached)
    return Place(step=place.step + 1) if place.step + 1 < len(_STEPS[ending.kind]) else None


@scan
def _stored(tx: Tx) -> list[tuple[Ending, Place]]:
    return [
        (
            Ending(
                id=row.id,
                kind=row.kind,
                up_to=row.up_to,
                client_id=row.client_id,
                subject=row.subject,
                session_id=row.session_id,
                origin=None if row.origin is None else bytes(row.origin),
            ),
            Place(step=row.step, reached=row.reached),
        )
        for row in tx.all(_ALL)
    ]


@scan
def _codes(tx: Tx, ending: Ending, place: Place) -> tuple[Place | None, list[bytes]]:
    """The next codes of an ending, and the place behind them."""
    rows = tx.all(_CODES, after=bytes.fromhex(place.reached), client=ending.client_id)
    codes = [bytes(row.digest) for row in rows if ending.covers(row.client_id, row.subject, row.created_at)]
    return _after(ending, place, bytes(rows[-1].digest).hex() if len(rows) == BITE else None), codes
