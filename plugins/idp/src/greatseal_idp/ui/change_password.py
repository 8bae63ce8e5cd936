"""The page on which a person whose password has expired chooses a new one."""

from urllib.parse import quote

from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import (
    AccessDenied,
    ChangeRefused,
    Denied,
    ExpiredTicket,
    FactorRequired,
    Headers,
    LoggedIn,
    PasswordChanger,
    PasswordExpired,
)
from greatseal.api.messages import Message, Text
from greatseal.api.problems import BadRequest, Problem, RateLimited
from greatseal.host import Host
from greatseal.http.csrf import FORM, ForeignOrigin
from greatseal_idp.clients.authentication import read_form
from greatseal_idp.pages.causes import log_cause, said
from greatseal_idp.pages.render import Pages
from greatseal_idp.pages.return_to import CHANGE, SIGN_IN
from greatseal_idp.sessions.login import LoginImpl
from greatseal_idp.ui.errands import Errands
from greatseal_idp.ui.login import STALE

WRONG = Message("The old password is wrong.")


class ChangePasswordPage:
    """``/login/change-password``, for who has the ticket of a sign-in with the old password."""

    def __init__(self, host: Host, *, login: LoginImpl, pages: Pages, errands: Errands) -> None:
        self._host = host
        self._login = login
        self._pages = pages
        self._errands = errands

    def routes(self) -> list[Route]:
        """None where nobody can change a password."""
        if not self._host.components(PasswordChanger):
            return []
        ticket = Handler("the ticket of a sign-in with the old password says who may")
        return [
            Route("GET", CHANGE, self.show, style="page", auth=ticket, summary="The page for a password that has expired."),
            Route(
                "POST",
                CHANGE,
                self.change,
                style="page",
                auth=ticket,
                content_types=(FORM,),
                summary="Change an expired password and sign in with the new one.",
            ),
        ]

    async def show(self, call: Call) -> Reply:
        ticket = await self._ticket(call)
        return self._to_sign_in(call.query.get("next")) if ticket is None else await self._page(call, ticket)

    async def change(self, call: Call) -> Reply:
        form = await read_form(call)
        ticket = await self._ticket(call)
        if ticket is None:
            return self._to_sign_in(form.get("next"))
        try:
            self._pages.check_form(call, form)
            return await self._change(call, form, ticket)
        except ForeignOrigin as problem:
            return await self._again(call, ticket, problem, STALE)
        except Denied as problem:
            return await self._again(call, ticket, problem, WRONG)
        except (AccessDenied, RateLimited, BadRequest) as problem:
            return await self._again(call, ticket, problem, said(problem))

    async def _ticket(self, call: Call) -> ExpiredTicket | None:
        ticket = await self._login.ticket(call)
        return ticket if ticket is not None and ticket.changer in self._host.components(PasswordChanger) else None

    async def _change(self, call: Call, form: Parameters, ticket: ExpiredTicket) -> Reply:
        old, new = typed(form)
        changed = await self._login.change(call, ticket, old, new)
        if isinstance(changed, ChangeRefused):
            return await self._page(call, ticket, changed.messages or (Message("the new password was refused"),), status=400)
        completed = await self._login.complete(call, changed, ticket.return_to)
        match completed:
            case LoggedIn():
                return Reply(status=303, headers=(("Location", completed.return_to), *completed.headers))
            case PasswordExpired():
                return await self._login.expired(call, completed, ticket.return_to)
            case FactorRequired():
                if completed.enrol is not None:
                    return await self._login.enrol(call, changed, completed, ticket.return_to)
                return self._to_sign_in(ticket.return_to, completed.headers)

    async def _again(self, call: Call, ticket: ExpiredTicket, problem: Problem, message: Text) -> Reply:
        log_cause(self._host, problem)
        return await self._page(call, ticket, (message,), status=problem.status, headers=tuple(problem.headers.items()))

    async def _page(
        self, call: Call, ticket: ExpiredTicket, problems: tuple[Text, ...] = (), *, status: int = 200, headers: Headers = ()
    ) -> Reply:
        errand = await self._errands.of(ticket.return_to)
        return self._pages.page(
            call,
            "change_password.html",
            status=status,
            headers=headers,
            action=CHANGE,
            username=ticket.username,
            next=errand.return_to,
            problems=problems,
            **errand.shown,
        )

    def _to_sign_in(self, return_to: str | None, headers: Headers = ()) -> Reply:
        query = "" if return_to is None else f"?return_to={quote(return_to, safe='')}"
        return self._pages.see_other(SIGN_IN + query, headers=headers)


def typed(form: Parameters) -> tuple[Secret, Secret]:
    """The old password and the new one. Raises BadRequest unless they are there, and differ."""
    old, new = form.get("old_password"), form.get("new_password")
    if old is None or new is None:
        raise BadRequest(Message("enter the old password and the new one"))
    if form.get("new_password_again", new) != new:
        raise BadRequest(Message("the new password and its repetition differ"))
    if new == old:
        raise BadRequest(Message("the new password is the old one; choose another"))
    return Secret(old), Secret(new)
