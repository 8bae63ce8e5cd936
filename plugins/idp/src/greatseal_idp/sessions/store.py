"""Browser sessions: found by the SHA-256 of the cookie's value, kept in memory, ended in one transaction with all that hangs on them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec
from sqlalchemy import select

from greatseal.api.audit import AuditEvent
from greatseal.api.authorization import LoginRequired
from greatseal.api.directory import DirectoryUnavailable
from greatseal.api.http import Call
from greatseal.api.identity import AccountRefused, SessionView, Upstream
from greatseal.api.moments import SECOND
from greatseal.api.store import Refuse, Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.cookie import SessionCookie, digest_of
from greatseal_idp.directories import DirectoriesImpl, PasswordChanged
from greatseal_idp.settings import SessionSettings
from greatseal_idp.token.endings import Endings
from greatseal_idp.token.revoked import Revocations

TOUCH_EVERY = 60 * SECOND
"""How often the time of the last request is written."""
KNOWN = 1_000
"""Sessions in memory, 2.5 kB each; reading one that is not costs 60 us."""
SWEEP = 500
"""Expired sessions that one transaction removes."""

BY_ID = select(t.session).where(t.session.c.id == param("id"))
BY_DIGEST = select(t.session.c.id).where(t.session.c.digest == param("digest"))
EXPIRED = select(t.session.c.id).where(t.session.c.expires_at <= param("now")).order_by(t.session.c.expires_at).limit(SWEEP)


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """A row. ``clients`` are those that got an ID token in it; moments are microseconds."""

    view: SessionView
    digest: bytes
    clients: tuple[str, ...]
    last_seen_at: int


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """What a sign-in stores. ``replaces`` is the session that the browser came with, ``password_changed_at`` that of the user.

    ``asked_at`` is from before the directory was asked: a password that was set afterwards was not the one of this sign-in.
    """

    id: str
    digest: bytes
    subject: str
    username: str
    realm: str
    groups: tuple[str, ...]
    amr: tuple[str, ...]
    acr: str | None
    remote: str
    user_agent: str | None
    upstream: Upstream | None
    replaces: str | None
    password_changed_at: int | None
    asked_at: int
    goes_on: str | None = None
    """The session in which something more was proven: without it there is nothing that this could add to."""


Tell = Callable[[Tx, StoredSession], None]
"""Has the clients of an ended session told, in the transaction that ends it."""


class SessionStore:
    """The sessions of this issuer."""

    def __init__(self, host: Host, directories: DirectoriesImpl, endings: Endings, revocations: Revocations, tell: Tell) -> None:
        self._host = host
        self._directories = directories
        self._endings = endings
        self._revocations = revocations
        self._tell = tell
        self._ttl = host.settings(SessionSettings).ttl * SECOND
        self._idle_ttl = host.settings(SessionSettings).idle_ttl * SECOND
        self._cookie = SessionCookie(host)
        self._cache = host.changes.cache(t.SESSION.name, _load, size=KNOWN)
        self._ids: OrderedDict[bytes, str] = OrderedDict()

    async def usable(self, call: Call) -> StoredSession | None:
        """As :meth:`of`, for all but leaving. Raises AccountRefused where the account of its person may not be used."""
        session, refused = await self._found(call)
        if refused is not None:
            raise refused
        return session

    async def of(self, call: Call) -> StoredSession | None:
        """The live session of the call's cookie. Using it keeps it from ending idle; a password that was set after its sign-in ends it."""
        return (await self._found(call))[0]

    async def _found(self, call: Call) -> tuple[StoredSession | None, AccountRefused | None]:
        """The live session, and why its person may not use it."""
        value = self._cookie.value(call)
        if value is None:
            return None, None
        digest = digest_of(value)
        id = self._ids.get(digest) or await self._host.db.read(_find, digest)
        session = await self._cache.get(id) if id is not None else None
        if id is None or session is None or session.digest != digest:
            self._ids.pop(digest, None)
            return None, None
        self._remember(digest, id)
        now = self._host.clock.now()
        if not self._alive(session, now):
            # Removed now, so that a clock that is set back cannot wake it up again.
            await self._host.db.write(self._expire, id)
            return None, None
        refused = await self._refusal(session)
        if isinstance(refused, PasswordChanged):
            await self._host.db.write(self._end_superseded, session)
            return None, None
        if is_stale(session.last_seen_at, now):
            await self._host.db.write(_touch, id)
        return session, refused

    async def get(self, id: str) -> StoredSession | None:
        """The live session of an id."""
        session = await self._cache.get(id)
        return session if session is not None and self._alive(session, self._host.clock.now()) else None

    def begin(self, tx: Tx, new: NewSession) -> StoredSession:
        """Store a session; the cookie that the browser came with is worthless after it (fixation).

        The same person signing in again keeps the session's id, so that clients still know it: a new value, time and method. Somebody
        else's session ends.
        """
        before = _load(tx, new.replaces) if new.replaces is not None else None
        same = before is not None and before.view.subject == new.subject
        if new.goes_on is not None and not (same and new.goes_on == new.replaces):
            raise Refuse(LoginRequired("the session has ended; sign in again"))
        if before is not None and not same:
            self.end(tx, before.view.id, event_type="logout")
        id = before.view.id if before is not None and same else new.id
        clients = before.clients if before is not None and same else ()
        fields = msgspec.structs.asdict(new)
        for name in ("id", "replaces", "password_changed_at", "asked_at", "goes_on"):
            del fields[name]
        tx.put(
            t.SESSION,
            id,
            **{
                **fields,
                "groups": _encode(new.groups),
                "amr": _encode(new.amr),
                "upstream": _encode(new.upstream) if new.upstream is not None else None,
            },
            clients=_encode(clients),
            # The directory's clock may be a little ahead; whoever has just set the password is not signed out by that.
            auth_time=max(min(new.asked_at, tx.now, _proven_at(new)), new.password_changed_at or 0),
            created_at=tx.now,
            last_seen_at=tx.now,
            expires_at=tx.now + self._ttl,
        )
        stored = _load(tx, id)
        assert stored is not None  # it was just written
        return stored

    def end(self, tx: Tx, id: str, *, event_type: str, by: str | None = None) -> StoredSession | None:
        """End a session: its refresh families without offline_access, its access tokens, and word to its clients. None if there is none."""
        session = self._close(tx, id)
        if session is not None:
            self._tell(tx, session)
            tx.audit(AuditEvent(event_type=event_type, service="idp", sub=session.view.subject, principal=by, detail=f"sid={id}"))
        return session

    async def sweep(self) -> None:
        """Remove sessions whose time is over."""
        while await self._host.db.write(self._sweep_some) == SWEEP:
            pass

    @scan
    def _sweep_some(self, tx: Tx) -> int:
        rows = tx.all(EXPIRED, now=tx.now)
        for row in rows:
            self._close(tx, row.id)
        return len(rows)

    async def _refusal(self, session: StoredSession) -> AccountRefused | None:
        """Why the account may not be used; PasswordChanged where a password was set after the sign-in.

        A directory that is down ends nothing here: whatever a session is good for asks it once more, and a sign-out needs none.
        """
        try:
            await self._directories.account(session.view.subject, auth_time=session.view.auth_time)
        except AccountRefused as refused:
            return refused
        except DirectoryUnavailable:
            return None
        return None

    def _end_superseded(self, tx: Tx, found: StoredSession) -> None:
        session = _load(tx, found.view.id)
        # The person may have signed in again meanwhile, which keeps the id.
        if session is not None and session.view.signed_in_at == found.view.signed_in_at:
            self.end(tx, session.view.id, event_type="session_revoked")

    def _expire(self, tx: Tx, id: str) -> None:
        session = _load(tx, id)
        if session is not None and not self._alive(session, tx.now):
            self._close(tx, id)

    def _close(self, tx: Tx, id: str) -> StoredSession | None:
        session = _load(tx, id)
        if session is None:
            return None
        tx.remove(t.SESSION, id)
        self._endings.begin(tx, "session", session_id=id)
        if session.clients:
            self._revocations.revoke(tx, "session", id)
        return session

    def _alive(self, session: StoredSession, now: int) -> bool:
        return now < session.view.expires_at and now - session.last_seen_at < self._idle_ttl

    def _remember(self, digest: bytes, id: str) -> None:
        self._ids[digest] = id
        self._ids.move_to_end(digest)
        if len(self._ids) > KNOWN:
            self._ids.popitem(last=False)


def _proven_at(new: NewSession) -> int:
    """When the person was proven, as far as it is known."""
    return new.asked_at if new.upstream is None or new.upstream.proven_at is None else new.upstream.proven_at


def is_stale(last_seen_at: int, now: int) -> bool:
    """Whether the time of the last request is to be written; also one that lies ahead, or the session would end idle too late."""
    return not 0 <= now - last_seen_at < TOUCH_EVERY


def _find(tx: Tx, digest: bytes) -> str | None:
    row = tx.one(BY_DIGEST, digest=digest)
    return row.id if row is not None else None


def _touch(tx: Tx, id: str) -> None:
    row = tx.one(BY_ID, id=id)
    if row is not None and is_stale(row.last_seen_at, tx.now):
        tx.put(t.SESSION, id, last_seen_at=tx.now)


def _load(tx: Tx, id: str) -> StoredSession | None:
    row = tx.one(BY_ID, id=id)
    return _of(row) if row is not None else None


def _of(row: Row) -> StoredSession:
    view = SessionView(
        id=row.id,
        subject=row.subject,
        username=row.username,
        realm=row.realm,
        groups=tuple(msgspec.json.decode(row.groups)),
        amr=tuple(msgspec.json.decode(row.amr)),
        acr=row.acr,
        auth_time=row.auth_time,
        expires_at=row.expires_at,
        upstream=msgspec.json.decode(row.upstream, type=Upstream) if row.upstream is not None else None,
        signed_in_at=row.created_at,
    )
    return StoredSession(view=view, digest=row.digest, clients=tuple(msgspec.json.decode(row.clients)), last_seen_at=row.last_seen_at)


def _encode(value: Sequence[str] | Upstream) -> str:
    return msgspec.json.encode(value).decode()
