"""The sign-in page. Who signs in is decided by the service ``LOGIN``."""

from typing import Any

from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import (
    AccessDenied,
    Authenticated,
    Authenticator,
    Continue,
    Denied,
    FactorRequired,
    Headers,
    LoggedIn,
    Login,
    LoginContext,
    NotMine,
    Password,
    PasswordAndCode,
    PasswordExpired,
)
from greatseal.api.messages import Message, Text
from greatseal.api.otp import CodeStore
from greatseal.api.problems import BadRequest, Problem, RateLimited
from greatseal.host import Host
from greatseal.http.csrf import FORM, ForeignOrigin
from greatseal_idp.authorize.request import AuthorizationRequest
from greatseal_idp.clients.authentication import read_form
from greatseal_idp.pages.causes import log_cause, said
from greatseal_idp.pages.render import Pages
from greatseal_idp.pages.return_to import FORGOT, SIGN_IN
from greatseal_idp.sessions.negotiation import Negotiation
from greatseal_idp.sessions.options import link_options, script_options
from greatseal_idp.sessions.resets import Resets
from greatseal_idp.ui.errands import Errand, Errands
from greatseal_idp.ui.steps import STEP, Steps

WRONG = Message("The user name or the password is wrong.")
WRONG_CODE = Message("The code is wrong, or it was used before.")
OVER = Message("That took too long. Please sign in again.")
STALE = Message("This page was open for too long, or cookies are switched off. Please try again.")


class LoginPages:
    """``/login`` and ``/ui/auth/login``."""

    def __init__(self, host: Host, *, login: Login, resets: Resets, pages: Pages, errands: Errands, negotiation: Negotiation) -> None:
        self._host = host
        self._login = login
        self._resets = resets
        self._pages = pages
        self._negotiation = negotiation
        self._errands = errands
        self._steps = Steps(host)

    def routes(self) -> list[Route]:
        anybody = Handler("this is where a session begins")
        show = self._negotiation.around(self.show, done=lambda signed_in: Reply(status=302, headers=(("Location", signed_in.return_to),)))
        return [
            Route("GET", "/login", self.entrance, style="page", summary="Redirects to the sign-in page."),
            Route("POST", "/login", self.sign_in, style="page", auth=anybody, content_types=(FORM,), summary="Sign in with a form."),
            Route("GET", SIGN_IN, show, style="page", auth=anybody, summary="The sign-in page."),
        ]

    async def entrance(self, call: Call) -> Reply:
        query = call.url.partition("?")[2]
        return self._pages.see_other(SIGN_IN + (f"?{query}" if query else ""), status=302)

    async def show(self, call: Call) -> Reply:
        return await self._page(call, call.query)

    async def sign_in(self, call: Call) -> Reply:
        form = await read_form(call)
        try:
            self._pages.check_form(call, form)
            return await self._sign_in(call, form)
        except ForeignOrigin:
            return await self._page(call, form, STALE, status=403)
        except Denied as problem:
            return await self._again(call, form, WRONG_CODE if STEP in form else WRONG, problem)
        except (AccessDenied, RateLimited, BadRequest) as problem:
            return await self._again(call, form, said(problem), problem)

    async def _sign_in(self, call: Call, form: Parameters) -> Reply:
        credential = await self._credential(form)
        if credential is None:
            return await self._page(call, form, OVER, status=403)
        attempted = await self._login.attempt(call, credential)
        return_to = form.get("return_to")
        match attempted:
            case Authenticated():
                completed = await self._login.complete(call, attempted, return_to)
            case PasswordExpired():
                completed = attempted
            case NotMine() | Continue():
                raise Denied
        match completed:
            case LoggedIn():
                location = ("Location", completed.return_to)
                return Reply(status=303, headers=(location, *completed.headers))
            case PasswordExpired():
                return await self._login.expired(call, completed, return_to)
            case FactorRequired():
                if completed.enrol is not None and isinstance(attempted, Authenticated):
                    return await self._login.enrol(call, attempted, completed, return_to)
                if isinstance(credential, Password) and self._takes_code(completed):
                    token, _ = self._pages.form_token(call)
                    step = await self._steps.keep(credential, token)
                    return await self._code(call, form, credential, step, headers=completed.headers)
                raise AccessDenied(self._needed(completed), headers=dict(completed.headers))

    def _needed(self, required: FactorRequired) -> Message:
        for one in script_options(self._host):
            if one.id in required.credentials:
                return Message("more than the password is needed to sign in: %(way)s", {"way": one.display_name})
        return Message("more than the password is needed to sign in")

    async def _credential(self, form: Parameters) -> Password | PasswordAndCode | None:
        """What was typed, on one page or on two; None when the first was too long ago."""
        if STEP not in form:
            if "username" not in form or "password" not in form:
                raise BadRequest(Message("enter your user name and your password"))
            return Password(username=form["username"], password=Secret(form["password"]))
        typed = await self._steps.of(form)
        if typed is None:
            return None
        if "code" not in form:
            raise BadRequest(Message("enter the code"))
        code = Secret("".join(form["code"].split()))
        return PasswordAndCode(username=typed.username, password=typed.password, code=code, remember="remember" in form)

    def _takes_code(self, required: FactorRequired) -> bool:
        offered = {one.credential for one in self._host.components(Authenticator).values()}
        return PasswordAndCode.__name__ in required.credentials and PasswordAndCode in offered

    async def _again(self, call: Call, form: Parameters, message: Text, problem: Problem) -> Reply:
        """The page that was sent, with what is wrong."""
        log_cause(self._host, problem)
        headers = tuple(problem.headers.items())
        if STEP in form and (typed := await self._steps.of(form)) is not None:
            return await self._code(call, form, typed, form[STEP], message, status=problem.status, headers=headers)
        return await self._page(call, form, message, status=problem.status, headers=headers)

    async def _code(
        self,
        call: Call,
        form: Parameters,
        typed: Password,
        step: str,
        message: Text | None = None,
        *,
        status: int = 200,
        headers: Headers = (),
    ) -> Reply:
        """The page of the second step."""
        errand = await self._errands.of(form.get("return_to"))
        return self._pages.page(
            call,
            "code.html",
            status=status,
            headers=headers,
            username=typed.username,
            step=step,
            recovery=any(store.recovery for store in self._host.components(CodeStore).values()),
            days=max((one.remembers for one in self._host.components(Authenticator).values()), default=0),
            **self._common(errand, message),
        )

    async def _page(self, call: Call, form: Parameters, message: Text | None = None, *, status: int = 200, headers: Headers = ()) -> Reply:
        errand = await self._errands.of(form.get("return_to"))
        context = LoginContext(
            call=call,
            remote=call.remote,
            client_id=errand.client.client_id if errand.client is not None else None,
            return_to=self._return_to(errand),
        )
        ways = script_options(self._host)
        return self._pages.page(
            call,
            "login.html",
            status=status,
            headers=headers,
            scripts=tuple(dict.fromkeys(way.path for way in ways)),
            ways=ways,
            username=_username(form, errand.request),
            options=await link_options(self._host, context),
            forgot=FORGOT if self._resets.offered else None,
            **self._common(errand, message),
        )

    def _common(self, errand: Errand, message: Text | None) -> dict[str, Any]:
        """What both steps show."""
        return {"return_to": self._return_to(errand), "problem": message, **errand.shown}

    def _return_to(self, errand: Errand) -> str | None:
        return errand.return_to if errand.return_to != self._errands.default else None


def _username(values: Parameters, request: AuthorizationRequest | None) -> str:
    """What was typed, or the person whom the client expects (OpenID Connect Core s3.1.2.1)."""
    if request is None:
        return values.get("username") or ""
    return values.get("username") or request.login_hint or (request.hinted or "").rpartition("@")[0]
