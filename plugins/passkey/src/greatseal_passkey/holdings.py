"""What a person has: their passkeys with what is known of each, and the end of one. On the page and in JSON alike."""

from collections.abc import Sequence

import msgspec

from greatseal.api.identity import SessionView
from greatseal.api.messages import Message, Text, marked
from greatseal.api.notices import Met, warning
from greatseal.api.passkeys import PasskeysReadOnly
from greatseal.api.problems import BadRequest, NotFound
from greatseal.api.services import LOGIN, NOTICES
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal_passkey import records
from greatseal_passkey.registration import label_of, require_whole
from greatseal_passkey.stores import OWN, Home, Stores


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A passkey in the list of its person. ``id`` is base64url; ``record`` is None for one that was registered elsewhere and not used."""

    id: str
    source: str
    record: records.Record | None

    @property
    def label(self) -> str:
        """Its name."""
        return self.record.label if self.record is not None else records.UNNAMED


class Holdings(msgspec.Struct, frozen=True, kw_only=True):
    """All of a person. ``read_only`` where they are changed elsewhere."""

    passkeys: Sequence[Held]
    read_only: bool


class Keeper:
    """Lists and deletes."""

    def __init__(self, host: Host, stores: Stores) -> None:
        self._host = host
        self._login = host.service(LOGIN)
        self._stores = stores

    async def of(self, subject: str) -> Holdings:
        """Those of a person, oldest first. Raises Unavailable."""
        home = await self._stores.home(subject)
        known = {one.id: one for one in await self._host.db.read(records.of_person, home.subject)}
        ids = [b64url_encode(one.id) for one in await home.store.of(home.subject)]
        source = "local" if home.store.name == OWN else home.store.name
        held = [Held(id=id, source=source, record=known.get(id)) for id in ids]
        return Holdings(passkeys=sorted(held, key=_age), read_only=home.store.read_only)

    async def delete(self, session: SessionView, id: str, languages: tuple[str, ...] = ()) -> None:
        """Delete one. Raises NotFound for an id of nobody or of somebody else, Stale, LoginRequired, Unavailable."""
        await require_whole(self._login, self._host.clock, session)
        home = await self._writable(session.subject)
        try:
            raw = b64url_decode(id)
        except ValueError:
            raise NotFound(GONE) from None
        if not await self._remove(home, raw, languages=languages):
            raise NotFound(GONE)

    async def rename(self, session: SessionView, id: str, label: str | None) -> None:
        """Give one another name. Raises NotFound as :meth:`delete` does, and for one that was never used here; BadRequest for no name."""
        name = label_of(label)
        if name is None:
            raise BadRequest(Message("enter a name"))
        if not await self._host.db.write(records.rename, session.subject, id, name):
            raise NotFound(GONE)

    async def delete_all(self, subject: str, *, by: str) -> None:
        """Delete those of a person who has lost them, or whose name is to be given to somebody else; ``by`` is the administrator."""
        home = await self._writable(subject)
        for passkey in await home.store.of(subject):
            await self._remove(home, passkey.id, by)

    async def _writable(self, subject: str) -> Home:
        home = await self._stores.home(subject)
        if home.store.read_only:
            raise PasskeysReadOnly(Message("these passkeys are administered elsewhere"))
        return home

    async def _remove(self, home: Home, id: bytes, by: str | None = None, languages: tuple[str, ...] = ()) -> bool:
        def forget(tx: Tx) -> None:
            label = records.forget(tx, home.subject, b64url_encode(id), by)
            if (notices := self._host.optional_service(NOTICES)) is not None:
                facts: dict[str, Text] = {marked("Passkey"): label}
                if by is not None:
                    facts[marked("By")] = Message("an administrator")
                title = Message("A passkey of your account was deleted")
                notices.tell(tx, warning("passkey_deleted", home.subject, title, Met(facts=facts, languages=languages)))

        return await home.store.remove(home.subject, id, forget)


GONE = Message("you have no such passkey")


def _age(held: Held) -> tuple[int, str]:
    return (held.record.created_at if held.record is not None else 0), held.id
