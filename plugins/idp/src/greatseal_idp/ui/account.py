"""The account page: who you are, what you may do, where you are signed in, which applications are connected, and the way out."""

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import quote

from greatseal.api.directory import Directories, DirectoryUnavailable, User
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import Login, SessionView
from greatseal.api.lists import Page, filter_of
from greatseal.api.pages import AccountLine, AccountPart
from greatseal.api.problems import Problem
from greatseal.host import Host
from greatseal.http.csrf import FORM
from greatseal_idp.authorize.applications import Applications
from greatseal_idp.authorize.consents import Consents
from greatseal_idp.pages.render import Pages
from greatseal_idp.pages.return_to import ACCOUNT, SIGN_IN
from greatseal_idp.rbac import Roles
from greatseal_idp.sessions import own
from greatseal_idp.sessions.own import OwnSessions

WITHDRAW, END, END_OTHERS = (f"{ACCOUNT}/{name}" for name in ("withdraw", "end", "end-others"))
SHOWN = 100
"""Applications on one page."""

Action = Callable[[SessionView, Parameters], Awaitable[None]]


class AccountPage:
    """``/account``."""

    def __init__(
        self,
        host: Host,
        *,
        login: Login,
        directories: Directories,
        roles: Roles,
        sessions: OwnSessions,
        applications: Applications,
        consents: Consents,
        pages: Pages,
    ) -> None:
        self._host = host
        self._login = login
        self._directories = directories
        self._roles = roles
        self._sessions = sessions
        self._applications = applications
        self._consents = consents
        self._pages = pages

    def routes(self) -> list[Route]:
        asks = Handler("who is not signed in is led to the sign-in page")
        actions: tuple[tuple[str, Action, str], ...] = (
            (WITHDRAW, self._withdraw, "Disconnect an application: what it was allowed and all that it holds of you ends."),
            (END, self._end, "End a session of yours."),
            (END_OTHERS, self._end_others, "End all sessions of yours but this one."),
        )
        return [
            Route("GET", ACCOUNT, self.show, style="page", auth=asks, summary="Your account."),
            *(
                Route("POST", path, self._carried_out(action), style="page", auth=asks, content_types=(FORM,), summary=summary)
                for path, action, summary in actions
            ),
        ]

    async def show(self, call: Call) -> Reply:
        session = await self._login.session(call)
        if session is None:
            return self._pages.see_other(f"{SIGN_IN}?return_to={quote(self._pages.prefix + ACCOUNT, safe='')}", status=302)
        return await self._show(call, session)

    def _carried_out(self, action: Action) -> Callable[[Call], Awaitable[Reply]]:
        async def carry_out(call: Call) -> Reply:
            session = await self._login.session(call)
            if session is not None:
                form = Parameters.parse(await call.raw())
                self._pages.check_form(call, form)
                await action(session, form)
            return self._pages.see_other(ACCOUNT)

        return carry_out

    async def _withdraw(self, session: SessionView, form: Parameters) -> None:
        await self._consents.withdraw(session.subject, form.get("client_id", ""))

    async def _end(self, session: SessionView, form: Parameters) -> None:
        await self._sessions.end(session.subject, form.get("session_id", ""))

    async def _end_others(self, session: SessionView, _form: Parameters) -> None:
        await self._sessions.end_others(session)

    async def _show(self, call: Call, session: SessionView) -> Reply:
        user = await self._user(session)
        page = Page(SHOWN, filter_of(call, "after") or "")
        applications, more = await self._applications.of(session.subject, page)
        sessions = await self._sessions.of(session.subject)
        return self._pages.page(
            call,
            "account.html",
            session=session,
            shown_name=(user.display_name if user is not None else None) or session.username,
            email=user.email if user is not None else None,
            groups=session.groups if user is None else user.groups,
            permissions=await self._roles.of(session),
            parts=[(part, await self._lines(part, session)) for part in await self._parts(session)],
            end=END,
            end_others=END_OTHERS,
            sessions=sessions[: own.SHOWN],
            further=len(sessions) > own.SHOWN,
            withdraw=WITHDRAW,
            applications=applications,
            after=page.after,
            more=more,
        )

    async def _parts(self, session: SessionView) -> Sequence[AccountPart]:
        found = self._host.components(AccountPart)
        return [found[name] for name in sorted(found) if await self._concerns(found[name], session)]

    async def _concerns(self, part: AccountPart, session: SessionView) -> bool:
        try:
            return await part.concerns(session)
        except Problem as problem:
            self._host.log.warning("a part of the account page is left out", part=part.name, exc_info=problem)
            return False

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
