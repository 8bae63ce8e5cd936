"""The users file as a directory, and as a source of claims."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from greatseal.api.directory import AccountState, Directory, Group, Tier, User
from greatseal.api.tokens import ClaimsProvider
from greatseal_users_file.file import UsersFile
from greatseal_users_file.people import FileUser, People, moment_of


class FileDirectory(Directory):
    """Static users and groups; it cannot be down."""

    name = "users-file"
    tier = Tier.STATIC

    def __init__(self, file: UsersFile, realm: str) -> None:
        self._file = file
        self._realm = realm

    @property
    def realm(self) -> str:
        return self._realm

    async def user(self, username: str) -> User | None:
        found = self._file.people().users.get(username)
        return self._user(found) if found else None

    async def with_email(self, email: str) -> Sequence[User]:
        found = (one for one in self._file.people().users.values() if (one.email or "").lower() == email.lower())
        return [self._user(one) for one in islice(found, 2)]

    async def group(self, name: str) -> Group | None:
        people = self._file.people()
        return self._group(people, name) if name in people.groups else None

    async def users(self, prefix: str, limit: int, after: str = "") -> Sequence[User]:
        people = self._file.people()
        return [self._user(people.users[name]) for name in _page(people.usernames, prefix, limit, after)]

    async def groups(self, prefix: str, limit: int, after: str = "") -> Sequence[Group]:
        people = self._file.people()
        return [self._group(people, name) for name in _page(people.group_names, prefix, limit, after)]

    async def groups_of(self, user: User) -> Sequence[Group]:
        people = self._file.people()
        return [self._group(people, name) for name in dict.fromkeys(user.groups) if name in people.groups]

    def _user(self, one: FileUser) -> User:
        return User(
            username=one.username,
            realm=self._realm,
            source=self.name,
            display_name=one.display_name,
            given_name=one.given_name,
            family_name=one.family_name,
            email=one.email,
            email_verified=one.email_verified,
            phone=one.phone,
            uid_number=one.uid_number,
            gid_number=one.gid_number,
            home_directory=one.home_directory,
            login_shell=one.login_shell,
            groups=one.groups,
            password_changed_at=moment_of(one.password_changed) if one.password_changed is not None else None,
            state=AccountState(disabled=not one.enabled),
        )

    def _group(self, people: People, name: str) -> Group:
        group = people.groups[name]
        return Group(
            name=name,
            realm=self._realm,
            source=self.name,
            display_name=group.description or None,
            gid_number=group.gid_number,
            members=people.members[name],
        )


def _page(names: Sequence[str], prefix: str, limit: int, after: str) -> list[str]:
    """Of sorted names, those with the prefix that come after ``after``."""
    begin = max(bisect_left(names, prefix), bisect_right(names, after))
    return [name for name in names[begin : begin + limit] if name.startswith(prefix)]


class FileClaims(ClaimsProvider):
    """The claims of OpenID Connect Core s5.1 that the file has words for."""

    name = "users-file"
    claims = frozenset(
        {"email", "email_verified", "family_name", "given_name", "groups", "name", "phone_number", "preferred_username"},
    )

    def __init__(self, file: UsersFile, realm: str) -> None:
        self._file = file
        self._realm = realm

    async def of(self, subject: str, wanted: frozenset[str]) -> Mapping[str, Any]:
        username, _, realm = subject.rpartition("@")
        user = self._file.people().users.get(username) if realm == self._realm else None
        if user is None:
            return {}
        known = {
            "name": user.display_name,
            "given_name": user.given_name,
            "family_name": user.family_name,
            "preferred_username": user.username,
            "email": user.email,
            "email_verified": user.email_verified if user.email else None,
            "phone_number": user.phone,
            "groups": list(user.groups) or None,
        }
        return {claim: value for claim, value in known.items() if claim in wanted and value is not None}
