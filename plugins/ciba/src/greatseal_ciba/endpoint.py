"""``POST /bc-authorize`` (CIBA Core s7): a client asks a person who is somewhere else."""

from greatseal.api.audit import AuditEvent
from greatseal.api.authorization import Authorizations
from greatseal.api.clients import Client, Clients
from greatseal.api.directory import Directories
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.problems import RateLimited
from greatseal.api.tokens import InvalidScope, UnauthorizedClient
from greatseal.host import Host
from greatseal_ciba import parameters
from greatseal_ciba.parameters import UnknownUserId, Wanted
from greatseal_ciba.registration import GRANT_TYPE
from greatseal_ciba.requests import CibaRequests

PATH = "/bc-authorize"
WINDOW = 300.0
LONGEST_NAME = 256
NOBODY = "nobody who can sign in here is meant by the hint"


class CibaEndpoint:
    """What clients call. ``most`` is how often one may ask one person in 300 s, 0 for any number."""

    def __init__(
        self,
        host: Host,
        clients: Clients,
        directories: Directories,
        authorizations: Authorizations,
        requests: CibaRequests,
        *,
        most: int,
    ) -> None:
        self._host = host
        self._clients = clients
        self._directories = directories
        self._authorizations = authorizations
        self._requests = requests
        self._most = most

    def routes(self) -> list[Route]:
        return [
            Route(
                "POST",
                PATH,
                self.begin,
                style="oauth",
                auth=Handler("the client proves itself as at the token endpoint (CIBA Core s7.1)"),
                content_types=(),
                summary="Ask a person to be signed in (CIBA Core s7.1).",
            )
        ]

    async def begin(self, call: Call) -> Reply:
        request = await self._clients.authenticate(call)
        client = request.client
        if GRANT_TYPE not in client.grant_types or client.token_endpoint_auth_method == "none":  # noqa: S105  # the name of a method
            raise UnauthorizedClient("the client is not registered for this grant_type with a way to prove itself (CIBA Core s7.1)")
        if not client.is_administered:
            raise UnauthorizedClient("only a client that an administrator registered asks people by CIBA (RFC 6749 s5.2)")
        given = await self._authorizations.open(request, "backchannel")
        asked = await self._authorizations.read(request, "backchannel", given=given)
        if "openid" not in asked.scopes:
            raise InvalidScope("scope: openid must be among them (CIBA Core s7.1)")
        wanted = parameters.read(given, client)
        subject = await self._meant(wanted, client)
        await self._count(client, subject)
        begun = await self._requests.begin(asked, wanted, subject)
        return Reply.json(begun).with_headers(("Cache-Control", "no-store"), ("Pragma", "no-cache"), *request.match.headers)

    async def _meant(self, wanted: Wanted, client: Client) -> str:
        """The subject of the hint (s7.2). Raises UnknownUserId; BadRequest for an ID token that is none of the client's."""
        kind, hint = wanted.hint
        if kind == "id_token_hint":
            return self._authorizations.hinted(hint, client)
        if len(hint) > LONGEST_NAME or not hint.isprintable():
            raise UnknownUserId(NOBODY)
        user = await self._directories.user(hint)
        if user is None or user.state.disabled or user.state.locked or user.state.expired:
            raise UnknownUserId(NOBODY)
        return user.subject

    async def _count(self, client: Client, subject: str) -> None:
        """Nobody is asked over and over until they give in. Raises RateLimited."""
        key = f"{client.client_id} {subject}"
        wait = self._host.limits.hit("ciba", key, self._most, WINDOW)
        if wait is None:
            return
        # One event for each window: refusals must stay cheaper than requests.
        if self._host.limits.hit("ciba-told", key, 1, WINDOW) is None:
            await self._host.audit_log(
                AuditEvent(
                    event_type="rate_limited", service="idp", outcome="failure", sub=subject, client_id=client.client_id, detail="ciba"
                )
            )
        raise RateLimited(f"this person was asked too often; try again in {wait} seconds", headers={"Retry-After": str(wait)})
