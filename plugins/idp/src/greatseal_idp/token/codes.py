"""Authorization codes (RFC 6749 s4.1.2): a digest at rest, one use, a short life."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec
from sqlalchemy import select, update

from greatseal.api.store import Row, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.settings import TokenSettings
from greatseal_idp.token.endings import CODE_IS_OVER

KIND = "ac"

_NEW = t.code.insert().values({column.name: param(column.name) for column in t.code.columns})
_BY_DIGEST = select(t.code).where(t.code.c.digest == param("code"))
_CONSUME = (
    update(t.code)
    .where(t.code.c.digest == param("code"), t.code.c.used_at.is_(None), t.code.c.expires_at > param("moment"), ~CODE_IS_OVER)
    .values(used_at=param("moment"))
    .returning(*t.code.columns)
)
_CLIENTS_OF = select(t.session.c.clients).where(t.session.c.id == param("session"))


class CodeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a code stands for. ``claims`` is the claims parameter (OpenID Connect Core s5.5), ``implied`` the scopes allowed for it alone.

    ``auth_time`` is microseconds; ``more`` is what extensions keep of the authorization, by name.
    """

    client_id: str
    redirect_uri: str
    subject: str
    scopes: tuple[str, ...]
    auth_time: int
    amr: tuple[str, ...] = ()
    acr: str | None = None
    session_id: str | None = None
    code_challenge: str | None = None
    nonce: str | None = None
    implied: tuple[str, ...] = ()
    claims: Mapping[str, Any] | None = None
    more: Mapping[str, Any] = {}


class CodeRecord(CodeOrder, frozen=True, kw_only=True):
    """A code as it is stored."""

    digest: bytes
    created_at: int
    expires_at: int
    used: bool


class Codes:
    """The codes of this node."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._ttl = host.settings(TokenSettings).code_ttl * 1_000_000

    def issue(self, tx: Tx, order: CodeOrder) -> str:
        """A new code for ``order``."""
        code = self._host.handles.mint(KIND)
        self.keep(tx, digest_of(code), order, until=tx.now + self._ttl)
        return code

    def keep(self, tx: Tx, digest: bytes, order: CodeOrder, *, until: int) -> None:
        """Store ``order`` under a digest, ``until`` a moment in microseconds."""
        tx.run(
            _NEW,
            digest=digest,
            client_id=order.client_id,
            redirect_uri=order.redirect_uri,
            code_challenge=order.code_challenge,
            subject=order.subject,
            session_id=order.session_id,
            scopes=_json(order.scopes),
            implied=_json(order.implied) if order.implied else None,
            nonce=order.nonce,
            claims=None if order.claims is None else _json(order.claims),
            more=_json(order.more) if order.more else None,
            auth_time=order.auth_time,
            amr=_json(order.amr),
            acr=order.acr,
            created_at=tx.now,
            expires_at=until,
            used_at=None,
        )

    def find(self, tx: Tx, digest: bytes) -> CodeRecord | None:
        """The code of that digest, used or not."""
        row = tx.one(_BY_DIGEST, code=digest)
        return None if row is None else _record(row)

    def consume(self, tx: Tx, digest: bytes) -> CodeRecord | None:
        """Use the code up; None when it is unknown, expired, used or over."""
        row = tx.one(_CONSUME, code=digest, moment=tx.now)
        return None if row is None else _record(row)


def digest_of(code: str) -> bytes:
    """What is stored of a code; also the origin of all that it gives."""
    return sha256(code.encode()).digest()


def note_client(tx: Tx, session_id: str, client_id: str) -> bool:
    """Remember in the session that the client has tokens of it: its logout is told to the client. False when it has ended."""
    row = tx.one(_CLIENTS_OF, session=session_id)
    if row is None:
        return False
    clients: list[str] = msgspec.json.decode(row.clients)
    if client_id not in clients:
        tx.put(t.SESSION, session_id, clients=_json([*clients, client_id]))
    return True


def _record(row: Row) -> CodeRecord:
    return CodeRecord(
        client_id=row.client_id,
        redirect_uri=row.redirect_uri,
        subject=row.subject,
        scopes=tuple(msgspec.json.decode(row.scopes)),
        implied=() if row.implied is None else tuple(msgspec.json.decode(row.implied)),
        auth_time=row.auth_time,
        amr=tuple(msgspec.json.decode(row.amr)),
        acr=row.acr,
        session_id=row.session_id,
        code_challenge=row.code_challenge,
        nonce=row.nonce,
        claims=None if row.claims is None else msgspec.json.decode(row.claims),
        more={} if row.more is None else msgspec.json.decode(row.more),
        digest=bytes(row.digest),
        created_at=row.created_at,
        expires_at=row.expires_at,
        used=row.used_at is not None,
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
