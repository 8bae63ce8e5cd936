"""``/device`` (RFC 8628 s3.3): the code is entered, shown with what is asked for, and confirmed, also when the link brought it (s5.4)."""

from urllib.parse import quote

from greatseal.api.authorization import LoginRequired
from greatseal.api.http import Call, Handler, Owner, Parameters, Reply, Route
from greatseal.api.identity import Login, SessionView
from greatseal.api.pages import Pages
from greatseal.api.problems import BadRequest, Conflict, NotFound, Problem, RateLimited
from greatseal.http.csrf import FORM
from greatseal_device_flow.decisions import Decisions
from greatseal_device_flow.endpoint import PAGE
from greatseal_device_flow.user_codes import LONGEST

_ENTER, _CONFIRM, _DONE = (f"greatseal_device_flow/{name}.html" for name in ("enter", "confirm", "done"))


class DevicePage:
    """What people see."""

    def __init__(self, login: Login, pages: Pages, decisions: Decisions, owner: Owner) -> None:
        self._login = login
        self._pages = pages
        self._decisions = decisions
        self._owner = owner

    def routes(self) -> list[Route]:
        signed_in = Handler("who is not signed in is led to the sign-in page")
        return [
            Route("GET", PAGE, self.show, style="page", auth=signed_in, summary="Enter the code of a device.", owner=self._owner),
            Route(
                "POST",
                PAGE,
                self.answer,
                style="page",
                auth=signed_in,
                content_types=(FORM,),
                summary="See what a device asks for, and decide.",
                owner=self._owner,
            ),
        ]

    async def show(self, call: Call) -> Reply:
        session, typed = await self._login.session(call), call.query.get("user_code", "")
        if session is None:
            return self._sign_in(typed)
        return await self._confirm(call, session, typed) if typed else self._enter(call)

    async def answer(self, call: Call) -> Reply:
        form = Parameters.parse(await call.raw())
        session, typed = await self._login.session(call), form.get("user_code", "")
        if session is None:
            return self._sign_in(typed)
        self._pages.check_form(call, form)
        decision = form.get("decision")
        if decision is None:
            return await self._confirm(call, session, typed)
        if decision not in {"approve", "deny"}:
            raise BadRequest("expected approve or deny as decision")
        try:
            await self._decisions.decide(call, session, typed, "approve" if decision == "approve" else "deny")
        except LoginRequired:
            return self._sign_in(typed)
        except (NotFound, Conflict, RateLimited) as problem:
            return self._enter(call, problem, typed)
        return self._pages.page(call, _DONE, approved=decision == "approve")

    async def _confirm(self, call: Call, session: SessionView, typed: str) -> Reply:
        try:
            shown = await self._decisions.show(call, session, typed)
        except LoginRequired:
            return self._sign_in(typed)
        except (NotFound, Conflict, RateLimited) as problem:
            return self._enter(call, problem, typed)
        return self._pages.page(
            call,
            _CONFIRM,
            page=PAGE,
            user_code=shown.user_code,
            username=session.username,
            wanted=shown.proposal,
        )

    def _enter(self, call: Call, problem: Problem | None = None, typed: str = "") -> Reply:
        headers = () if problem is None else tuple(problem.headers.items())
        status = 200 if problem is None else problem.status
        said = None if problem is None else problem.message
        return self._pages.page(call, _ENTER, status=status, headers=headers, page=PAGE, problem=said, typed=typed[:LONGEST])

    def _sign_in(self, typed: str) -> Reply:
        return self._pages.sign_in(f"{PAGE}?user_code={quote(typed, safe='')}" if typed else PAGE)
