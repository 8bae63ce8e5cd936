"""Stores of passkeys: values of a directory, a registry that nobody changes here; and a part of the account page.

Examples of the contracts, checked by mypy: no plugin has this code.
"""

from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar

from greatseal.api.identity import SessionView
from greatseal.api.pages import AccountLine, AccountPart
from greatseal.api.passkeys import MOST_PASSKEYS, Passkey, PasskeysReadOnly, PasskeyStore
from greatseal.api.problems import Conflict
from greatseal.api.store import Database, Tx

Values = Mapping[str, Sequence[str]]
"""The values of ``ipapasskey`` of each person, by uid."""


class IpaPasskeys(PasskeyStore):
    """``passkey:<id>,<key>[,<user handle>]`` in the directory: no counter, no name, no transports."""

    name = "ipa"

    def __init__(
        self,
        db: Database,
        realm: str,
        search: Callable[[str], Awaitable[Values]],
        modify: Callable[[str, str, str], Awaitable[bool]],
    ) -> None:
        self.db = db
        self.realm = realm
        self.search = search
        self.modify = modify

    def serves(self, subject: str, source: str | None) -> bool:
        return source == "ipa" and subject.endswith(f"@{self.realm}")

    async def of(self, subject: str) -> Sequence[Passkey]:
        uid = subject.partition("@")[0]
        values = (await self.search(f"(uid={uid})")).get(uid, ())
        return [self.read(uid, value) for value in values[:MOST_PASSKEYS]]

    async def find(self, id: bytes) -> Passkey | None:
        found = await self.search(f"(ipapasskey=passkey:{b64encode(id).decode()},*)")
        return next((self.read(uid, value) for uid, values in found.items() for value in values if self.read(uid, value).id == id), None)

    async def add(self, passkey: Passkey, also: Callable[[Tx], object]) -> None:
        parts = (passkey.id, passkey.public_key, *([passkey.user_handle] if passkey.user_handle else []))
        value = "passkey:" + ",".join(b64encode(part).decode() for part in parts)
        if not await self.modify("add", passkey.subject.partition("@")[0], value):
            raise Conflict("this passkey is registered already")
        await self.db.write(also)

    async def remove(self, subject: str, id: bytes, also: Callable[[Tx], object]) -> bool:
        uid = subject.partition("@")[0]
        values = (await self.search(f"(uid={uid})")).get(uid, ())
        stored = next((value for value in values if self.read(uid, value).id == id), None)
        if stored is None or not await self.modify("delete", uid, stored):
            return False
        await self.db.write(also)
        return True

    def read(self, uid: str, value: str) -> Passkey:
        id, key, *handle = (b64decode(part) for part in value.removeprefix("passkey:").split(","))
        return Passkey(id=id, subject=f"{uid}@{self.realm}", public_key=key, user_handle=handle[0] if handle else None)


class RegistryPasskeys(PasskeyStore):
    """Keys that a company hands out, read from its list."""

    name = "registry"
    read_only = True

    def __init__(self, handed_out: Mapping[str, Sequence[Passkey]]) -> None:
        self.handed_out = handed_out

    def serves(self, subject: str, source: str | None) -> bool:
        return subject in self.handed_out

    async def of(self, subject: str) -> Sequence[Passkey]:
        return self.handed_out.get(subject, ())

    async def find(self, id: bytes) -> Passkey | None:
        return next((one for held in self.handed_out.values() for one in held if one.id == id), None)

    async def add(self, passkey: Passkey, also: Callable[[Tx], object]) -> None:
        raise PasskeysReadOnly("passkeys are handed out at the reception")

    async def remove(self, subject: str, id: bytes, also: Callable[[Tx], object]) -> bool:
        raise PasskeysReadOnly("passkeys are handed out at the reception")


class Devices(AccountPart):
    """What a person carries."""

    name = "devices"
    title: ClassVar[str] = "Devices"
    link: ClassVar[str] = "/account/devices"
    words: ClassVar[str] = "Change them"
    empty: ClassVar[str] = "None yet."

    async def lines(self, session: SessionView) -> Sequence[AccountLine]:
        return [AccountLine(title=f"The phone of {session.username}")]
