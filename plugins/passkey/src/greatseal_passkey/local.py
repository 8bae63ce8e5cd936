"""Passkeys in the tables of this plugin: of everybody whose home has no store of its own."""

from collections.abc import Callable, Sequence

from sqlalchemy import select

from greatseal.api.messages import Message
from greatseal.api.passkeys import MOST_PASSKEYS, Passkey, PasskeyStore
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse, Row, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal_passkey.tables import CREDENTIAL
from greatseal_passkey.tables import credential as t

_BY_ID = select(t).where(t.c.id == param("id"))
_OF = select(t).where(t.c.subject == param("subject")).order_by(t.c.id).limit(MOST_PASSKEYS)


class LocalPasskeys(PasskeyStore):
    """The store that serves whom no other one does."""

    name = "local"

    def __init__(self, host: Host) -> None:
        self._db = host.db

    def serves(self, subject: str, source: str | None) -> bool:  # noqa: ARG002  everybody
        return True

    async def of(self, subject: str) -> Sequence[Passkey]:
        return await self._db.read(_of, subject)

    async def find(self, id: bytes) -> Passkey | None:
        return await self._db.read(_find, b64url_encode(id))

    async def add(self, passkey: Passkey, also: Callable[[Tx], object]) -> None:
        await self._db.write(_add, passkey, also)

    async def remove(self, subject: str, id: bytes, also: Callable[[Tx], object]) -> bool:
        return await self._db.write(_remove, subject, b64url_encode(id), also)


def _of(tx: Tx, subject: str) -> list[Passkey]:
    return [_read(row) for row in tx.all(_OF, subject=subject)]


def _find(tx: Tx, id: str) -> Passkey | None:
    row = tx.one(_BY_ID, id=id)
    return None if row is None else _read(row)


def _add(tx: Tx, passkey: Passkey, also: Callable[[Tx], object]) -> None:
    id = b64url_encode(passkey.id)
    also(tx)
    if tx.one(_BY_ID, id=id) is not None:
        raise Refuse(Conflict(Message("this passkey is registered already")))
    tx.put(CREDENTIAL, id, subject=passkey.subject, public_key=passkey.public_key, user_handle=passkey.user_handle or b"")


def _remove(tx: Tx, subject: str, id: str, also: Callable[[Tx], object]) -> bool:
    row = tx.one(_BY_ID, id=id)
    if row is None or row.subject != subject:
        return False
    tx.remove(CREDENTIAL, id)
    also(tx)
    return True


def _read(row: Row) -> Passkey:
    handle = bytes(row.user_handle)
    return Passkey(id=b64url_decode(row.id), subject=row.subject, public_key=bytes(row.public_key), user_handle=handle or None)
