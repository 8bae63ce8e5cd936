"""DIRECTORIES for unit tests."""

from collections.abc import Mapping, Sequence

from greatseal.api.directory import DirectoryUnavailable, Group, User

__all__ = ["FakeDirectories"]


class FakeDirectories:
    """DIRECTORIES (:class:`greatseal.api.directory.Directories`) of one home: ``people`` by short name, groups as they have them.

    ``hosts`` are the host groups of machines, ``managed`` the machines of principals. With ``down`` whoever asks is told that the directory
    cannot be reached.
    """

    def __init__(
        self, *people: User, hosts: Mapping[str, frozenset[str]] | None = None, managed: Mapping[str, frozenset[str]] | None = None
    ) -> None:
        self.people = {user.username: user for user in people}
        self.hosts = dict(hosts or {})
        self.managed = dict(managed or {})
        self.down = False

    async def user(self, username: str) -> User | None:
        """By short name, or by ``name@realm``."""
        self._reach()
        name, _, realm = username.partition("@")
        found = self.people.get(name)
        return found if found is not None and realm in {"", found.realm} else None

    async def with_email(self, email: str) -> Sequence[User]:
        """Those of the people."""
        self._reach()
        return [user for user in self.people.values() if (user.email or "").lower() == email.lower()]

    async def group(self, name: str) -> Group | None:
        """One that somebody is in."""
        return next((group for group in await self.groups(name, len(self.people) + 1) if group.name == name), None)

    async def users(self, prefix: str, limit: int) -> Sequence[User]:
        """As the contract says."""
        self._reach()
        return [user for name, user in sorted(self.people.items()) if name.startswith(prefix)][:limit]

    async def groups(self, prefix: str, limit: int) -> Sequence[Group]:
        """As the contract says."""
        self._reach()
        members: dict[str, list[User]] = {}
        for _, user in sorted(self.people.items()):
            for name in user.groups:
                members.setdefault(name, []).append(user)
        found = (
            Group(name=name, realm=inside[0].realm, source=inside[0].source, members=tuple(user.username for user in inside))
            for name, inside in sorted(members.items())
            if name.startswith(prefix)
        )
        return list(found)[:limit]

    async def groups_of(self, user: User) -> Sequence[Group]:
        """As the contract says."""
        self._reach()
        return [Group(name=name, realm=user.realm, source=user.source) for name in user.groups]

    async def hostgroups(self, prefix: str, limit: int) -> Sequence[str]:
        """As the contract says."""
        self._reach()
        known: frozenset[str] = frozenset().union(*self.hosts.values())
        return sorted(name for name in known if name.startswith(prefix))[:limit]

    async def hostgroups_of(self, hostname: str) -> frozenset[str]:
        """As the contract says."""
        self._reach()
        return self.hosts.get(hostname, frozenset())

    async def managed_by(self, principal: str) -> frozenset[str]:
        """As the contract says."""
        self._reach()
        return self.managed.get(principal, frozenset())

    def _reach(self) -> None:
        if self.down:
            raise DirectoryUnavailable("the directory cannot be reached")
