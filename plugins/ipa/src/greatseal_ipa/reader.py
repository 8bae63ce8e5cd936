"""What is asked of the directory, and how long an answer is used again."""

from collections.abc import Callable, Sequence

import msgspec
from structlog.stdlib import BoundLogger

from greatseal import principals
from greatseal.api.directory import DirectoryUnavailable, Group, User
from greatseal.host import Clock
from greatseal_ipa.library import Entry, Found, Oversized, Query
from greatseal_ipa.listing import Kind, Listing
from greatseal_ipa.names import folded, is_askable, is_username, same
from greatseal_ipa.pool import Pool
from greatseal_ipa.recent import Recent
from greatseal_ipa.schema import Facts, Provider, Schema

DEFAULTS_SECONDS = 60.0
"""How long what holds for everybody is used again: the authentication types of the configuration."""
MOST_GROUPS = 5_000
"""Groups of a user, nested ones too."""
MOST_MEMBERS = 5_000
"""Members of a group that are listed. Whether somebody is in a group is asked of the person."""
MOST_SUBGROUPS = 200
"""Groups in a group that are looked into for members."""
AT_ONCE = 50
"""Names or DNs in one filter."""
HERE = "the directory gave no usable answer"


class Person(msgspec.Struct, frozen=True):
    """A user with the DN of their entry and their Kerberos name."""

    user: User
    dn: str
    principal: str


class Defaults(msgspec.Struct, frozen=True):
    """The authentication types of everybody, and whether nobody has others."""

    types: tuple[str, ...] | None = None
    fixed: bool = False


class Reader:
    """Questions about people, groups and hosts. Every method raises DirectoryUnavailable."""

    def __init__(self, pool: Pool, schema: Schema, clock: Clock, log: BoundLogger, *, seconds: float) -> None:
        self.pool = pool
        self.schema = schema
        self.upstreams: dict[str, str] = {}
        """Ids of login options by the DN of the provider's entry; whoever reads the providers keeps it."""
        self._clock = clock
        self._log = log
        self._people: Recent[Person | None] = Recent(seconds, clock.monotonic)
        self._groups: Recent[Group | None] = Recent(seconds, clock.monotonic, most=1_000)
        self._hosts: Recent[frozenset[str] | None] = Recent(seconds, clock.monotonic)
        self._defaults: Recent[Defaults] = Recent(DEFAULTS_SECONDS, clock.monotonic)

    async def person(self, name: str, *, fresh: bool = False) -> Person | None:
        """By short name or by an alias of the realm; ``fresh`` asks in any case."""
        if not is_askable(name):
            return None
        # By the very spelling: two that differ by ß and ss are two people of the directory.
        return await self._people.get(name, lambda: self._person(name), fresh=fresh)

    async def named(self, username: str) -> Person | None:
        """As people type a name: the short one, or one with the realm of the directory."""
        short, at, realm = username.rpartition("@")
        if at and realm.upper() != self.schema.realm.upper():
            return None
        return await self.person(short if at else username)

    def forget(self, name: str) -> None:
        """The person's entry has changed. Who is asked for in a third spelling is as old as any answer may be."""
        self._people.forget(name)

    async def group(self, name: str) -> Group | None:
        """With its members."""
        return await self._groups.get(name, lambda: self._group(name)) if is_askable(name) else None

    async def groups_of(self, user: User) -> Sequence[Group]:
        """The groups of a user with what their entries say, in the order of ``user.groups``; one whose entry is gone has its name alone."""
        entries = await self._entries(self.schema.groups_named, user.groups)
        found = {group.name: group for group in (self.schema.read_group(entry) for entry in entries) if group is not None}
        return [found.get(name) or Group(name=name, realm=user.realm, source=user.source) for name in user.groups]

    async def users(self, prefix: str, limit: int, after: str) -> Sequence[User]:
        """By name, without groups."""
        names = await self._listed(Kind(self.schema.users, self.schema.people, self.schema.username), prefix, limit, after)
        facts = await self._facts()
        entries = await self._entries(self.schema.people, names)
        found = {user.username: user for user in (self.schema.read_user(entry, facts) for entry in entries)}
        return [found[name] for name in names if name in found]

    async def groups(self, prefix: str, limit: int, after: str) -> Sequence[Group]:
        """By name, without members."""
        names = await self._listed(Kind(self.schema.groups, self.schema.groups_named, self.schema.group_name), prefix, limit, after)
        entries = await self._entries(self.schema.groups_named, names)
        found = {group.name: group for group in (self.schema.read_group(entry) for entry in entries) if group is not None}
        return [found[name] for name in names if name in found]

    async def hostgroups(self, prefix: str, limit: int) -> Sequence[str]:
        """By name."""
        query = self.schema.hostgroups(prefix)
        if query is None or (prefix and not is_askable(prefix)):
            return ()
        found = await self.ask(msgspec.structs.replace(query, limit=max(limit, 1_000)))
        names = {name for entry in found.entries if (name := self.schema.hostgroup_name(entry))}
        return sorted(name for name in names if name.casefold().startswith(prefix.casefold()))[:limit]

    async def hostgroups_of(self, hostname: str) -> frozenset[str] | None:
        """Nested ones too; None for a machine that is not there."""
        if not is_askable(hostname):
            return None
        return await self._hosts.get(f"groups {hostname}", lambda: self._hostgroups_of(hostname))

    async def managed_by(self, principal: str) -> frozenset[str] | None:
        """Host names; None for a principal of elsewhere, of a person, and for one that is not there."""
        try:
            known = principals.parse(principal)
        except ValueError:
            return None
        if known.realm != self.schema.realm or not known.is_service:
            return None
        return await self._hosts.get(f"managed {principal}", lambda: self._managed_by(principal))

    async def linked(self, provider: str, value: str) -> User | None:
        """The one person who signs in at the provider of a DN with exactly that value; None for nobody, and for two."""
        query = self.schema.linked(provider, value)
        entries = (await self._whole(query)).entries if query is not None else ()
        # To the letter: a server may compare without case.
        exact = [entry for entry in entries if value in self.schema.read_linked(entry)]
        name = self.schema.username(exact[0]) if len(exact) == 1 and len(entries) == 1 else None
        person = await self.person(name, fresh=True) if name is not None else None
        return None if person is None else person.user

    async def with_email(self, email: str) -> Sequence[User]:
        """Two at most."""
        names = [self.schema.username(entry) for entry in (await self.ask(self.schema.with_email(email))).entries]
        people = [await self.person(name) for name in names if name is not None]
        return [person.user for person in people if person is not None]

    async def providers(self) -> Sequence[Provider]:
        """Identity providers that the directory names."""
        query = self.schema.providers()
        return () if query is None else self.schema.read_providers((await self._whole(query)).entries)

    async def _person(self, name: str) -> Person | None:
        entry = self._matching(await self.ask(self.schema.user(name)), name)
        if entry is None or (username := self.schema.username(entry)) is None:
            return None
        if not is_username(username):
            self._log.warning("a user of the directory has a name that none may have, and is left out", entry=entry.dn)
            return None
        groups = await self._nested(entry.dn, username) if self.schema.levels else self.schema.own_groups(entry)
        facts = msgspec.structs.replace(await self._facts(), groups=groups[:MOST_GROUPS])
        return Person(self.schema.read_user(entry, facts), entry.dn, self.schema.principal_of(entry))

    def _matching(self, found: Found, name: str) -> Entry | None:
        """The entry whose own name this is, else the only one with such an alias.

        Servers find more than that by rules of their own, such as alice for alİce: to Kerberos, and to whoever counts wrong passwords,
        these are two. Two of one name are nobody's: which of them signs in is not known.
        """
        own = [entry for entry in found.entries if same(self.schema.username(entry) or "", name)]
        entries = own or [entry for entry in found.entries if name in self.schema.aliases(entry)]
        if len(entries) > 1:
            raise DirectoryUnavailable(HERE, cause=f"{' and '.join(entry.dn for entry in entries)} have the same name")
        return entries[0] if entries else None

    async def _nested(self, dn: str, username: str) -> tuple[str, ...]:
        """Groups that have the user, and groups that have those, level by level."""
        known: dict[str, str] = {}
        dns, names = [dn], [username]
        for _ in range(self.schema.levels):
            above: dict[str, str] = {}
            for at in range(0, len(dns), AT_ONCE):
                query = self.schema.groups_with(dns[at : at + AT_ONCE], names)
                if query is None:
                    return ()
                found = await self._whole(msgspec.structs.replace(query, limit=MOST_GROUPS))
                above |= {entry.dn: group for entry in found.entries if (group := self.schema.group_name(entry))}
            new = above.keys() - known.keys()
            if not new or len(known) > MOST_GROUPS:
                break
            known |= {dn: above[dn] for dn in new}
            dns, names = sorted(new), []
        return tuple(sorted(set(known.values())))

    async def _group(self, name: str) -> Group | None:
        found, named = await self._group_entry(name)
        own = [entry for entry in found.entries if same(self.schema.group_name(entry) or "", name)]
        if not own or (group := self.schema.read_group(own[0])) is None:
            return None
        members, whole = await self._members(own[0])
        return msgspec.structs.replace(group, members=tuple(sorted(members)), whole=named and whole)

    async def _members(self, group: Entry) -> tuple[set[str], bool]:
        """People of the group and of groups in it, and whether these are all."""
        if (query := self.schema.members(group)) is not None:
            found = await self.ask(msgspec.structs.replace(query, limit=MOST_MEMBERS))
            return {name for entry in found.entries if (name := self.schema.username(entry))}, found.complete
        members, waiting, seen = set(self.schema.own_members(group)), list(self.schema.subgroups(group)), {folded(group.dn)}
        while waiting and len(seen) <= MOST_SUBGROUPS:
            dn = waiting.pop()
            if folded(dn) in seen or (query := self.schema.group_at(dn)) is None:
                continue
            seen.add(folded(dn))
            for entry in (await self.ask(query)).entries:
                members.update(self.schema.own_members(entry))
                waiting += self.schema.subgroups(entry)
        whole = len(members) <= MOST_MEMBERS and seen.issuperset(map(folded, waiting))
        return await self._canonical(sorted(members)[:MOST_MEMBERS]), whole

    async def _canonical(self, names: Sequence[str]) -> set[str]:
        """As their own entries spell them; names that nobody has any more are left out."""
        attributes = self.schema.users("").attributes
        entries = await self._entries(lambda some: msgspec.structs.replace(self.schema.people(some), attributes=attributes), names)
        return {name for entry in entries if (name := self.schema.username(entry))}

    async def _group_entry(self, name: str) -> tuple[Found, bool]:
        """And whether it names its members."""
        try:
            return await self.pool.search(self.schema.group(name, members=True)), True
        except Oversized as error:
            self._log.warning("a group of the directory has too many members to read", group=name, cause=str(error))
            return await self.ask(self.schema.group(name, members=False)), False

    async def _hostgroups_of(self, hostname: str) -> frozenset[str] | None:
        query = self.schema.host(hostname)
        entries = (await self.ask(query)).entries if query is not None else ()
        if not entries or (groups := self.schema.hostgroups_with(entries[0].dn)) is None:
            return self.schema.read_hostgroups(entries[0]) if entries else None
        found = await self._whole(msgspec.structs.replace(groups, limit=MOST_GROUPS))
        return frozenset(name for entry in found.entries if (name := self.schema.hostgroup_name(entry)))

    async def _managed_by(self, principal: str) -> frozenset[str] | None:
        query = self.schema.principal(principal)
        entries = (await self.ask(query)).entries if query is not None else ()
        if not entries or (managed := self.schema.managed_by(entries[0].dn)) is None:
            return None
        found = await self._whole(msgspec.structs.replace(managed, limit=MOST_MEMBERS))
        return frozenset().union(*(self.schema.read_hosts(entry) for entry in found.entries))

    async def _facts(self) -> Facts:
        defaults = await self._defaults.get("", self._read_defaults)
        return Facts(now=self._clock.now(), default_types=defaults.types, types_fixed=defaults.fixed, upstreams=self.upstreams)

    async def _read_defaults(self) -> Defaults:
        query = self.schema.defaults()
        if query is None:
            return Defaults()
        return Defaults(*self.schema.read_defaults(next(iter((await self.ask(query)).entries), None)))

    async def _listed(self, kind: Kind, prefix: str, limit: int, after: str) -> list[str]:
        if limit < 1 or (prefix and not is_askable(prefix)):
            return []
        return await Listing(self.ask, kind, limit=limit, after=after).of(prefix)

    async def _entries(self, named: Callable[[Sequence[str]], Query], names: Sequence[str]) -> list[Entry]:
        parts = [names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE)]
        return [entry for part in parts for entry in (await self.ask(named(part))).entries]

    async def ask(self, query: Query) -> Found:
        try:
            return await self.pool.search(query)
        except Oversized as error:
            raise DirectoryUnavailable(HERE, cause=str(error)) from None

    async def _whole(self, query: Query) -> Found:
        """For answers of which a part would be wrong. Raises DirectoryUnavailable for one that a limit cut, ours or the server's."""
        found = await self.ask(query)
        if not found.complete:
            raise DirectoryUnavailable(
                HERE, cause=f"{query.filter} under {query.base}: a limit cut the answer at {len(found.entries)} entries"
            )
        return found
