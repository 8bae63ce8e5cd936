"""The page on which a person who is signed in proves more, and nothing twice (RFC 9470)."""

from collections.abc import Sequence
from urllib.parse import quote

from greatseal.api.declarations import Secret
from greatseal.api.factors import Factor
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import AccessDenied, Denied, Headers, SessionView
from greatseal.api.messages import Message, Text
from greatseal.api.problems import BadRequest, RateLimited
from greatseal.host import Host
from greatseal.http.csrf import FORM, ForeignOrigin
from greatseal_idp.clients.authentication import read_form
from greatseal_idp.pages.causes import said
from greatseal_idp.pages.render import Pages
from greatseal_idp.pages.return_to import SIGN_IN, STEP_UP
from greatseal_idp.sessions.login import LoginImpl
from greatseal_idp.sessions.options import script_options
from greatseal_idp.sessions.step_up import Groups, StepUp
from greatseal_idp.settings import Rbac
from greatseal_idp.ui.errands import Errand, Errands
from greatseal_idp.ui.login import STALE, WRONG_CODE

PROVE = "/login/step-up"


class StepUpPage:
    """``/ui/auth/step-up`` and ``/login/step-up``."""

    def __init__(self, host: Host, *, login: LoginImpl, pages: Pages, errands: Errands, step_up: StepUp) -> None:
        self._host = host
        self._login = login
        self._pages = pages
        self._errands = errands
        self._step_up = step_up
        self._of_admin = host.settings(Rbac).admin_acr_values

    def routes(self) -> list[Route]:
        signed_in = Handler("who is not signed in is led to the sign-in page")
        summary = "Prove what a session lacks; it goes on under a new cookie."
        return [
            Route("GET", STEP_UP, self.show, style="page", auth=signed_in, summary="The page where a session proves more."),
            Route("POST", PROVE, self.prove, style="page", auth=signed_in, content_types=(FORM,), summary=summary),
        ]

    async def show(self, call: Call) -> Reply:
        session = await self._login.session(call)
        return_to = call.query.get("return_to")
        if session is None:
            return self._pages.see_other(SIGN_IN + _query(return_to))
        errand = await self._errands.of(return_to)
        return await self._page(call, session, errand)

    async def prove(self, call: Call) -> Reply:
        form = await read_form(call)
        session = await self._login.session(call)
        return_to = form.get("return_to")
        if session is None:
            return self._pages.see_other(SIGN_IN + _query(return_to))
        errand = await self._errands.of(return_to)
        try:
            self._pages.check_form(call, form)
            factor, code = self._typed(form)
            done = await self._login.step_up(call, session, factor, code, errand.return_to)
        except ForeignOrigin:
            return await self._page(call, session, errand, STALE, status=403)
        except Denied:
            return await self._page(call, session, errand, WRONG_CODE, status=401)
        except (AccessDenied, RateLimited, BadRequest) as problem:
            words = said(problem)
            return await self._page(call, session, errand, words, status=problem.status)
        return _back(done.return_to, done.headers)

    def _typed(self, form: Parameters) -> tuple[Factor, Secret]:
        factor = self._host.components(Factor).get(form.get("factor", ""))
        if factor is None or not factor.typed or "code" not in form:
            raise BadRequest(Message("enter the code"))
        return factor, Secret("".join(form["code"].split()))

    def _asked(self, errand: Errand) -> Sequence[Groups]:
        """What is wanted where one returns to: all of it, and what must be."""
        if errand.request is not None:
            return errand.request.all_acr, errand.request.wanted_acr
        return ((self._of_admin,),) if self._of_admin else ()

    async def _page(self, call: Call, session: SessionView, errand: Errand, problem: Text | None = None, *, status: int = 200) -> Reply:
        asked = self._asked(errand)
        need = await self._step_up.need(session, asked) if asked else await self._step_up.anything(session)
        if need is None:
            return _back(errand.return_to)
        scripts = [one for one in script_options(self._host) if any(one.id == way.name for way in need.ways if not way.typed)]
        return self._pages.page(
            call,
            "step_up.html",
            status=status,
            scripts=tuple(dict.fromkeys(one.path for one in scripts)),
            action=PROVE,
            username=session.username,
            subject=session.subject,
            return_to=errand.return_to,
            factor=next((way.name for way in need.ways if way.typed), None),
            ways=scripts,
            more=need.obtainable,
            again=STEP_UP,
            problem=problem,
            **errand.shown,
        )


def _query(return_to: str | None) -> str:
    return "" if return_to is None else f"?return_to={quote(return_to, safe='')}"


def _back(return_to: str, headers: Headers = ()) -> Reply:
    return Reply(status=303, headers=(("Location", return_to), *headers))
