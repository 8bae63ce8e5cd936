"""Sessions of operators: found by the SHA-256 of their token, kept in memory, ended in the transaction that takes what they stand for."""

import re
import secrets
from hashlib import sha256

import msgspec
from sqlalchemy import func, select

from greatseal.api.audit import AuditEvent
from greatseal.api.moments import SECOND
from greatseal.api.problems import Problem
from greatseal.api.store import Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_ca_admin import tables as t
from greatseal_ca_admin.settings import AdminSettings

MOST = 1000
"""Sessions at once; one more ends the one that was used longest ago."""
TOUCH_EVERY = SECOND
"""How often the time of the last request is written."""
SWEEP = 200
_TOKEN = re.compile(r"[0-9a-f]{64}")

_BY_DIGEST = select(t.session).where(t.session.c.digest == param("digest"))
_OF_OPERATOR = select(t.session.c.digest).where(t.session.c.operator_id == param("operator_id"))
_COUNT = select(func.count().label("total")).select_from(t.session)
_OLDEST = select(t.session.c.digest).order_by(t.session.c.used_at, t.session.c.digest).limit(param("limit"))
_IDLE = select(t.session.c.digest).where(t.session.c.used_at < param("before")).limit(SWEEP)


class Locked(Problem):
    """Not now, and not for lack of a right: a session that rested too long, an operator with too many failures."""

    status, error, type = 423, "locked", "unauthorized"


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of a session signed in with: a certificate (DER), the very EAB key of an id, or the ticket of a principal."""

    certificate: bytes | None = None
    eab_kid: str | None = None
    eab_made_at: int | None = None
    gssapi_principal: str | None = None


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """A row; moments are microseconds."""

    digest: str
    operator_id: str
    proof: Proof
    used_at: int
    locked: bool


class Sessions:
    """The sessions of this service."""

    def __init__(self, host: Host) -> None:
        settings = host.settings(AdminSettings)
        self._host = host
        self._ttl = settings.session_ttl_secs * SECOND
        self._lock = settings.session_lock_secs * SECOND
        self._cache = host.changes.cache(t.SESSION.name, _load, size=MOST)

    async def of(self, token: str) -> StoredSession | None:
        """The live session of a token; using it keeps it alive. Raises Locked for one that rested too long.

        That it ended or was locked is written, so that a clock that is set back wakes none.
        """
        if not _TOKEN.fullmatch(token):
            return None
        session = await self._cache.get(digest_of(token))
        if session is None:
            return None
        now = self._host.clock.now()
        if now - session.used_at >= self._ttl:
            await self._host.db.write(self._expire, session.digest)
            return None
        if session.locked or now - session.used_at >= self._lock:
            if not session.locked:
                await self._host.db.write(self._keep_locked, session.digest)
            raise Locked("the session rested too long and is locked; sign in again")
        if not 0 <= now - session.used_at < TOUCH_EVERY and not await self._host.db.write(_touch, session.digest):
            return None
        return session

    def begin(self, tx: Tx, operator_id: str, proof: Proof) -> str:
        """Store a new session; its token, 64 hexadecimal digits."""
        row = tx.one(_COUNT)
        too_many = 0 if row is None else row.total - MOST + 1
        if too_many > 0:
            for oldest in tx.all(_OLDEST, limit=too_many):
                tx.remove(t.SESSION, oldest.digest)
        token = secrets.token_hex(32)
        shown = msgspec.structs.asdict(proof)
        tx.put(t.SESSION, digest_of(token), operator_id=operator_id, **shown, created_at=tx.now, used_at=tx.now, locked=0)
        return token

    def expires_at(self, used_at: int) -> int:
        """When a session ends that was used then and never again."""
        return used_at + self._ttl

    async def sweep(self) -> None:
        """Remove those that ended without anybody asking for them."""
        before = self._host.clock.passed() - self._ttl
        while await self._host.db.write(_sweep, before) == SWEEP:
            pass

    def _expire(self, tx: Tx, digest: str) -> None:
        session = _load(tx, digest)
        if session is not None and tx.now - session.used_at >= self._ttl:
            tx.remove(t.SESSION, digest)

    def _keep_locked(self, tx: Tx, digest: str) -> None:
        session = _load(tx, digest)
        if session is not None and tx.now - session.used_at >= self._lock:
            tx.put(t.SESSION, digest, locked=1)


def digest_of(token: str) -> str:
    """The name under which a token's session is stored."""
    return sha256(token.encode()).hexdigest()


def drop_sessions(tx: Tx, operator_id: str) -> None:
    """End every session of an operator."""
    for row in tx.all(_OF_OPERATOR, operator_id=operator_id):
        tx.remove(t.SESSION, row.digest)


def end_session(tx: Tx, digest: str, name: str, why: str | None = None) -> None:
    """End a session of the operator of that name; ``why`` where they did not ask for it."""
    if tx.remove(t.SESSION, digest):
        tx.audit(AuditEvent(event_type="admin.logout", service="ca", sub=name, detail=why))


def _load(tx: Tx, digest: str) -> StoredSession | None:
    row = tx.one(_BY_DIGEST, digest=digest)
    if row is None:
        return None
    certificate = None if row.certificate is None else bytes(row.certificate)
    proof = Proof(certificate=certificate, eab_kid=row.eab_kid, eab_made_at=row.eab_made_at, gssapi_principal=row.gssapi_principal)
    return StoredSession(digest=row.digest, operator_id=row.operator_id, proof=proof, used_at=row.used_at, locked=bool(row.locked))


def _touch(tx: Tx, digest: str) -> bool:
    """Note the use, of a session that is still there and open."""
    session = _load(tx, digest)
    if session is None or session.locked:
        return False
    if not 0 <= tx.now - session.used_at < TOUCH_EVERY:
        tx.put(t.SESSION, digest, used_at=tx.now)
    return True


@scan
def _sweep(tx: Tx, before: int) -> int:
    rows = tx.all(_IDLE, before=before)
    for row in rows:
        tx.remove(t.SESSION, row.digest)
    return len(rows)
