"""Refresh token families (RFC 9700 s4.14.2): one row each, one current generation, and a replay ends the family."""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import select, update

from greatseal.api.moments import SECOND
from greatseal.api.store import Row, Tx
from greatseal.api.tokens import Authentication, Family, Granted
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.jose.compact import b64url_encode
from greatseal_idp import tables as t
from greatseal_idp.settings import TokenSettings
from greatseal_idp.token.endings import IS_OVER, OFFLINE, Endings
from greatseal_idp.token.refresh_tokens import RefreshToken, RefreshTokens
from greatseal_idp.token.revoked import Revocations

GRANTS = 5_000
"""Families whose unchanging part is remembered: about 1 kB each."""

_NEW = t.family.insert().values({column.name: param(column.name) for column in t.family.columns})
_BY_ID = select(t.family, IS_OVER.label("over")).where(t.family.c.id == param("family"))
_ROTATE = (
    update(t.family)
    .where(
        t.family.c.id == param("family"),
        t.family.c.client_id == param("owner"),
        t.family.c.generation == param("presented"),
        t.family.c.revoked_at.is_(None),
        t.family.c.idle_expires_at > param("moment"),
        t.family.c.expires_at > param("moment"),
        ~IS_OVER,
    )
    .values(generation=param("next"), rotated_at=param("moment"), idle_expires_at=param("idle_end"))
)


class Held(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a family keeps of the grant beside the columns: what the tokens of a refresh need.

    ``bound`` are the keys that every refresh must prove, ``more`` what extensions kept of the authorization.
    """

    authentication: Authentication | None = None
    audiences: tuple[str, ...] = ()
    implied: tuple[str, ...] = ()
    bound: Mapping[str, str] = {}
    more: Mapping[str, Any] | None = {}
    claims: Mapping[str, Any] = {}
    id_token_claims: Mapping[str, Any] | None = None
    """None when no ID token was ordered."""


class FamilyGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What never changes of a family. Moments are microseconds."""

    id: str
    client_id: str
    subject: str
    session_id: str | None
    origin: bytes | None
    scopes: tuple[str, ...]
    held: Held
    created_at: int
    expires_at: int

    @property
    def is_offline(self) -> bool:
        """Whether it outlives its session."""
        return OFFLINE in self.scopes


class FamilyRecord(FamilyGrant, frozen=True, kw_only=True):
    """A family as it is stored now. ``ends_at`` is the earlier of its two ends."""

    generation: int
    rotated_at: int
    ends_at: int
    revoked: bool

    def is_live(self, now: int) -> bool:
        """Neither revoked nor expired."""
        return not self.revoked and now < self.ends_at


class FamiliesImpl:
    """The families of this node (service ``FAMILIES``)."""

    def __init__(self, host: Host, revocations: Revocations, endings: Endings) -> None:
        settings = host.settings(TokenSettings)
        self._host = host
        self._endings = endings
        self._revocations = revocations
        self._tokens = RefreshTokens(host)
        self._grants = host.changes.cache(t.family.name, _grant, size=GRANTS)
        self._idle = settings.refresh_idle_ttl * SECOND
        self._absolute = settings.refresh_absolute_ttl * SECOND
        self._grace = settings.refresh_grace_seconds * SECOND

    def open(self, tx: Tx, granted: Granted) -> Family:
        id = self._host.handles.new_id()
        expires_at = tx.now + self._absolute
        session_id = granted.authentication.session_id if granted.authentication else None
        held = Held(
            authentication=granted.authentication,
            audiences=granted.audiences,
            implied=granted.implied,
            bound=granted.bound,
            more=granted.more,
            claims=granted.claims,
            id_token_claims=granted.id_token.claims if granted.id_token else None,
        )
        tx.run(
            _NEW,
            id=id,
            client_id=granted.client_id,
            subject=granted.subject,
            session_id=session_id,
            origin=granted.origin,
            scopes=msgspec.json.encode(granted.scopes).decode(),
            granted=msgspec.json.encode(held).decode(),
            generation=1,
            rotated_at=tx.now,
            created_at=tx.now,
            idle_expires_at=min(tx.now + self._idle, expires_at),
            expires_at=expires_at,
            revoked_at=None,
        )
        return Family(id=id, refresh_token=self._tokens.write(tx, id, 1))

    async def read(self, token: str) -> RefreshToken | None:
        """What the text of a refresh token says, None when it is none of ours."""
        return await self._tokens.read(token)

    async def granted(self, id: str) -> FamilyGrant | None:
        """What a family was opened for, from memory; None when there is none or it is known to be revoked."""
        await self._revocations.load()
        if self._revocations.any((f"family {id}",)):
            return None
        grant = await self._grants.get(id)
        return None if grant is not None and self._endings.pending and self._endings.cover_family(grant) else grant

    def find(self, tx: Tx, id: str) -> FamilyRecord | None:
        """The family as it is now."""
        row = tx.one(_BY_ID, family=id)
        return None if row is None else _record(row)

    def rotate(self, tx: Tx, token: RefreshToken, family: FamilyGrant, *, advance: bool = True) -> Family | None:
        """Make the successor of the current token current, or without ``advance`` keep it, for longer.

        None when ``token`` is not the current one of a live family.
        """
        following = token.generation + advance
        rotated = tx.count(
            _ROTATE,
            family=family.id,
            owner=family.client_id,
            presented=token.generation,
            next=following,
            moment=tx.now,
            idle_end=min(tx.now + self._idle, family.expires_at),
        )
        if not rotated:
            return None
        return Family(id=token.family, refresh_token=self._tokens.write(tx, token.family, following))

    def repeated(self, tx: Tx, token: RefreshToken) -> Family | None:
        """The successor once more, for a retry of the token before the current one within the grace; None when it is none."""
        record = self.find(tx, token.family)
        if record is None or not record.is_live(tx.now) or not self._is_retry(record, token, tx.now):
            return None
        return Family(id=record.id, refresh_token=self._tokens.write(tx, record.id, record.generation))

    def is_replay(self, tx: Tx, token: RefreshToken) -> bool:
        """Whether the token of a family was superseded, and is no retry. An expired family counts: the clock may be set back."""
        record = self.find(tx, token.family)
        if record is None or record.revoked:
            return False
        return token.generation != record.generation and not self._is_retry(record, token, tx.now)

    def _is_retry(self, record: FamilyRecord, token: RefreshToken, now: int) -> bool:
        return token.generation + 1 == record.generation and 0 <= now - record.rotated_at < self._grace

    def revoke(self, tx: Tx, id: str, *, event_type: str, by: str | None = None) -> bool:
        return self._endings.end_family(tx, id, event_type=event_type, by=by)

    def revoke_of(self, tx: Tx, *, subject: str | None = None, client_id: str | None = None, session_id: str | None = None) -> None:
        if subject is None and client_id is None and session_id is None:
            raise TypeError("revoke_of takes at least one of subject, client_id and session_id")
        self._endings.begin(tx, "families", subject=subject, client_id=client_id, session_id=session_id)

    def revoke_origin(self, tx: Tx, origin: bytes) -> None:
        """End all that was issued under an origin, access tokens without a family too."""
        self._revocations.revoke(tx, "origin", b64url_encode(origin))
        self._endings.begin(tx, "origin", origin=origin)


_HELD = msgspec.json.Decoder(Held)
_UNCHANGING = FamilyGrant.__struct_fields__


def _grant(tx: Tx, id: str) -> FamilyGrant | None:
    row = tx.one(_BY_ID, family=id)
    if row is None:
        return None
    record = _record(row)
    return FamilyGrant(**{name: getattr(record, name) for name in _UNCHANGING})


def _record(row: Row) -> FamilyRecord:
    return FamilyRecord(
        id=row.id,
        client_id=row.client_id,
        subject=row.subject,
        session_id=row.session_id,
        origin=None if row.origin is None else bytes(row.origin),
        scopes=tuple(msgspec.json.decode(row.scopes)),
        held=_HELD.decode(row.granted),
        generation=row.generation,
        rotated_at=row.rotated_at,
        created_at=row.created_at,
        ends_at=min(row.idle_expires_at, row.expires_at),
        expires_at=row.expires_at,
        revoked=row.revoked_at is not None or bool(row.over),
    )
