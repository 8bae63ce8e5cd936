"""The token authority's hooks."""

from collections.abc import Mapping, Sequence

from greatseal import hookimpl
from greatseal.api.declarations import EventType, Job, Reads
from greatseal.api.http import Discovery, Route
from greatseal.api.services import DIRECTORIES, NEGOTIATE, TOKENS
from greatseal.api.store import Tx
from greatseal.attempts import TicketLimits
from greatseal.host import Host
from greatseal_token_authority.routes import PATH, TokenEndpoint
from greatseal_token_authority.settings import AttemptLimit, AuthorityTokens

DOCUMENTS = ("oauth", "openid", "features")
LOOK = 60.0
"""Seconds after which the metadata say that tickets can be accepted, or can no more."""


class Plugin:
    """Says by a token which names the holder of a Kerberos ticket may have in a certificate. Active while tickets can be accepted."""

    requires = (DIRECTORIES, TOKENS)
    uses = (NEGOTIATE,)

    def __init__(self) -> None:
        self._endpoint: TokenEndpoint | None = None
        self._told = False

    def endpoint(self, host: Host) -> TokenEndpoint:
        """Made when the first hook needs it."""
        if self._endpoint is None:
            seconds = host.settings(AuthorityTokens).access_token_ttl
            negotiator = host.optional_service(NEGOTIATE)
            limits = TicketLimits(host.limits, "token-authority", host.settings(AttemptLimit).auth_rate_limit)
            self._endpoint = TokenEndpoint(
                host, host.service(TOKENS), host.service(DIRECTORIES), negotiator, limits=limits, seconds=seconds
            )
        return self._endpoint

    @hookimpl
    def settings(self) -> Sequence[Reads]:
        return [Reads("tokens", AuthorityTokens), Reads("server", AttemptLimit)]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [EventType("authority_token", "idp", "An authority token was given to the principal sub; detail is its id and account key.")]

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        return self.endpoint(host).routes()

    @hookimpl
    def discovery(self, host: Host) -> Sequence[Discovery]:
        endpoint = self.endpoint(host)

        def members() -> Mapping[str, object]:
            return {"token_authority_endpoint": f"{host.issuer}{PATH}"} if endpoint.active else {}

        return [
            Discovery("oauth", members),
            Discovery("openid", members),
            Discovery("features", lambda: {"token_authority": endpoint.active}),
        ]

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        async def look() -> None:
            active = self.endpoint(host).active
            if active != self._told:
                await host.db.write(_tell)
                self._told = active

        return [Job(name="token-authority", every=LOOK, run=look)]


def _tell(tx: Tx) -> None:
    for document in DOCUMENTS:
        tx.changed(document, "")
