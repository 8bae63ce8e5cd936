"""GET /auth/external/{upstream_id}: the browser is sent to the provider (RFC 6749 s4.1.1, RFC 9126)."""

from urllib.parse import urlencode

from greatseal.api.authorization import Authorizations
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.identity import AccountRefused, Login, SessionView
from greatseal.api.messages import plural
from greatseal.api.problems import RateLimited
from greatseal.host import Host
from greatseal.net.addresses import source_of
from greatseal_federation.flow import Flow, Flows
from greatseal_federation.metadata import Metadata, MetadataStore
from greatseal_federation.pages import Refusals
from greatseal_federation.proof import Proofs
from greatseal_federation.refusals import NO_MOMENT, StoppedThere, Untrusted
from greatseal_federation.settings import StartLimit
from greatseal_federation.upstreams import Upstream, Upstreams
from greatseal_federation.wire import Wire, object_of

PATH = "/auth/external/{upstream_id}"
WINDOW = 300.0
BEGINNINGS = 10
"""How many sign-ins may begin for each that may end: many are never carried through."""
LONGEST_HINT = 256
AGAIN = frozenset({"login", "select_account"})
"""The values of prompt that ask for another sign-in."""


class Start:
    """Begins sign-ins."""

    def __init__(
        self,
        host: Host,
        upstreams: Upstreams,
        *,
        login: Login,
        authorizations: Authorizations,
        flows: Flows,
        metadata: MetadataStore,
        proofs: Proofs,
        wire: Wire,
        refusals: Refusals,
    ) -> None:
        self._host = host
        self._upstreams = upstreams
        self._login = login
        self._authorizations = authorizations
        self._flows = flows
        self._metadata = metadata
        self._proofs = proofs
        self._wire = wire
        self._refusals = refusals
        self._limit = BEGINNINGS * host.settings(StartLimit).auth_rate_limit

    def routes(self) -> list[Route]:
        why = Handler("this is where a session begins")
        return [
            Route("GET", PATH, self.start, style="page", auth=why, summary="Sign in with another provider."),
            Route("GET", f"{PATH}/jwks", self.jwks, summary="The key by which this service proves itself there (RFC 7517)."),
        ]

    async def start(self, call: Call) -> Reply:
        upstream = self._upstreams.get(call.path["upstream_id"])
        return_to = call.query.get("return_to")
        return await self._refusals.around(call, upstream, return_to, self.lead(call, upstream, return_to))

    async def jwks(self, call: Call) -> Reply:
        upstream = self._upstreams.get(call.path["upstream_id"])
        return Reply.json(self._proofs.jwks(upstream)).with_headers(("Cache-Control", "public, max-age=300"))

    async def lead(self, call: Call, upstream: Upstream, return_to: str | None, *, link: SessionView | None = None) -> Reply:
        """The redirect. Raises RateLimited, Unavailable and Untrusted. ``link`` is the session whose person links an account."""
        self._count(call)
        metadata = await self._metadata.of(upstream)
        awaited = await self._authorizations.awaited(return_to) if return_to is not None else None
        asked: dict[str, str] = {}
        # Whoever is signed in already, or has to sign in again, is asked there too: an open session there would answer for them.
        again = link is not None or await self._is_known(call)
        max_age = needed = None if awaited is None else awaited.max_age
        if awaited is not None:
            again = again or not AGAIN.isdisjoint(awaited.prompt)
            needed = 0 if "login" in awaited.prompt else max_age
            wanted = [value for value in awaited.acr if value in upstream.acr_values]
            asked |= {"acr_values": " ".join(wanted)} if wanted else {}
        # Where no moment is told, nothing but another sign-in there is one of the time that was asked for.
        again = again or (upstream.assume_auth_time and needed is not None)
        if upstream.protocol == "oauth" and needed is not None and not upstream.assume_auth_time:
            raise StoppedThere(NO_MOMENT, cause="the application sets max_age or prompt=login, and the provider tells no auth_time")
        hint = call.query.get("login_hint") or (awaited.login_hint if awaited is not None else None)
        if hint is not None and len(hint) <= LONGEST_HINT and hint.isprintable():
            asked["login_hint"] = hint
        if upstream.protocol == "openid":
            # Besides, who is asked for max_age must say when the sign-in was (OpenID Connect Core s2).
            asked |= {"max_age": str(max_age or 0)} if again or max_age is not None else {}
        if again and (prompt := upstream.again or ("login" if upstream.protocol == "openid" else None)) is not None:
            asked["prompt"] = prompt
        flow, state, headers = await self._flows.begin(
            call,
            upstream.id,
            return_to=return_to,
            max_age=needed,
            link=None if link is None else link.id,
        )
        location = await self._location(upstream, metadata, {**upstream.parameters, **asked, **self._request(upstream, flow, state)})
        return Reply(status=303, headers=(("Location", location), ("Referrer-Policy", "no-referrer"), *headers))

    async def _is_known(self, call: Call) -> bool:
        """Whether somebody is signed in; who may not be, may be somebody else after this."""
        try:
            return await self._login.session(call) is not None
        except AccountRefused:
            return True

    def _request(self, upstream: Upstream, flow: Flow, state: str) -> dict[str, str]:
        found = {
            "response_type": "code",
            "client_id": upstream.client_id,
            "redirect_uri": self._host.issuer + upstream.callback_path,
            "scope": " ".join(upstream.scopes),
            "state": state,
            "code_challenge": flow.challenge,
            "code_challenge_method": "S256",
        }
        return {**found, "nonce": flow.nonce} if upstream.protocol == "openid" else found

    async def _location(self, upstream: Upstream, metadata: Metadata, request: dict[str, str]) -> str:
        """With the request in it, or pushed where the provider takes that (RFC 9126 s4)."""
        endpoint = metadata.authorization_endpoint
        if metadata.pushed_authorization_request_endpoint is not None:
            request = await self._pushed(upstream, metadata, metadata.pushed_authorization_request_endpoint, request)
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(request)}"

    async def _pushed(self, upstream: Upstream, metadata: Metadata, endpoint: str, request: dict[str, str]) -> dict[str, str]:
        proof = await self._proofs.of(upstream, metadata)
        answer = await self._wire.ask(upstream, endpoint, form={**request, **proof.form}, headers=proof.headers)
        uri = object_of(answer, endpoint).get("request_uri")
        if not isinstance(uri, str) or not uri.isprintable() or not 1 <= len(uri) <= 512:
            raise Untrusted(f"{endpoint}: no request_uri")
        return {"client_id": upstream.client_id, "request_uri": uri}

    def _count(self, call: Call) -> None:
        """A beginning may cost the provider a request. Raises RateLimited."""
        wait = self._host.limits.hit("federation", source_of(call.remote), self._limit, WINDOW)
        if wait is not None:
            words = plural("too many attempts; try again in one second", "too many attempts; try again in %(count)d seconds", wait)
            raise RateLimited(words, headers={"Retry-After": str(wait)})
