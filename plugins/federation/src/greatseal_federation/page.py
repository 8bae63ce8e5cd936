"""``/account/connections``: the accounts at other providers that sign a person in here."""

from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import Login, SessionView
from greatseal.api.messages import Message
from greatseal.api.moments import SECOND, day_and_time
from greatseal.api.notices import seen
from greatseal.api.pages import AccountLine, AccountPart, Pages
from greatseal.host import Host
from greatseal.http.csrf import FORM
from greatseal_federation import accounts
from greatseal_federation.accounts import Account
from greatseal_federation.callback import CONNECTIONS
from greatseal_federation.links import Links
from greatseal_federation.pages import Refusals
from greatseal_federation.start import Start
from greatseal_federation.upstreams import Upstream, Upstreams

LINK = f"{CONNECTIONS}/link"
RECENT = 600 * SECOND
"""Within this time after a sign-in accounts are linked and unlinked: a browser that somebody left open must not be enough."""


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    provider: str
    said: Message
    deletable: bool


class ConnectionsPage:
    """What people see and change."""

    def __init__(
        self, host: Host, upstreams: Upstreams, *, login: Login, pages: Pages, start: Start, links: Links, refusals: Refusals
    ) -> None:
        self._host = host
        self._upstreams = upstreams
        self._login = login
        self._pages = pages
        self._start = start
        self._links = links
        self._refusals = refusals

    def routes(self) -> list[Route]:
        signed_in = Handler("who is not signed in is led to the sign-in page")
        return [
            Route("GET", CONNECTIONS, self.show, style="page", auth=signed_in, summary="Your accounts at other providers."),
            Route("POST", CONNECTIONS, self.delete, style="page", auth=signed_in, content_types=(FORM,), summary="Unlink one with a form."),
            Route("POST", LINK, self.link, style="page", auth=signed_in, content_types=(FORM,), summary="Link one: leads to the provider."),
        ]

    async def show(self, call: Call) -> Reply:
        session = await self._login.session(call)
        if session is None:
            return self._pages.sign_in(CONNECTIONS)
        return self._pages.step_up(CONNECTIONS) if await self._login.lacks(session) else await self._page(call, session)

    async def delete(self, call: Call) -> Reply:
        session, form = await self._form(call)
        if session is None or not self._is_recent(session):
            return self._pages.sign_in(CONNECTIONS)
        if await self._login.lacks(session):
            return self._pages.step_up(CONNECTIONS)
        found = await self._host.db.read(accounts.find, form.get("id", ""))
        # Who is known by an account alone would not come back.
        if found is not None and found.person is None and not found.disabled:
            await self._links.unlink(found.id, session.subject, subject=session.subject, languages=seen(call).languages)
        return self._pages.see_other(CONNECTIONS)

    async def link(self, call: Call) -> Reply:
        session, form = await self._form(call)
        if session is None or not self._is_recent(session):
            return self._pages.sign_in(CONNECTIONS)
        if await self._login.lacks(session):
            return self._pages.step_up(CONNECTIONS)
        upstream = self._upstreams.get(form.get("upstream", ""))
        if not upstream.self_service:
            return self._pages.see_other(CONNECTIONS)
        return await self._refusals.around(call, upstream, None, self._start.lead(call, upstream, None, link=session), linking=True)

    async def _form(self, call: Call) -> tuple[SessionView | None, Parameters]:
        form = Parameters.parse(await call.raw())
        session = await self._login.session(call)
        if session is not None:
            self._pages.check_form(call, form)
        return session, form

    def _is_recent(self, session: SessionView) -> bool:
        now = self._host.clock.now()
        return session.was_proven(now - RECENT, now)

    async def _page(self, call: Call, session: SessionView) -> Reply:
        found = await self._host.db.read(accounts.of_subject, session.subject)
        linked = {one.upstream_id for one in found}
        offered = [one for one in self._upstreams.all() if one.self_service and one.id not in linked]
        return self._pages.page(
            call,
            "greatseal_federation/connections.html",
            form_targets=dict.fromkeys(f"{urlsplit(one.issuer).scheme}:" for one in offered),
            page=CONNECTIONS,
            link=LINK,
            accounts=[_Shown(id=one.id, provider=self._name(one), said=said(one), deletable=_is_deletable(one)) for one in found],
            offered=offered,
            recent=self._is_recent(session),
            undated=session.proven_at is None,
        )

    def _name(self, account: Account) -> str:
        return name_of(account, self._upstreams.find(account.upstream_id))


class ConnectionsPart(AccountPart):
    """The part of the account page."""

    name = "connections"
    title = Message("Accounts elsewhere")
    link = CONNECTIONS
    words = Message("Accounts at other providers")
    empty = Message("None. With one you sign in here by signing in there.")

    def __init__(self, host: Host, upstreams: Upstreams) -> None:
        self._host = host
        self._upstreams = upstreams

    async def lines(self, session: SessionView) -> Sequence[AccountLine]:
        found = await self._host.db.read(accounts.of_subject, session.subject)
        return [AccountLine(title=name_of(one, self._upstreams.find(one.upstream_id)), detail=said(one)) for one in found]


def name_of(account: Account, upstream: Upstream | None) -> str:
    """What the provider is called; its id where it is gone."""
    return account.upstream_id if upstream is None else upstream.display_name


def said(account: Account) -> Message:
    """Whose account it is, and when it was used."""
    name = account.email or account.upstream_sub
    if account.disabled:
        return Message("%(name)s, switched off by an administrator", {"name": name})
    if account.last_login_at is None:
        return Message("%(name)s, not used yet", {"name": name})
    return Message("%(name)s, last used %(when)s", {"name": name, "when": day_and_time(account.last_login_at)})


def _is_deletable(account: Account) -> bool:
    return account.person is None and not account.disabled
