"""The directory of the service, and what it knows of people as claims."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal.api.directory import Directory, Group, Tier, User
from greatseal.api.tokens import ClaimsProvider
from greatseal_ipa.reader import Reader
from greatseal_ipa.schema import SOURCE


class IpaDirectory(Directory):
    """People, groups and hosts of an LDAP server. An outage is told, never an empty answer."""

    name = SOURCE
    tier = Tier.DIRECTORY

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def realm(self) -> str:
        return self._reader.schema.realm

    async def user(self, username: str) -> User | None:
        person = await self._reader.person(username)
        return person.user if person is not None else None

    async def with_email(self, email: str) -> Sequence[User]:
        return await self._reader.with_email(email)

    async def group(self, name: str) -> Group | None:
        return await self._reader.group(name)

    async def users(self, prefix: str, limit: int, after: str = "") -> Sequence[User]:
        return await self._reader.users(prefix, limit, after)

    async def groups(self, prefix: str, limit: int, after: str = "") -> Sequence[Group]:
        return await self._reader.groups(prefix, limit, after)

    async def groups_of(self, user: User) -> Sequence[Group]:
        return await self._reader.groups_of(user)

    async def hostgroups(self, prefix: str, limit: int) -> Sequence[str]:
        return await self._reader.hostgroups(prefix, limit)

    async def hostgroups_of(self, hostname: str) -> frozenset[str] | None:
        return await self._reader.hostgroups_of(hostname)

    async def managed_by(self, principal: str) -> frozenset[str] | None:
        return await self._reader.managed_by(principal)


class IpaClaims(ClaimsProvider):
    """The claims of OpenID Connect Core s5.1 that directories have attributes for."""

    name = SOURCE
    claims = frozenset({"email", "family_name", "given_name", "groups", "name", "phone_number", "preferred_username"})

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def of(self, subject: str, wanted: frozenset[str]) -> Mapping[str, Any]:
        username, _, realm = subject.rpartition("@")
        person = await self._reader.person(username) if realm == self._reader.schema.realm else None
        if person is None:
            return {}
        user = person.user
        known = {
            "name": user.display_name,
            "given_name": user.given_name,
            "family_name": user.family_name,
            "preferred_username": user.username,
            "email": user.email,
            "phone_number": user.phone,
            "groups": list(user.groups) or None,
        }
        return {claim: value for claim, value in known.items() if claim in wanted and value is not None}
