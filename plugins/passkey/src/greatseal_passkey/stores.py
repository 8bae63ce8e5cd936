"""All stores of passkeys as one."""

from collections.abc import Sequence

import msgspec

from greatseal.api.directory import Directories, Directory, Tier, User
from greatseal.api.passkeys import Passkey, PasskeyStore
from greatseal.host import Host
from greatseal_passkey.local import LocalPasskeys

OWN = LocalPasskeys.name


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """A person, and the store that has their passkeys. ``user`` is None for whom no directory knows."""

    subject: str
    user: User | None
    store: PasskeyStore


class Stores:
    """Finds the one of a person, and the passkey of an id."""

    def __init__(self, host: Host, directories: Directories) -> None:
        self._host = host
        self._directories = directories

    async def home(self, subject: str) -> Home:
        """Of a person who is there. Raises Unavailable when their directory cannot say."""
        return self._home(subject, await self._directories.user(subject))

    async def named(self, name: str) -> Home | None:
        """Of a person by what was typed; None when no directory knows the name."""
        user = await self._directories.user(name)
        return None if user is None else self._home(user.subject, user)

    def spelling(self, name: str) -> str:
        """One for all spellings of a name by which the same person is found, whether they are there or not."""
        found = sorted(self._host.components(Directory).values(), key=lambda one: one.tier is Tier.DIRECTORY)
        short, at, realm = name.rpartition("@")
        if not at:
            short, realm = name, next((one.realm for one in found), "")
        # A directory over the network compares without case (RFC 4519 s2.39), a file as it is written.
        folds = any(one.tier is Tier.DIRECTORY for one in found)
        return f"{short.casefold() if folds else short}@{realm.upper()}"

    async def nobodys(self, name: str) -> Sequence[Passkey]:
        """Ask every store for somebody whom no directory knows: the time of an answer must not tell."""
        found = self._host.components(PasskeyStore)
        return [passkey for _, store in sorted(found.items()) for passkey in await store.of(self.spelling(name))]

    async def find(self, id: bytes, store: str | None) -> tuple[Passkey, str] | None:
        """The passkey of an id and the name of its store: of the ``store`` where it is known to rest, else of the first that has it."""
        found = self._host.components(PasskeyStore)
        names = [store] if store is not None and store in found else sorted(found, key=lambda name: (name != OWN, name))
        for name in names:
            passkey = await found[name].find(id)
            if passkey is not None:
                # One of a name that has its home elsewhere, such as a user of the file, is not that person's.
                return (passkey, name) if (await self.home(passkey.subject)).store.name == name else None
        return None

    def _home(self, subject: str, user: User | None) -> Home:
        found = self._host.components(PasskeyStore)
        source = user.source if user is not None else None
        serving = (found[name] for name in sorted(found) if name != OWN and found[name].serves(subject, source))
        return Home(subject=subject, user=user, store=next(serving, found[OWN]))
