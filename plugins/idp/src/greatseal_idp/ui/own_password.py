"""The page on which a person who is signed in changes their password, and the part of the account page that leads there."""

from collections.abc import Sequence

from greatseal.api.directory import User
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import AccessDenied, ChangeRefused, Denied, LoggedIn, SessionView
from greatseal.api.messages import Message, Text
from greatseal.api.moments import day_and_time
from greatseal.api.pages import AccountLine, AccountPart
from greatseal.api.problems import BadRequest, NotFound, Problem, RateLimited
from greatseal.host import Host
from greatseal.http.csrf import FORM, ForeignOrigin
from greatseal_idp.clients.authentication import read_form
from greatseal_idp.pages.causes import log_cause, said
from greatseal_idp.pages.render import Pages
from greatseal_idp.pages.return_to import ACCOUNT, PASSWORD
from greatseal_idp.sessions.login import LoginImpl
from greatseal_idp.sessions.own_password import OwnPassword
from greatseal_idp.ui.change_password import WRONG, typed
from greatseal_idp.ui.login import STALE


class OwnPasswordPage:
    """``/account/password``."""

    def __init__(self, host: Host, *, login: LoginImpl, pages: Pages, own_password: OwnPassword) -> None:
        self._host = host
        self._login = login
        self._pages = pages
        self._own_password = own_password

    def routes(self) -> list[Route]:
        """None where nobody can change a password at any time."""
        if not self._own_password.offered:
            return []
        signed_in = Handler("who is not signed in is led to the sign-in page")
        summary = "Change your password; you are signed out everywhere else."
        return [
            Route("GET", PASSWORD, self.show, style="page", auth=signed_in, summary="The page where you change your password."),
            Route("POST", PASSWORD, self.change, style="page", auth=signed_in, content_types=(FORM,), summary=summary),
        ]

    async def show(self, call: Call) -> Reply:
        session = await self._login.session(call)
        if session is None:
            return self._pages.sign_in(PASSWORD)
        if await self._login.lacks(session):
            return self._pages.step_up(PASSWORD)
        return self._page(call, await self._person(session))

    async def change(self, call: Call) -> Reply:
        session = await self._login.session(call)
        if session is None:
            return self._pages.sign_in(PASSWORD)
        user = await self._person(session)
        form = await read_form(call)
        try:
            self._pages.check_form(call, form)
            if await self._login.lacks(session):
                return self._pages.step_up(PASSWORD)
            return await self._change(call, session, user, form)
        except ForeignOrigin as problem:
            return self._again(call, user, problem, STALE)
        except Denied as problem:
            return self._again(call, user, problem, WRONG)
        except (AccessDenied, RateLimited, BadRequest) as problem:
            return self._again(call, user, problem, said(problem))

    async def _change(self, call: Call, session: SessionView, user: User, form: Parameters) -> Reply:
        old, new = typed(form)
        done = await self._own_password.change(call, session, user, old, new)
        match done:
            case ChangeRefused():
                return self._page(call, user, done.messages or (Message("the new password was refused"),), status=400)
            case LoggedIn():
                return Reply(status=303, headers=(("Location", done.return_to), *done.headers))
        return self._pages.sign_in(ACCOUNT)  # the rules want something more: the sign-in page asks for it

    async def _person(self, session: SessionView) -> User:
        user = await self._own_password.person(session)
        if user is None:
            raise NotFound(Message("your password is not changed here; ask your administrator where"))
        return user

    def _again(self, call: Call, user: User, problem: Problem, message: Text) -> Reply:
        log_cause(self._host, problem)
        return self._page(call, user, (message,), status=problem.status, headers=tuple(problem.headers.items()))

    def _page(
        self, call: Call, user: User, problems: tuple[Text, ...] = (), *, status: int = 200, headers: tuple[tuple[str, str], ...] = ()
    ) -> Reply:
        return self._pages.page(
            call, "own_password.html", status=status, headers=headers, action=PASSWORD, username=user.username, problems=problems
        )


class PasswordPart(AccountPart):
    """The part of the account page."""

    name = "password"
    title = Message("Password")
    link = PASSWORD
    words = Message("Change your password")
    empty = Message("You sign in with a password, or may.")

    def __init__(self, own_password: OwnPassword) -> None:
        self._own_password = own_password

    async def concerns(self, session: SessionView) -> bool:
        return await self._own_password.person(session) is not None

    async def lines(self, session: SessionView) -> Sequence[AccountLine]:
        user = await self._own_password.person(session)
        if user is None or user.password_changed_at is None:
            return []
        return [AccountLine(title=Message("Set"), detail=day_and_time(user.password_changed_at))]
