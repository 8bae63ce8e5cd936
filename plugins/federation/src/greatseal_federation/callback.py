"""GET /internal/callback/{upstream_id}: the browser comes back (RFC 6749 s4.1.2, RFC 9207)."""

from functools import partial

from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.identity import AccessDenied, Authenticated, FactorRequired, LoggedIn, Login, PasswordExpired, SessionView
from greatseal.api.identity import Upstream as Proven
from greatseal.api.messages import Message
from greatseal.api.pages import Pages
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.net import excerpt
from greatseal_federation.accounts import Account
from greatseal_federation.exchange import Exchange
from greatseal_federation.flow import STALE, Flow, Flows
from greatseal_federation.identity import Identity
from greatseal_federation.mapping import Mapping
from greatseal_federation.metadata import Metadata, MetadataStore
from greatseal_federation.overrides import Overrides
from greatseal_federation.pages import Refusals
from greatseal_federation.refusals import StoppedThere, TooLate, Untrusted
from greatseal_federation.sessions import Sessions
from greatseal_federation.upstreams import Upstream, Upstreams

PATH = "/internal/callback/{upstream_id}"
CONNECTIONS = "/account/connections"
STOPPED = Message("you did not sign in there, or did not allow it")
LONGEST_CODE = 4096


class Callback:
    """Ends sign-ins."""

    def __init__(
        self,
        host: Host,
        upstreams: Upstreams,
        *,
        login: Login,
        pages: Pages,
        flows: Flows,
        metadata: MetadataStore,
        exchange: Exchange,
        mapping: Mapping,
        overrides: Overrides,
        sessions: Sessions,
        refusals: Refusals,
    ) -> None:
        self._host = host
        self._upstreams = upstreams
        self._login = login
        self._pages = pages
        self._flows = flows
        self._metadata = metadata
        self._exchange = exchange
        self._mapping = mapping
        self._overrides = overrides
        self._sessions = sessions
        self._refusals = refusals

    def routes(self) -> list[Route]:
        why = Handler("the other provider proves who it is")
        return [Route("GET", PATH, self.arrive, style="page", auth=why, summary="Back from another provider, with a code.")]

    async def arrive(self, call: Call) -> Reply:
        upstream = self._upstreams.get(call.path["upstream_id"])
        state = call.query.get("state")
        try:
            flow = await self._flows.read(call, upstream.id, state)
        except TooLate as problem:
            return await self._refusals.around(call, upstream, None, _raise(problem))
        return await self._refusals.around(
            call, upstream, flow.return_to, self._arrived(call, upstream, flow, state or ""), linking=flow.link is not None
        )

    async def _arrived(self, call: Call, upstream: Upstream, flow: Flow, state: str) -> Reply:
        await self._login.count(call)
        await self._flows.end(state, flow)
        metadata = await self._metadata.of(upstream)
        code = _code(call, metadata, upstream)
        identity = await self._exchange.redeem(upstream, metadata, flow, code)
        if flow.link is not None:
            return await self._link(call, identity, flow)
        account = await self._mapping.person_of(identity)
        return await self._complete(call, identity, account, flow.return_to)

    async def _complete(self, call: Call, identity: Identity, account: Account, return_to: str | None) -> Reply:
        upstream = identity.upstream
        defaults = await self._overrides.of(upstream)
        username, _, realm = account.subject.rpartition("@")
        authenticated = Authenticated(
            username=username,
            realm=realm,
            amr=identity.amr(defaults.amr),
            acr=identity.acr(defaults.acr),
            upstream=Proven(
                id=upstream.id,
                subject=identity.subject,
                session=identity.session,
                told=identity.methods,
                proven_at=identity.proven_at,
            ),
        )
        also = partial(self._begun, account=account, identity=identity)
        completed = await self._login.complete(call, authenticated, return_to, also=also)
        match completed:
            case LoggedIn():
                return Reply(status=303, headers=(("Location", completed.return_to), *completed.headers))
            case PasswordExpired():
                return await self._login.expired(call, completed, return_to)
            case FactorRequired():
                raise AccessDenied(
                    Message("your account here does not allow a sign-in through another provider; sign in in another way"),
                    cause=f"wanted: {', '.join(completed.credentials)}",
                )

    async def _link(self, call: Call, identity: Identity, flow: Flow) -> Reply:
        """For the person who began this on the account page, and is signed in still."""
        session = await self._login.session(call)
        if session is None or session.id != flow.link:
            raise TooLate(STALE, cause="the session that began to link an account has ended")
        await self._mapping.link(identity, session.subject, session.subject)
        return self._pages.see_other(CONNECTIONS)

    def _begun(self, tx: Tx, view: SessionView, *, account: Account, identity: Identity) -> None:
        self._sessions.begun(tx, view, account, identity)


def _code(call: Call, metadata: Metadata, upstream: Upstream) -> str:
    """The code of the answer. Raises StoppedThere for a refusal, Untrusted for an answer of another issuer (RFC 9207 s2.4)."""
    issuer = call.query.get("iss")
    if issuer is None and metadata.authorization_response_iss_parameter_supported:
        raise Untrusted("the answer has no iss, which the metadata promises")
    if issuer is not None and issuer not in (metadata.issuer, upstream.issuer, *upstream.also_issuers):
        raise Untrusted(f"the answer is of the issuer {excerpt(issuer)}")
    error = call.query.get("error")
    if error is not None:
        description = call.query.get("error_description", "")
        raise StoppedThere(STOPPED, cause=f"the provider says {excerpt(error)} {excerpt(description)}")
    code = call.query.get("code")
    if code is None or len(code) > LONGEST_CODE:
        raise Untrusted("the answer has neither a code nor an error")
    return code


async def _raise(problem: TooLate) -> Reply:
    raise problem
