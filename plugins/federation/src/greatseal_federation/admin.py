"""/api/admin/federated-accounts: who is linked with whom."""

from collections.abc import Mapping
from typing import Any

import msgspec

from greatseal.api.directory import Directories
from greatseal.api.http import Call, Permission, Reply, Route
from greatseal.api.lists import listed, page_of
from greatseal.api.moments import seconds
from greatseal.api.problems import BadRequest, NotFound
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal_federation import accounts
from greatseal_federation.accounts import Account, id_of
from greatseal_federation.links import Links
from greatseal_federation.upstreams import Upstreams

PATH = "/api/admin/federated-accounts"
READ, WRITE = Permission("federation:read"), Permission("federation:write")
LONGEST = 256
NONE = "there is no linked account of this id"


class NewLink(msgspec.Struct, frozen=True):
    """The body that makes one. ``issuer`` is for providers of many tenants, each of which has an issuer of its own."""

    upstream_id: str
    upstream_sub: str
    username: str
    issuer: str | None = None


class LinkChange(msgspec.Struct, frozen=True):
    """The body that switches one off or on."""

    disabled: bool


class AccountsAdmin:
    """Every route."""

    def __init__(self, host: Host, upstreams: Upstreams, directories: Directories, links: Links) -> None:
        self._host = host
        self._upstreams = upstreams
        self._directories = directories
        self._links = links
        self._sessions = links.sessions

    def routes(self) -> list[Route]:
        one = f"{PATH}/{{id}}"
        return [
            Route("GET", PATH, self.listed, auth=READ, summary="Linked accounts of other providers, by id."),
            Route("POST", PATH, self.create, auth=WRITE, summary="Link an account of another provider with a person."),
            Route("GET", one, self.shown, auth=READ, summary="One linked account."),
            Route("PUT", one, self.change, auth=WRITE, summary="Switch a linked account off, which ends its sessions, or on again."),
            Route("DELETE", one, self.delete, auth=WRITE, summary="Unlink an account, and end the sessions that came of it."),
        ]

    async def listed(self, call: Call) -> Reply:
        page = page_of(call)
        found = await self._host.db.read(accounts.page, page.after, page.wanted)
        return listed(call, self._host.issuer, page, found, key=lambda account: account.id, shown=shown)

    async def shown(self, call: Call) -> Reply:
        found = await self._host.db.read(accounts.find, call.path["id"])
        if found is None:
            raise NotFound(NONE)
        return Reply.json(shown(found))

    async def create(self, call: Call) -> Reply:
        asked = await call.body(NewLink)
        upstream = self._upstreams.find(asked.upstream_id)
        if upstream is None:
            raise BadRequest("upstream_id: this service has no such provider")
        for name in ("upstream_sub", "issuer"):
            value = getattr(asked, name)
            if value is not None and not (1 <= len(value) <= LONGEST and value.isprintable() and value == value.strip()):
                raise BadRequest(f"{name}: expected one line of at most {LONGEST} characters, as the provider writes it")
        user = await self._directories.user(asked.username)
        if user is None:
            raise BadRequest("username: no directory of this service knows this name")
        issuer = asked.issuer or upstream.issuer
        account = Account(
            id=id_of(upstream.id, issuer, asked.upstream_sub),
            upstream_id=upstream.id,
            issuer=issuer,
            upstream_sub=asked.upstream_sub,
            subject=user.subject,
            email=None,
            created_at=0,
            created_by=call.caller.subject,
        )
        return Reply.json(shown(await self._host.db.write(self._links.add, account)), status=201)

    async def change(self, call: Call) -> Reply:
        asked, id, by = await call.body(LinkChange), call.path["id"], call.caller.subject

        def change(tx: Tx) -> tuple[Account | None, list[str]]:
            found = accounts.change(tx, id, by, disabled=asked.disabled)
            return found, self._sessions.end_account(tx, id) if found is not None and asked.disabled else []

        found, ending = await self._host.db.write(change)
        if found is None:
            raise NotFound(NONE)
        await self._sessions.finish(ending)
        return Reply.json(shown(found))

    async def delete(self, call: Call) -> Reply:
        if await self._links.unlink(call.path["id"], call.caller.subject) is None:
            raise NotFound(NONE)
        return Reply.empty()


def shown(account: Account) -> Mapping[str, Any]:
    """As the admin API shows it."""
    return {
        "id": account.id,
        "upstream_id": account.upstream_id,
        "issuer": account.issuer,
        "upstream_sub": account.upstream_sub,
        "username": account.subject,
        "email": account.email,
        "disabled": account.disabled,
        "created_at": seconds(account.created_at),
        "created_by": account.created_by,
        "last_login_at": None if account.last_login_at is None else seconds(account.last_login_at),
    }
