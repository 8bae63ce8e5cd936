"""The authorization endpoint (RFC 6749 s3.1, OpenID Connect Core s3.1.2, RFC 9700 s4)."""

from urllib.parse import quote, urlencode

import msgspec

from greatseal.api.authorization import LoginRequired, UnmetAuthenticationRequirements
from greatseal.api.clients import Client, Clients
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import AccountRefused, Login, SessionView
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Problem, RateLimited
from greatseal.api.tokens import Tokens
from greatseal.host import Host
from greatseal_idp.authorize.consents import ConsentRequired, Consents, is_implicit
from greatseal_idp.authorize.reader import Reader, asked_of
from greatseal_idp.authorize.request import Addressee, AuthorizationRequest, NotRegistered
from greatseal_idp.authorize.response import Responses
from greatseal_idp.authorize.waiting import CONSENT, PUSHED, SIGN_IN, URN, InvalidRequestUri, Kept, Spent, WaitingRequests
from greatseal_idp.clients.authentication import read_form
from greatseal_idp.extensions import NO_DETAILS, Details, Extensions
from greatseal_idp.owners import owner_of_handle
from greatseal_idp.pages.render import Pages
from greatseal_idp.pages.return_to import SIGN_IN as SIGN_IN_PAGE
from greatseal_idp.pages.return_to import STEP_UP as STEP_UP_PAGE
from greatseal_idp.scopes import Asked
from greatseal_idp.sessions.ladder import Ladder
from greatseal_idp.sessions.limits import LoginLimits
from greatseal_idp.sessions.negotiation import Negotiation
from greatseal_idp.sessions.step_up import StepUp

TRANSACTION = "transaction"
"""The parameter under which a request goes on after the sign-in."""
AGAIN = frozenset({"login", "select_account"})
"""The values of prompt that ask for another sign-in."""
UNMET = "the sign-in does not reach an acr that the client or what it asks for needs (RFC 9470 s5)"
MAX_LOCATION = 4000
"""A POST whose parameters are longer than this becomes a stored request, no query."""


class AuthorizeEndpoint:
    """``GET`` and ``POST /authorize``."""

    def __init__(
        self,
        host: Host,
        *,
        clients: Clients,
        login: Login,
        tokens: Tokens,
        extensions: Extensions,
        reader: Reader,
        waiting: WaitingRequests,
        limits: LoginLimits,
        consents: Consents,
        responses: Responses,
        pages: Pages,
        negotiation: Negotiation,
        ladder: Ladder,
        step_up: StepUp,
    ) -> None:
        self._host = host
        self._ladder = ladder
        self._step_up = step_up
        self._clients = clients
        self._login = login
        self._tokens = tokens
        self._extensions = extensions
        self._reader = reader
        self._waiting = waiting
        self._limits = limits
        self._consents = consents
        self._responses = responses
        self._pages = pages
        self._negotiation = negotiation

    def routes(self) -> list[Route]:
        anybody = Handler("who is signed in decides how the request goes on")
        authorize = self._negotiation.around(self.authorize)
        owner = owner_of_handle(self._host, (TRANSACTION, SIGN_IN), ("request_uri", PUSHED), prefix=URN)
        return [
            Route("GET", "/authorize", authorize, style="page", auth=anybody, summary="Ask for a code (RFC 6749 s4.1.1).", owner=owner),
            Route(
                "POST",
                "/authorize",
                authorize,
                style="page",
                auth=anybody,
                content_types=(),
                summary="Ask for a code, with the parameters in a form.",
                owner=owner,
            ),
        ]

    async def authorize(self, call: Call) -> Reply:
        parameters = await _parameters(call)
        self._reader.refuse_repeated(parameters)
        if TRANSACTION in parameters:
            return await self._resume(call, parameters[TRANSACTION])
        client = await self._client(parameters)
        if "request_uri" in parameters and parameters["request_uri"].startswith(URN):
            kept = await self._pushed(parameters["request_uri"], client)
            return await self._go_on(call, kept, client, parameters)
        try:
            asking = await self._reader.opened(call, parameters, client)
        except Problem as problem:
            if "redirect_uri" not in parameters:
                raise
            return await self._refuse(call, self._reader.addressee(parameters, client), client, problem)
        to = self._reader.addressee(asking.given, client)
        # From here on the client is told, by redirect.
        try:
            request = await self._reader.checked(asking, to)
        except Problem as problem:
            return await self._refuse(call, to, client, problem)
        return await self._go_on(call, Kept(request=request), client, parameters)

    async def _refuse(self, call: Call, to: Addressee, client: Client, problem: Problem) -> Reply:
        """Tell the client. One that anybody may have published is told by somebody who is signed in, and else it is shown here.

        Otherwise a link to this service would lead to whatever page a stranger named (RFC 9700 s4.11.2).
        """
        if client.host is not None and await self._session(call) is None:
            raise problem
        return await self._responses.refuse(call, to, problem)

    async def _session(self, call: Call) -> SessionView | None:
        """The session of the call; none where its person may not use it: somebody else may sit there by now, and is asked to sign in."""
        try:
            return await self._login.session(call)
        except AccountRefused:
            return None

    async def _client(self, parameters: Parameters) -> Client:
        client_id = parameters.get("client_id")
        if client_id is None:
            raise BadRequest("client_id required")
        client = await self._clients.get(client_id)
        if client is None:
            raise BadRequest("client_id names no client of this service (RFC 6749 s4.1.1)")
        return client

    async def _pushed(self, request_uri: str, client: Client) -> Kept:
        """What was pushed; every other parameter beside client_id is ignored (RFC 9126 s4)."""
        waiting = await self._waiting.find(PUSHED, request_uri.removeprefix(URN))
        if waiting is None or waiting.client_id != client.client_id:
            raise InvalidRequestUri(
                "the request_uri is unknown, too old, used or of another client; start again at the application (RFC 9126 s4)"
            )
        await self._reader.client_of(waiting.kept.request.to)
        return waiting.resumed

    async def _resume(self, call: Call, handle: str) -> Reply:
        waiting = await self._waiting.find(SIGN_IN, handle)
        if waiting is None:
            raise Spent("this sign-in is too old, or it was answered before; start again at the application")
        client = await self._reader.client_of(waiting.kept.request.to)
        return await self._go_on(call, waiting.resumed, client, None, since=waiting.created_at, handle=handle)

    async def _go_on(
        self, call: Call, kept: Kept, client: Client, parameters: Parameters | None, *, since: int = 0, handle: str | None = None
    ) -> Reply:
        """Answer a checked request: sign-in, consent, or a code. ``since`` is when one with a ``handle`` began to wait."""
        try:
            session = await self._session(call)
            if session is None and call.method == "POST" and parameters is not None:
                return await self._as_get(call, kept, parameters)
            now = self._host.clock.now()
            fresh = session is not None and _is_for(kept, session, since, now)
            problem = _unfit(kept.request, session, now, fresh=fresh, again=AGAIN.union(self._extensions.prompts))
            if problem is not None or session is None:
                if "none" in kept.request.prompt or fresh:
                    raise problem or LoginRequired("nobody is signed in (OpenID Connect Core s3.1.2.6)")
                return await self._sign_in(call, kept, session, handle)
            page = await self._stronger(kept.request, session, fresh=fresh)
            if page is not None:
                return await self._sign_in(call, kept, session, handle, page)
            authorized = await self._authorize(call, kept, client, session)
        except (NotRegistered, RateLimited, Spent):
            raise
        except Problem as problem:
            return await self._responses.refuse(call, kept.request.to, problem)
        return authorized if isinstance(authorized, Reply) else await self._responses.code(call, kept.request.to, authorized)

    async def _authorize(self, call: Call, kept: Kept, client: Client, session: SessionView) -> str | Reply:
        """The code, or what asks the person first."""
        request = kept.request
        asked = await self.permitted(call, request, client, session)
        details = await self.details(request, client, session)
        covered = await self._consents.cover(session, client, asked, details, request.to.redirect_uri)
        if covered and "consent" not in request.prompt:
            return await self._consents.issue(kept, session, client, asked, details=details, approved=False)
        if "none" in request.prompt:
            raise ConsentRequired("the person has not allowed this client what it asks for (OpenID Connect Core s3.1.2.6)")
        await self._limits.consent(session.id)
        handle = await self._waiting.keep(CONSENT, kept, session)
        return self._pages.see_other(f"/api/auth/consent?consent_id={quote(handle)}")

    async def permitted(self, call: Call, request: AuthorizationRequest, client: Client, session: SessionView) -> Asked:
        """The scopes that the client may have of this person now. Raises InvalidScope, AccessDenied, Unavailable."""
        asked = await self._reader.current_scopes(request, client)
        return asked.permitted(await self._tokens.permitted(asked_of(client, session, asked, call.remote)))

    async def details(self, request: AuthorizationRequest, client: Client, session: SessionView) -> Details:
        """What the person is asked about beside the scopes; nobody is asked about a client with implicit consent."""
        return NO_DETAILS if is_implicit(client) else await self._extensions.shown(request.more, session.subject)

    async def _stronger(self, request: AuthorizationRequest, session: SessionView, *, fresh: bool) -> str | None:
        """The page where the session becomes what the request wants, None when it is.

        A wish that cannot be had is none; what must be and cannot is refused (OpenID Connect Core s5.5.1.1): LoginRequired where the
        person may not be asked and another request could have it, else UnmetAuthenticationRequirements.
        """
        must, silent = request.wanted_acr, "none" in request.prompt
        if self._ladder.meets(session.acr, must if silent else request.all_acr):
            return None
        if silent:
            if all(any(map(self._ladder.knows, wanted)) for wanted in must):
                raise LoginRequired("a stronger sign-in is needed: the person must be asked (OpenID Connect Core s3.1.2.6, RFC 9470 s5)")
            raise UnmetAuthenticationRequirements(UNMET)
        need = await self._step_up.need(session, (request.all_acr, must))
        if need is None:
            return None
        if need.ways or need.obtainable:
            return STEP_UP_PAGE
        if fresh:
            raise UnmetAuthenticationRequirements(UNMET)
        return SIGN_IN_PAGE

    async def _sign_in(self, call: Call, kept: Kept, session: SessionView | None, handle: str | None, page: str | None = None) -> Reply:
        before = sign_in_of(session) if session is not None else ""
        if handle is None or kept.before is None or before not in {"", kept.before}:
            handle = await self._wait(call, msgspec.structs.replace(kept, before=before))
        page = page or next((path for prompt, path in self._extensions.prompts.items() if prompt in kept.request.prompt), SIGN_IN_PAGE)
        return self._pages.see_other(f"{page}?return_to={quote(self._return_to(handle), safe='')}")

    async def _wait(self, call: Call, kept: Kept) -> str:
        """Keep a request of somebody who may be anybody; its handle."""
        await self._limits.request(call.remote)
        return await self._waiting.keep(SIGN_IN, kept)

    def _return_to(self, handle: str) -> str:
        """Where a request goes on after the sign-in."""
        return f"{self._pages.prefix}/authorize?{TRANSACTION}={quote(handle)}"

    async def waiting_at(self, return_to: str) -> AuthorizationRequest | None:
        """The request that a sign-in with this ``return_to`` is for."""
        before, _, handle = return_to.partition(f"?{TRANSACTION}=")
        waiting = await self._waiting.find(SIGN_IN, handle) if before == f"{self._pages.prefix}/authorize" else None
        return waiting.kept.request if waiting is not None else None

    async def _as_get(self, call: Call, kept: Kept, parameters: Parameters) -> Reply:
        """A POST from another site comes without the cookie of a session that may well exist: ask again as GET."""
        query = urlencode([(name, value) for name in parameters for value in parameters.all(name)])
        # What was opened once is not read again: its single use would be lost, and with it what it proves.
        if len(query) > MAX_LOCATION or not self._extensions.openers.keys().isdisjoint(parameters):
            query = urlencode({TRANSACTION: await self._wait(call, msgspec.structs.replace(kept, before=None))})
        return self._pages.see_other(f"/authorize?{query}")


def sign_in_of(session: SessionView) -> str:
    """What tells a sign-in from the ones before it in the same session."""
    return f"{session.id} {session.signed_in_at}"


def _is_for(kept: Kept, session: SessionView, since: int, now: int) -> bool:
    """Whether somebody signed in for this very request, after it began to wait, as freshly as it asks.

    The moments alone do not tell: one from before the clock was set back looks later.
    """
    if kept.before is None or sign_in_of(session) == kept.before or not since <= session.signed_in_at <= now:
        return False
    age = 0 if "login" in kept.request.prompt else kept.request.max_age
    return age is None or session.was_proven(since - age * SECOND, now)


def _unfit(request: AuthorizationRequest, session: SessionView | None, now: int, *, fresh: bool, again: frozenset[str]) -> Problem | None:
    """Why the session does not do for the request; None when it does. One that is ``fresh`` satisfies prompt and max_age.

    ``again`` are the values of prompt for which no older one does.
    """
    if session is None:
        return LoginRequired("nobody is signed in (OpenID Connect Core s3.1.2.6)")
    if not fresh and not again.isdisjoint(request.prompt):
        return LoginRequired("the person must sign in again (OpenID Connect Core s3.1.2.1)")
    if not fresh and request.max_age is not None and not session.was_proven(now - request.max_age * SECOND, now):
        return LoginRequired("the last sign-in is too long ago (OpenID Connect Core s3.1.2.1)")
    if request.wanted_subject not in {None, session.subject}:
        return LoginRequired("somebody else is signed in (OpenID Connect Core s3.1.2.1)")
    return None


async def _parameters(call: Call) -> Parameters:
    if call.method != "POST":
        return call.query
    if len(call.query):
        raise BadRequest("the parameters of a POST belong into its body alone (OpenID Connect Core s13.2)")
    return await read_form(call)
