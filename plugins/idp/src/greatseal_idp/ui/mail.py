"""The page on which a person confirms their mail address, and the part of the account page that leads there."""

from collections.abc import Sequence

from greatseal.api.directory import User
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.identity import Login, SessionView
from greatseal.api.messages import Message, Text
from greatseal.api.moments import day_and_time
from greatseal.api.pages import AccountLine, AccountPart
from greatseal.api.problems import BadRequest, NotFound, Problem, RateLimited
from greatseal.host import Host
from greatseal.http.csrf import FORM, ForeignOrigin
from greatseal_idp.clients.authentication import read_form
from greatseal_idp.pages.causes import said
from greatseal_idp.pages.render import Pages
from greatseal_idp.pages.return_to import MAIL
from greatseal_idp.sessions.mail import Mailboxes
from greatseal_idp.ui.login import STALE


class MailPage:
    """``/account/mail``: with a link it is for whoever has the mail, without one for who is signed in."""

    def __init__(self, host: Host, *, login: Login, pages: Pages, mailboxes: Mailboxes) -> None:
        self._host = host
        self._login = login
        self._pages = pages
        self._mailboxes = mailboxes

    def routes(self) -> list[Route]:
        signed_in = Handler("a link from the mail proves it, or a session asks for one")
        return [
            Route("GET", MAIL, self.show, style="page", auth=signed_in, summary="The page that confirms a mail address."),
            Route("POST", MAIL, self.act, style="page", auth=signed_in, content_types=(FORM,), summary="Send a link, or confirm by one."),
        ]

    async def show(self, call: Call) -> Reply:
        """A link is not used by looking at it: programs that scan mails follow links too."""
        link = call.query.get("link")
        if link is not None:
            found = await self._mailboxes.read(link)
            return self._over(call) if found is None else self._page(call, "confirm", email=found.email, subject=found.subject, link=link)
        session = await self._login.session(call)
        if session is None:
            return self._pages.sign_in(MAIL)
        return self._page(call, "ask", email=(await self._person(session)).email or "")

    async def act(self, call: Call) -> Reply:
        form = await read_form(call)
        if (link := form.get("link")) is not None:
            self._pages.check_form(call, form)
            return self._page(call, "done") if await self._mailboxes.confirm(link) else self._over(call)
        session = await self._login.session(call)
        if session is None:
            return self._pages.sign_in(MAIL)
        user = await self._person(session)
        try:
            self._pages.check_form(call, form)
            await self._mailboxes.ask(call, user)
        except ForeignOrigin as problem:
            return self._again(call, user, problem, STALE)
        except (BadRequest, RateLimited) as problem:
            return self._again(call, user, problem, said(problem))
        return self._page(call, "sent", email=user.email or "")

    async def _person(self, session: SessionView) -> User:
        user = await self._mailboxes.person(session)
        if user is None:
            raise NotFound(Message("no mail address of yours can be confirmed here"))
        return user

    def _over(self, call: Call) -> Reply:
        return self._page(call, "over", status=403)

    def _again(self, call: Call, user: User, cause: Problem, problem: Text) -> Reply:
        return self._page(call, "ask", email=user.email or "", problem=problem, cause=cause)

    def _page(
        self,
        call: Call,
        state: str,
        *,
        email: str = "",
        subject: str = "",
        link: str = "",
        problem: Text = "",
        cause: Problem | None = None,
        status: int = 200,
    ) -> Reply:
        headers = () if cause is None else tuple(cause.headers.items())
        status = status if cause is None else cause.status
        return self._pages.page(
            call,
            "mail.html",
            status=status,
            headers=headers,
            action=MAIL,
            state=state,
            email=email,
            subject=subject,
            link=link,
            problem=problem,
        )


class MailPart(AccountPart):
    """The part of the account page."""

    name = "mail"
    title = Message("Mail address")
    link = MAIL
    words = Message("Confirm it by a mail")
    empty = ""

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes

    async def concerns(self, session: SessionView) -> bool:
        return await self._mailboxes.person(session) is not None

    async def lines(self, session: SessionView) -> Sequence[AccountLine]:
        user = await self._mailboxes.person(session)
        if user is None:
            return []
        return [AccountLine(title=user.email or "", detail=await self._told(user))]

    async def _told(self, user: User) -> Message:
        confirmed_at = await self._mailboxes.confirmed_at(user)
        if confirmed_at is not None:
            return Message("Confirmed %(when)s", {"when": day_and_time(confirmed_at)})
        return Message("Confirmed by your directory") if user.email_verified else Message("Not confirmed yet")
