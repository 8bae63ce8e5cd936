"""People whom a provider made: a directory for each realm of them, and their claims."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from greatseal.api.directory import AccountState, Directory, Tier, User
from greatseal.api.tokens import ClaimsProvider
from greatseal.host import Host
from greatseal_federation import accounts
from greatseal_federation.accounts import Account, Person
from greatseal_federation.identity import Identity

LONGEST = 64
MOST_GROUPS = 100
NUMBERED = 20
"""How many people may have the same name but for a number."""
_OTHERS = re.compile(r"[^a-z0-9._-]+")
_USERNAME = re.compile(r"[a-z0-9._-]{1,80}")


class FederatedPeople(Directory):
    """Rows of this service, so it is never down."""

    tier = Tier.STATIC

    def __init__(self, host: Host, realm: str) -> None:
        self.name = f"federation-{realm.lower()}"  # type: ignore[misc]  # one class, and a directory for each realm
        self._host = host
        self._realm = realm

    @property
    def realm(self) -> str:
        return self._realm

    async def user(self, username: str) -> User | None:
        if _USERNAME.fullmatch(username) is None:
            return None
        found = await self._host.db.read(accounts.person, self._realm, username)
        return None if found is None else self._user(found)

    async def group(self, name: str) -> None:  # noqa: ARG002  their groups are those of this service
        return None

    async def users(self, prefix: str, limit: int, after: str = "") -> Sequence[User]:
        if prefix and _USERNAME.fullmatch(prefix) is None:
            return []
        return [self._user(one) for one in await self._host.db.read(accounts.people, self._realm, prefix, after, limit)]

    def _user(self, account: Account) -> User:
        person = account.person or Person()
        return User(
            username=account.username or "",
            realm=self._realm,
            source=self.name,
            display_name=person.display_name,
            given_name=person.given_name,
            family_name=person.family_name,
            email=person.email,
            email_verified=person.email_verified,
            groups=person.groups,
            state=AccountState(disabled=account.disabled),
        )


class FederatedClaims(ClaimsProvider):
    """What their provider said at the last sign-in."""

    name = "federation"
    claims = frozenset({"email", "email_verified", "family_name", "given_name", "groups", "name", "preferred_username"})

    def __init__(self, host: Host, realms: Sequence[str]) -> None:
        self._host = host
        self._realms = frozenset(realms)

    async def of(self, subject: str, wanted: frozenset[str]) -> Mapping[str, Any]:
        username, _, realm = subject.rpartition("@")
        found = await self._host.db.read(accounts.person, realm, username) if realm in self._realms else None
        if found is None or found.person is None:
            return {}
        person = found.person
        known = {
            "name": person.display_name,
            "given_name": person.given_name,
            "family_name": person.family_name,
            "preferred_username": found.username,
            "email": person.email,
            "email_verified": person.email_verified if person.email is not None else None,
            "groups": list(person.groups) or None,
        }
        return {claim: value for claim, value in known.items() if claim in wanted and value is not None}


def told_of(identity: Identity) -> Person:
    """What the provider says of somebody now."""
    upstream, told = identity.upstream, identity.claims.get(identity.upstream.groups_claim)
    theirs = [group for group in told if isinstance(group, str)] if isinstance(told, list) else []
    mapped = (upstream.groups[group] for group in theirs if group in upstream.groups)
    return Person(
        display_name=identity.text("name"),
        given_name=identity.text("given_name"),
        family_name=identity.text("family_name"),
        email=identity.email,
        email_verified=identity.claims.get("email_verified") is True,
        groups=tuple(sorted(set(mapped)))[:MOST_GROUPS],
    )


def names_for(identity: Identity) -> Sequence[str]:
    """Names for a new person, the first that is free is theirs: of the claim, of ASCII and without its domain, then with numbers."""
    told = identity.text(identity.upstream.username_claim) or identity.email or ""
    plain = _OTHERS.sub("-", told.partition("@")[0].lower()).strip("-.")[:LONGEST] or "user"
    return [plain, *(f"{plain}-{number}" for number in range(2, NUMBERED + 1))]
