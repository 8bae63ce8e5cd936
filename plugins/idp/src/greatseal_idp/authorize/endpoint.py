"""The authorization endpoint (RFC 6749 s3.1, OpenID Connect Core s3.1.2, RFC 9700 s4)."""

from urllib.parse import quote, urlencode

import msgspec

from greatseal.api.clients import Client
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import SessionView
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Problem, RateLimited
from greatseal.api.tokens import GrantQuestion
from greatseal.host import Host
from greatseal_idp.authorize.consents import ConsentRequired, Consents, LoginRequired
from greatseal_idp.authorize.parts import Parts
from greatseal_idp.authorize.reader import Reader
from greatseal_idp.authorize.request import AuthorizationRequest, NotRegistered, addressee, refuse_repeated
from greatseal_idp.authorize.response import Responses
from greatseal_idp.authorize.waiting import CONSENT, PUSHED, SIGN_IN, URN, InvalidRequestUri, Kept, Spent, WaitingRequests
from greatseal_idp.clients.authentication import read_form
from greatseal_idp.scopes import Asked
from greatseal_idp.sessions.limits import LoginLimits

TRANSACTION = "transaction"
"""The parameter under which a request goes on after the sign-in."""
MAX_LOCATION = 4000
"""A POST whose parameters are longer than this becomes a stored request, no query."""


class UnmetAuthenticationRequirements(BadRequest):
    """No way to sign in gives an acr that the client calls essential (OpenID Connect unmet_authentication_requirements)."""

    error = "unmet_authentication_requirements"


class AuthorizeEndpoint:
    """``GET`` and ``POST /authorize``."""

    def __init__(self, host: Host, provider: Parts) -> None:
        self._host = host
        self._provider = provider
        self._pages = provider.pages
        self.waiting = WaitingRequests(host)
        self.limits = LoginLimits(host)
        self.reader = Reader(host, provider)
        self.consents = Consents(host, provider.codes, provider.endings, self.reader)
        self.responses = Responses(host.issuer, provider.pages)

    def routes(self) -> list[Route]:
        anybody = Handler("who is signed in decides how the request goes on")
        return [
            Route("GET", "/authorize", self.authorize, style="page", auth=anybody, summary="Ask for a code (RFC 6749 s4.1.1)."),
            Route(
                "POST",
                "/authorize",
                self.authorize,
                style="page",
                auth=anybody,
                content_types=(),
                summary="Ask for a code, with the parameters in a form.",
            ),
        ]

    async def authorize(self, call: Call) -> Reply:
        try:
            return await self._answer(call)
        except Problem as problem:
            return self._pages.refusal(call, problem)

    async def _answer(self, call: Call) -> Reply:
        parameters = await _parameters(call)
        refuse_repeated(parameters)
        if TRANSACTION in parameters:
            return await self._resume(call, parameters[TRANSACTION])
        client = await self._client(parameters)
        if "request_uri" in parameters and parameters["request_uri"].startswith(URN):
            kept = await self._pushed(parameters["request_uri"], client)
            return await self._go_on(call, kept, client, parameters)
        to = addressee(parameters, client)
        # From here on the client is told, by redirect.
        try:
            request = await self.reader.read(parameters, to, client)
        except Problem as problem:
            return self.responses.refuse(call, to, problem)
        return await self._go_on(call, Kept(request=request), client, parameters)

    async def _client(self, parameters: Parameters) -> Client:
        client_id = parameters.get("client_id")
        if client_id is None:
            raise BadRequest("client_id required")
        client = await self._provider.clients.get(client_id)
        if client is None:
            raise BadRequest("client_id names no client of this service")
        return client

    async def _pushed(self, request_uri: str, client: Client) -> Kept:
        """What was pushed; every other parameter beside client_id is ignored (RFC 9126 s4)."""
        waiting = await self.waiting.find(PUSHED, request_uri.removeprefix(URN))
        if waiting is None or waiting.client_id != client.client_id:
            raise InvalidRequestUri("the request_uri is unknown, too old, used or of another client; start again at the application")
        await self.reader.client_of(waiting.kept.request.to)
        return waiting.resumed

    async def _resume(self, call: Call, handle: str) -> Reply:
        waiting = await self.waiting.find(SIGN_IN, handle)
        if waiting is None:
            raise Spent("this sign-in is too old, or it was answered before; start again at the application")
        client = await self.reader.client_of(waiting.kept.request.to)
        return await self._go_on(call, waiting.resumed, client, None, since=waiting.created_at, handle=handle)

    async def _go_on(
        self, call: Call, kept: Kept, client: Client, parameters: Parameters | None, *, since: int = 0, handle: str | None = None
    ) -> Reply:
        """Answer a checked request: sign-in, consent, or a code. ``since`` is when one with a ``handle`` began to wait."""
        try:
            session = await self._provider.login.session(call)
            if session is None and call.method == "POST" and parameters is not None:
                return await self._as_get(call, kept, parameters)
            now = self._host.clock.now()
            fresh = session is not None and _is_for(kept, session, since, now)
            problem = _unfit(kept.request, session, now, fresh=fresh)
            if problem is None and session is not None:
                return await self._authorize(call, kept, client, session)
            if "none" in kept.request.prompt or fresh:
                raise problem or LoginRequired("nobody is signed in")
            return await self._sign_in(call, kept, session, handle)
        except (NotRegistered, RateLimited, Spent):
            raise
        except Problem as problem:
            return self.responses.refuse(call, kept.request.to, problem)

    async def _authorize(self, call: Call, kept: Kept, client: Client, session: SessionView) -> Reply:
        request = kept.request
        asked = await self.permitted(call, request, client, session)
        covered = await self.consents.cover(session, client, asked.all, request.to.redirect_uri)
        if covered and "consent" not in request.prompt:
            code = await self.consents.issue(kept, session, client, asked, approved=False)
            return self.responses.code(call, request.to, code)
        if "none" in request.prompt:
            raise ConsentRequired("the person has not allowed this client what it asks for")
        await self.limits.consent(session.id)
        handle = await self.waiting.keep(CONSENT, kept, session)
        return self._pages.see_other(f"/api/auth/consent?consent_id={quote(handle)}")

    async def permitted(self, call: Call, request: AuthorizationRequest, client: Client, session: SessionView) -> Asked:
        """The scopes that the client may have of this person now. Raises InvalidScope, AccessDenied, Unavailable."""
        asked = await self.reader.current_scopes(request, client)
        question = GrantQuestion(
            phase="authorize",
            subject=session.subject,
            client=client,
            scopes=frozenset(asked.all),
            remote=call.remote,
            amr=session.amr,
            auth_time=session.auth_time,
        )
        return asked.permitted(await self._provider.tokens.permitted(question))

    async def _sign_in(self, call: Call, kept: Kept, session: SessionView | None, handle: str | None) -> Reply:
        before = sign_in_of(session) if session is not None else ""
        if handle is None or kept.before is None or before not in {"", kept.before}:
            handle = await self._wait(call, msgspec.structs.replace(kept, before=before))
        return self._pages.see_other(f"/ui/auth/login?return_to={quote(self.return_to(handle), safe='')}")

    async def _wait(self, call: Call, kept: Kept) -> str:
        """Keep a request of somebody who may be anybody; its handle."""
        await self.limits.request(call.remote)
        return await self.waiting.keep(SIGN_IN, kept)

    def return_to(self, handle: str) -> str:
        """Where a request goes on after the sign-in."""
        return f"{self._pages.prefix}/authorize?{TRANSACTION}={quote(handle)}"

    async def waiting_at(self, return_to: str) -> AuthorizationRequest | None:
        """The request that a sign-in with this ``return_to`` is for."""
        before, _, handle = return_to.partition(f"?{TRANSACTION}=")
        waiting = await self.waiting.find(SIGN_IN, handle) if before == f"{self._pages.prefix}/authorize" else None
        return waiting.kept.request if waiting is not None else None

    async def _as_get(self, call: Call, kept: Kept, parameters: Parameters) -> Reply:
        """A POST from another site comes without the cookie of a session that may well exist: ask again as GET."""
        query = urlencode([(name, value) for name in parameters for value in parameters.all(name)])
        if len(query) > MAX_LOCATION:
            query = urlencode({TRANSACTION: await self._wait(call, msgspec.structs.replace(kept, before=None))})
        return self._pages.see_other(f"/authorize?{query}")


def sign_in_of(session: SessionView) -> str:
    """What tells a sign-in from the ones before it in the same session."""
    return f"{session.id} {session.signed_in_at}"


def _is_for(kept: Kept, session: SessionView, since: int, now: int) -> bool:
    """Whether somebody signed in for this very request, after it began to wait.

    The moments alone do not tell: one from before the clock was set back looks later.
    """
    return kept.before is not None and sign_in_of(session) != kept.before and since <= session.signed_in_at <= now


def _unfit(request: AuthorizationRequest, session: SessionView | None, now: int, *, fresh: bool) -> Problem | None:
    """Why the session does not do for the request; None when it does. One that is ``fresh`` satisfies prompt and max_age."""
    if session is None:
        return LoginRequired("nobody is signed in")
    if not fresh and ("login" in request.prompt or "select_account" in request.prompt):
        return LoginRequired("the person must sign in again")
    if not fresh and request.max_age is not None and not 0 <= now - session.signed_in_at <= request.max_age * SECOND:
        return LoginRequired("the last sign-in is too long ago")
    if request.wanted_subject not in {None, session.subject}:
        return LoginRequired("somebody else is signed in")
    if (wanted := request.essential_acr) and session.acr not in wanted:
        return UnmetAuthenticationRequirements("the sign-in does not reach an acr that the client calls essential")
    return None


async def _parameters(call: Call) -> Parameters:
    if call.method != "POST":
        return call.query
    if len(call.query):
        raise BadRequest("the parameters of a POST belong into its body alone")
    return await read_form(call)
