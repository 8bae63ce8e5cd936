"""Whom somebody at a provider is here: linked, found by a verified address where that is allowed, or made."""

from collections.abc import Callable

import msgspec

from greatseal.api.directory import Directories
from greatseal.api.messages import Message
from greatseal.api.problems import Conflict
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal_federation import accounts
from greatseal_federation.accounts import Account, TakeName, id_of
from greatseal_federation.identity import Identity
from greatseal_federation.links import Links
from greatseal_federation.people import names_for, told_of
from greatseal_federation.refusals import NotLinked
from greatseal_federation.upstreams import Upstreams

DISABLED = Message("your account there is switched off here; ask your administrator")
NOBODY = Message("nobody here is linked with your account there; ask your administrator to link it")


class Mapping:
    """Finds the account of an identity, or makes it."""

    def __init__(self, host: Host, upstreams: Upstreams, directories: Directories, links: Links) -> None:
        self._host = host
        self._upstreams = upstreams
        self._links = links
        self._directories = directories
        self.take_name: Callable[[Tx, TakeName], accounts.Taken] = accounts.name_taker(host.handles)

    async def person_of(self, identity: Identity) -> Account:
        """Who is to be signed in. Raises NotLinked, and DirectoryUnavailable."""
        id = id_of(identity.upstream.id, identity.issuer, identity.subject)
        found = await self._host.db.read(accounts.find, id)
        if found is None and identity.upstream.source != "config":
            found = await self._of_source(id, identity)
        if found is None:
            found = await self._by_email(id, identity) or await self._made(id, identity)
        if found is None:
            raise NotLinked(NOBODY, cause=f"no link for sub {identity.subject} of {identity.issuer}")
        if found.disabled:
            raise NotLinked(DISABLED, cause=f"the link {found.id} is disabled")
        return found

    async def link(self, identity: Identity, user_subject: str, by: str) -> Account:
        """A link that was asked for. Raises Conflict when it is there."""
        id = id_of(identity.upstream.id, identity.issuer, identity.subject)
        return await self._host.db.write(self._links.add, self._account(id, identity, user_subject, by))

    async def _of_source(self, id: str, identity: Identity) -> Account | None:
        """The person whom the directory sends there. Nothing is stored: the directory is asked each time."""
        upstream = identity.upstream
        value = identity.told(upstream.subject_claim)
        user = await self._upstreams.source(upstream).person(upstream.id, value) if value is not None else None
        return None if user is None else self._account(id, identity, user.subject, user.subject)

    async def _by_email(self, id: str, identity: Identity) -> Account | None:
        """The one person who has the address, when the provider may vouch for it and the person has no other account there.

        An address is given to somebody else one day: whoever has it then must not get what was linked before.
        """
        email = identity.verified_email
        if email is None or email.partition("@")[2] not in identity.upstream.link_email_domains:
            return None
        people = [user for user in await self._directories.with_email(email) if (user.email or "").lower() == email]
        if not people:
            return None
        if len(people) > 1:
            raise NotLinked(NOBODY, cause=f"more than one person has the address of sub {identity.subject}")
        subject = people[0].subject
        linked = await self._host.db.read(accounts.of_subject, subject)
        if any(one.upstream_id == identity.upstream.id for one in linked):
            raise NotLinked(NOBODY, cause=f"{subject} has the address of sub {identity.subject}, and another account there is linked")
        return await self._added(self._account(id, identity, subject, subject))

    async def _made(self, id: str, identity: Identity) -> Account | None:
        """A new person, where the provider makes people."""
        realm = identity.upstream.realm
        if realm is None:
            return None
        for name in names_for(identity):
            subject = f"{name}@{realm}"
            if (await self._host.db.write(self.take_name, TakeName(subject=subject, account=id))).theirs:
                made = self._account(id, identity, subject, subject)
                return await self._added(msgspec.structs.replace(made, realm=realm, username=name, person=told_of(identity)))
        raise NotLinked(NOBODY, cause=f"no name is free for sub {identity.subject}")

    async def _added(self, account: Account) -> Account:
        """It, or the one that another call made at the same time."""
        try:
            return await self._host.db.write(self._links.add, account)
        except Conflict:
            found = await self._host.db.read(accounts.find, account.id)
            if found is None:
                raise
            return found

    def _account(self, id: str, identity: Identity, subject: str, by: str) -> Account:
        return Account(
            id=id,
            upstream_id=identity.upstream.id,
            issuer=identity.issuer,
            upstream_sub=identity.subject,
            subject=subject,
            email=identity.email,
            created_at=0,
            created_by=by,
        )
