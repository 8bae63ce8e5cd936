"""The account page: who you are, what you may do, what you allowed, and the way out."""

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from greatseal.api.clients import Clients
from greatseal.api.directory import Directories, DirectoryUnavailable, User
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import Login, SessionView
from greatseal.api.lists import Page, filter_of, moment_key
from greatseal.api.pages import AccountLine, AccountPart
from greatseal.api.problems import Problem
from greatseal.host import Host
from greatseal.http.csrf import FORM
from greatseal_idp.authorize.consents import Consents
from greatseal_idp.pages.render import Pages
from greatseal_idp.pages.return_to import ACCOUNT, SIGN_IN
from greatseal_idp.rbac import Roles

WITHDRAW = f"{ACCOUNT}/withdraw"
SHOWN = 100
"""Applications on one page."""


class AccountPage:
    """``/account``."""

    def __init__(
        self,
        host: Host,
        *,
        login: Login,
        directories: Directories,
        roles: Roles,
        clients: Clients,
        consents: Consents,
        pages: Pages,
    ) -> None:
        self._host = host
        self._login = login
        self._directories = directories
        self._roles = roles
        self._clients = clients
        self._consents = consents
        self._pages = pages

    def routes(self) -> list[Route]:
        asks = Handler("who is not signed in is led to the sign-in page")
        return [
            Route("GET", ACCOUNT, self.show, style="page", auth=asks, summary="Your account."),
            Route(
                "POST",
                WITHDRAW,
                self.withdraw,
                style="page",
                auth=asks,
                content_types=(FORM,),
                summary="Take back what a client was allowed.",
            ),
        ]

    async def show(self, call: Call) -> Reply:
        session = await self._login.session(call)
        if session is None:
            return self._pages.see_other(f"{SIGN_IN}?return_to={quote(self._pages.prefix + ACCOUNT, safe='')}", status=302)
        return await self._show(call, session)

    async def withdraw(self, call: Call) -> Reply:
        session = await self._login.session(call)
        if session is None:
            return self._pages.see_other(ACCOUNT)
        form = Parameters.parse(await call.raw())
        self._pages.check_form(call, form)
        await self._consents.withdraw(session.subject, form.get("client_id", ""))
        return self._pages.see_other(ACCOUNT)

    async def _show(self, call: Call, session: SessionView) -> Reply:
        user = await self._user(session)
        page = Page(SHOWN, filter_of(call, "after") or "")
        consents = await self._consents.of(session.subject, page.moment(), page.wanted)
        last = consents[SHOWN - 1] if len(consents) > SHOWN else None
        return self._pages.page(
            call,
            "account.html",
            session=session,
            shown_name=(user.display_name if user is not None else None) or session.username,
            email=user.email if user is not None else None,
            groups=session.groups if user is None else user.groups,
            permissions=await self._roles.of(session),
            parts=[(part, await self._lines(part, session)) for part in self._parts()],
            withdraw=WITHDRAW,
            consents=[(one.client_id, await self._name(one.client_id), one.named) for one in consents[:SHOWN]],
            after=page.after,
            more=moment_key(last.granted_at, last.client_id) if last is not None else None,
        )

    def _parts(self) -> Iterable[AccountPart]:
        found = self._host.components(AccountPart)
        return (found[name] for name in sorted(found))

    async def _lines(self, part: AccountPart, session: SessionView) -> Sequence[AccountLine] | None:
        """None when they cannot be told: the rest of the page is shown all the same."""
        try:
            return await part.lines(session)
        except Problem as problem:
            self._host.log.warning("a part of the account page is left out", part=part.name, exc_info=problem)
            return None

    async def _user(self, session: SessionView) -> User | None:
        try:
            return await self._directories.user(session.subject)
        except DirectoryUnavailable:
            return None

    async def _name(self, client_id: str) -> str:
        client = await self._clients.get(client_id)
        return (client.client_name if client is not None else "") or client_id
