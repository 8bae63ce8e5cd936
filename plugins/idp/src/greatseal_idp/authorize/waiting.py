"""Authorization requests that wait: pushed ones (RFC 9126), those before a sign-in, and those before a consent.

Each is a row under the digest of a handle; the three kinds of handle are never taken for one another. A row is used up by the guarded
UPDATE in the transaction that issues the code.
"""

from functools import partial
from hashlib import sha256

import msgspec
from sqlalchemy import delete, insert, select, update

from greatseal.api.identity import SessionView
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest
from greatseal.api.store import Refuse, Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.authorize.request import AuthorizationRequest
from greatseal_idp.settings import TokenSettings

PUSHED, SIGN_IN, CONSENT = "ru", "si", "co"
"""The kinds of handles."""
SIGN_IN_TTL = 3600 * SECOND
"""How long a request waits for the person to sign in."""
KEPT = 2 * SIGN_IN_TTL
"""A pushed request is used up when the code is issued, which may be long after it was presented in time."""
SWEPT = 500
"""How many rows one transaction deletes: others wait for it."""
URN = "urn:ietf:params:oauth:request_uri:"

_NEW = insert(t.authorization).values({column.name: param(column.name) for column in t.authorization.columns})
_BY_DIGEST = select(t.authorization).where(t.authorization.c.digest == param("handle"))
_LATEST_OF = (
    select(t.authorization)
    .where(
        t.authorization.c.session_id == param("session"), t.authorization.c.used_at.is_(None), t.authorization.c.expires_at > param("after")
    )
    .order_by(t.authorization.c.created_at.desc())
    .limit(1)
)
_CONSUME = (
    update(t.authorization)
    .where(t.authorization.c.digest == param("handle"), t.authorization.c.used_at.is_(None))
    .values(used_at=param("moment"))
)
_OLD = select(t.authorization.c.digest).where(t.authorization.c.expires_at <= param("before")).limit(SWEPT)
_SWEEP = delete(t.authorization).where(t.authorization.c.digest.in_(_OLD))


class InvalidRequestUri(BadRequest):
    """The request_uri is unknown, expired, used or another client's (OpenID Connect Core s3.1.2.6)."""

    error = "invalid_request_uri"


class Spent(InvalidRequestUri):
    """The request has had its answer. Shown here: an answer of it is at the client already."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request with what it came from: the digests (hex) of rows that the code uses up.

    ``before`` is the sign-in that was there when it began to wait for another, "" for none. None: it does not, or nobody knows.
    """

    request: AuthorizationRequest
    uses: tuple[str, ...] = ()
    before: str | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is neither used nor too old. Moments are microseconds."""

    digest: str
    client_id: str
    session_id: str | None
    subject: str | None
    kept: Kept
    created_at: int
    expires_at: int

    @property
    def resumed(self) -> Kept:
        """The request, which uses up this row too."""
        return msgspec.structs.replace(self.kept, uses=(*self.kept.uses, self.digest))


class WaitingRequests:
    """The requests of this node that wait."""

    def __init__(self, host: Host) -> None:
        self._host = host
        settings = host.settings(TokenSettings)
        self.pushed_seconds = settings.par_ttl
        self._ttl = {PUSHED: settings.par_ttl * SECOND, SIGN_IN: SIGN_IN_TTL, CONSENT: settings.consent_ttl * SECOND}

    async def keep(self, kind: str, kept: Kept, session: SessionView | None = None, *, until: int | None = None) -> str:
        """Store a request, ``until`` a moment or for the time of its kind; the handle under which it is found."""
        handle = self._host.handles.mint(kind)
        await self._host.db.write(partial(self._insert, until=until), kind, handle, kept, session)
        return handle

    async def find(self, kind: str, handle: str) -> Waiting | None:
        """The waiting request of a handle, None when it is unknown, used or too old."""
        if self._host.handles.node_of(handle, kind) is None:
            return None
        return await self._host.db.read(self._find, handle)

    async def latest_consent(self, session_id: str) -> Waiting | None:
        """The newest request that waits for the consent of a session."""
        return await self._host.db.read(self._latest, session_id)

    async def sweep(self) -> None:
        """Delete what nobody will ask for again."""
        before = self._host.clock.passed() - KEPT
        while await self._host.db.write(_sweep, before) == SWEPT:
            pass

    def _insert(self, tx: Tx, kind: str, handle: str, kept: Kept, session: SessionView | None, *, until: int | None) -> None:
        tx.run(
            _NEW,
            digest=sha256(handle.encode()).digest(),
            kind="pushed" if kind == PUSHED else "pending",
            client_id=kept.request.to.client_id,
            session_id=session and session.id,
            subject=session and session.subject,
            parameters=msgspec.json.encode(kept).decode(),
            created_at=tx.now,
            expires_at=until or tx.now + self._ttl[kind],
            used_at=None,
        )

    def _find(self, tx: Tx, handle: str) -> Waiting | None:
        row = tx.one(_BY_DIGEST, handle=sha256(handle.encode()).digest())
        return _waiting(row) if row is not None and row.used_at is None and row.expires_at > tx.now else None

    def _latest(self, tx: Tx, session_id: str) -> Waiting | None:
        row = tx.one(_LATEST_OF, session=session_id, after=tx.now)
        return _waiting(row) if row is not None else None


def use_up(tx: Tx, digests: tuple[str, ...]) -> None:
    """Use up the rows that led to an answer. Raises Refuse with :class:`Spent` when one of them was used before.

    Whether they were in time was decided when they were shown: a pushed request may expire while the person signs in.
    """
    for digest in digests:
        if tx.count(_CONSUME, handle=bytes.fromhex(digest), moment=tx.now) != 1:
            raise Refuse(Spent("this request was answered before; start again at the application"))


def _waiting(row: Row) -> Waiting:
    return Waiting(
        digest=bytes(row.digest).hex(),
        client_id=row.client_id,
        session_id=row.session_id,
        subject=row.subject,
        kept=msgspec.json.decode(row.parameters, type=Kept),
        created_at=row.created_at,
        expires_at=row.expires_at,
    )


@scan
def _sweep(tx: Tx, before: int) -> int:
    return tx.count(_SWEEP, before=before)
