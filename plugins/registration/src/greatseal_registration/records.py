"""The rows of clients that registered themselves: their number is bounded, and their access token is good for one change."""

import hmac
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from sqlalchemy import delete, func, insert, select, update

from greatseal.api.problems import Unavailable
from greatseal.api.store import Refuse, Tx, scan
from greatseal.api.tokens import InvalidToken
from greatseal.db.tables import param
from greatseal_registration import tables as t

TOKEN = "rat"  # noqa: S105  the kind of the handle
BITE = 200
"""Rows that one transaction visits."""

_COUNT = select(func.count().label("count")).select_from(t.client)
_INSERT = insert(t.client).values(client_id=param("id"), token_digest=param("digest"), used_at=param("now"))
_DIGEST = select(t.client.c.token_digest).where(t.client.c.client_id == param("id"))
_ROTATE = (
    update(t.client)
    .where(t.client.c.client_id == param("id"), t.client.c.token_digest == param("old"))
    .values(token_digest=param("new"), used_at=param("now"))
)
_END = delete(t.client).where(t.client.c.client_id == param("id"), t.client.c.token_digest == param("old"))
_USED = update(t.client).where(t.client.c.client_id == param("id")).values(used_at=param("now"))
_GONE = delete(t.client).where(t.client.c.client_id == param("id"))
_AFTER = select(t.client).where(t.client.c.client_id > param("after")).order_by(t.client.c.client_id).limit(BITE)


def digest_of(token: str) -> bytes:
    """How a token is stored."""
    return sha256(token.encode()).digest()


def refused() -> InvalidToken:
    """The same for a wrong token, a used one, and that of a client that is gone (RFC 7592 s2.1)."""
    return InvalidToken("the registration access token is not that of this client, or was replaced (RFC 7592 s2)")


def keeping(token: str | None, most: int) -> Callable[[Tx, str], None]:
    """Keeps a new client, in the transaction that stores it."""

    def keep(tx: Tx, client_id: str) -> None:
        counted = tx.one(_COUNT)
        if counted is not None and counted.count >= most:
            raise Refuse(Unavailable("as many clients as may have registered themselves; try again later", retry_after=3600))
        tx.run(_INSERT, id=client_id, digest=None if token is None else digest_of(token), now=tx.now)

    return keep


def rotating(old: str, new: str) -> Callable[[Tx, str], None]:
    """Consumes a token and puts another in its place, in the transaction that changes the client."""

    def rotate(tx: Tx, client_id: str) -> None:
        if tx.count(_ROTATE, id=client_id, old=digest_of(old), new=digest_of(new), now=tx.now) != 1:
            raise Refuse(refused())

    return rotate


def ending(token: str) -> Callable[[Tx, str], None]:
    """Consumes the token of a client for good, in the transaction that deletes it."""

    def end(tx: Tx, client_id: str) -> None:
        if tx.count(_END, id=client_id, old=digest_of(token)) != 1:
            raise Refuse(refused())

    return end


def holds(tx: Tx, client_id: str, token: str) -> bool:
    """Whether it is the token of the client now."""
    row = tx.one(_DIGEST, id=client_id)
    return row is not None and row.token_digest is not None and hmac.compare_digest(bytes(row.token_digest), digest_of(token))


@scan
def mark(tx: Tx, used: Mapping[str, int]) -> None:
    """Note when clients got tokens; those that registered elsewhere have no row."""
    for client_id, moment in used.items():
        tx.run(_USED, id=client_id, now=moment)


@scan
def listed(tx: Tx, after: str) -> Sequence[tuple[str, int]]:
    """The next clients in the order of their ids, each with the moment of its last token."""
    return [(row.client_id, row.used_at) for row in tx.all(_AFTER, after=after)]


def forget(tx: Tx, client_id: str) -> None:
    """Forget a client that an administrator deleted."""
    tx.run(_GONE, id=client_id)
