"""``/ciba``: what waits for a person, each request with what it asks for, and the decision."""

from urllib.parse import quote

from greatseal.api.authorization import LoginRequired
from greatseal.api.http import Call, Handler, Owner, Parameters, Reply, Route
from greatseal.api.identity import Login, SessionView
from greatseal.api.pages import Pages
from greatseal.api.problems import BadRequest, Conflict, NotFound, Problem
from greatseal.http.csrf import FORM
from greatseal_ciba.decisions import Decisions

PAGE = "/ciba"
_LIST, _CONFIRM, _DONE = (f"greatseal_ciba/{name}.html" for name in ("list", "confirm", "done"))


class CibaPage:
    """What people see."""

    def __init__(self, login: Login, pages: Pages, decisions: Decisions, owner: Owner) -> None:
        self._login = login
        self._pages = pages
        self._decisions = decisions
        self._owner = owner

    def routes(self) -> list[Route]:
        signed_in, one = Handler("who is not signed in is led to the sign-in page"), f"{PAGE}/{{id}}"
        return [
            Route("GET", PAGE, self.list, style="page", auth=signed_in, summary="The requests that wait for the person."),
            Route("GET", one, self.show, style="page", auth=signed_in, summary="What one of them asks for.", owner=self._owner),
            Route(
                "POST",
                one,
                self.decide,
                style="page",
                auth=signed_in,
                content_types=(FORM,),
                summary="Approve or deny it.",
                owner=self._owner,
            ),
        ]

    async def list(self, call: Call) -> Reply:
        session = await self._login.session(call)
        return self._pages.sign_in(PAGE) if session is None else await self._listed(call, session)

    async def show(self, call: Call) -> Reply:
        session, id = await self._login.session(call), call.path["id"]
        if session is None:
            return self._sign_in(id)
        try:
            shown = await self._decisions.show(call, session, id)
        except LoginRequired:
            return self._sign_in(id)
        except (NotFound, Conflict) as problem:
            return await self._listed(call, session, problem)
        return self._pages.page(
            call,
            _CONFIRM,
            page=f"{PAGE}/{shown.waiting.id}",
            binding_message=shown.waiting.binding_message,
            username=session.username,
            wanted=shown.proposal,
        )

    async def decide(self, call: Call) -> Reply:
        form, id = Parameters.parse(await call.raw()), call.path["id"]
        session = await self._login.session(call)
        if session is None:
            return self._sign_in(id)
        self._pages.check_form(call, form)
        decision = form.get("decision")
        if decision not in {"approve", "deny"}:
            raise BadRequest("expected approve or deny as decision")
        try:
            await self._decisions.decide(call, session, id, "approve" if decision == "approve" else "deny")
        except LoginRequired:
            return self._sign_in(id)
        except (NotFound, Conflict) as problem:
            return await self._listed(call, session, problem)
        return self._pages.page(call, _DONE, page=PAGE, approved=decision == "approve")

    async def _listed(self, call: Call, session: SessionView, problem: Problem | None = None) -> Reply:
        return self._pages.page(
            call,
            _LIST,
            status=200 if problem is None else problem.status,
            page=PAGE,
            username=session.username,
            requests=await self._decisions.all(session),
            problem=None if problem is None else problem.message,
        )

    def _sign_in(self, id: str) -> Reply:
        return self._pages.sign_in(f"{PAGE}/{quote(id, safe='')}")
