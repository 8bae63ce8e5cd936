"""The sign-in page (reference 17.3, ruling R98). Who signs in is decided by the service ``LOGIN``."""

from http import HTTPStatus

from greatseal.api.clients import Clients
from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import (
    AccessDenied,
    Authenticated,
    Continue,
    Denied,
    FactorRequired,
    LoggedIn,
    Login,
    LoginContext,
    NotMine,
    Password,
    PasswordExpired,
)
from greatseal.api.problems import BadRequest, Problem, RateLimited
from greatseal.host import Host
from greatseal.http.csrf import FORM, ForeignOrigin
from greatseal_idp.authorize.endpoint import AuthorizeEndpoint
from greatseal_idp.authorize.request import AuthorizationRequest
from greatseal_idp.clients.authentication import read_form
from greatseal_idp.pages.forms import Forms
from greatseal_idp.pages.render import Pages, form_sources
from greatseal_idp.sessions.options import link_options
from greatseal_idp.sessions.return_to import default_return_to, safe_return_to

WRONG = "The user name or the password is wrong."
STALE = "This page was open for too long, or cookies are switched off. Please try again."


class LoginPages:
    """``/login`` and ``/ui/auth/login``."""

    def __init__(self, host: Host, *, login: Login, clients: Clients, pages: Pages, forms: Forms, authorize: AuthorizeEndpoint) -> None:
        self._host = host
        self._login = login
        self._clients = clients
        self._pages = pages
        self._forms = forms
        self._authorize = authorize
        self._default = default_return_to(host.issuer)

    def routes(self) -> list[Route]:
        anybody = Handler("this is where a session begins")
        return [
            Route("GET", "/login", self.entrance, style="page", summary="Redirects to the sign-in page."),
            Route("POST", "/login", self.sign_in, style="page", auth=anybody, content_types=(FORM,), summary="Sign in with a form."),
            Route("GET", "/ui/auth/login", self.show, style="page", auth=anybody, summary="The sign-in page."),
        ]

    async def entrance(self, call: Call) -> Reply:
        query = call.url.partition("?")[2]
        return self._pages.see_other("/ui/auth/login" + (f"?{query}" if query else ""), status=302)

    async def show(self, call: Call) -> Reply:
        try:
            return await self._page(call, call.query)
        except Problem as problem:
            return self._pages.refusal(call, problem)

    async def sign_in(self, call: Call) -> Reply:
        form = await read_form(call)
        try:
            self._forms.check(call, form)
            return await self._sign_in(call, form)
        except ForeignOrigin:
            return await self._page(call, form, STALE, status=403)
        except Denied as problem:
            return await self._page(call, form, WRONG, status=401, problem=problem)
        except (AccessDenied, RateLimited, BadRequest) as problem:
            return await self._page(call, form, problem.detail or HTTPStatus(problem.status).phrase, status=problem.status, problem=problem)
        except Problem as problem:
            return self._pages.refusal(call, problem)

    async def _sign_in(self, call: Call, form: Parameters) -> Reply:
        if "username" not in form or "password" not in form:
            raise BadRequest("enter your user name and your password")
        credential = Password(username=form["username"], password=Secret(form["password"]))
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
                raise AccessDenied("more than the password is needed to sign in", headers=dict(completed.headers))

    async def _page(
        self, call: Call, values: Parameters, message: str | None = None, *, status: int = 200, problem: Problem | None = None
    ) -> Reply:
        token, headers = self._forms.token(call)
        return_to = safe_return_to(values.get("return_to"), default=self._default)
        request = await self._authorize.waiting_at(return_to)
        client = await self._clients.get(request.to.client_id) if request is not None else None
        context = LoginContext(call=call, remote=call.remote, client_id=client.client_id if client is not None else None)
        return self._pages.page(
            "login",
            status=status,
            form_targets=form_sources(request.to.redirect_uri) if request is not None else (),
            headers=(*headers, *(problem.headers.items() if problem is not None else ())),
            form_token=token,
            client_name=(client.client_name or client.client_id) if client is not None else None,
            username=_username(values, request),
            return_to=return_to if return_to != self._default else None,
            problem=message,
            options=await link_options(self._host, context),
        )


def _username(values: Parameters, request: AuthorizationRequest | None) -> str:
    """What was typed, or the person whom the client expects (OpenID Connect Core s3.1.2.1)."""
    if request is None:
        return values.get("username") or ""
    return values.get("username") or request.login_hint or (request.hinted or "").rpartition("@")[0]
