"""CIBA's hooks."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.authorization import Extension
from greatseal.api.declarations import EventType, Job, Owns, Reads, Schema
from greatseal.api.http import Call, Discovery, Owner, Route
from greatseal.api.languages import Catalogue
from greatseal.api.messages import Message
from greatseal.api.pages import StartLine, StartPart
from greatseal.api.services import AUTHORIZATIONS, CLIENTS, DIRECTORIES, LOGIN, PAGES, RESOLVER
from greatseal.api.tokens import Grant
from greatseal.host import Host
from greatseal.polling import Pace
from greatseal_ciba.api import CibaApi
from greatseal_ciba.decisions import Decisions
from greatseal_ciba.endpoint import PATH, CibaEndpoint
from greatseal_ciba.grant import CibaGrant
from greatseal_ciba.page import PAGE, CibaPage
from greatseal_ciba.pings import Pings
from greatseal_ciba.registration import MODES, CibaRegistration
from greatseal_ciba.requests import CibaRequests
from greatseal_ciba.settings import AttemptLimit, CibaTokens, NotificationSettings
from greatseal_ciba.tables import SCHEMA

SWEEP = 600.0
"""Seconds between two runs of the job that deletes."""
DELIVERY = 5.0
"""Seconds between two looks for pings that are due."""


class Plugin:
    """Client-initiated backchannel authentication (OpenID Connect CIBA Core 1.0)."""

    requires = (AUTHORIZATIONS, CLIENTS, DIRECTORIES, LOGIN, PAGES)
    uses = (RESOLVER,)

    def __init__(self) -> None:
        self._pings: Pings | None = None
        self._requests: CibaRequests | None = None

    def pings(self, host: Host) -> Pings:
        """The delivery of pings, made when the first hook needs it."""
        if self._pings is None:
            self._pings = Pings(host, host.service(CLIENTS))
        return self._pings

    def requests(self, host: Host) -> CibaRequests:
        """What clients ask of people, made when the first hook needs it."""
        if self._requests is None:
            self._requests = CibaRequests(host, host.service(AUTHORIZATIONS), host.settings(CibaTokens), self.pings(host).begin)
        return self._requests

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("tokens", CibaTokens), Owns("oauth", NotificationSettings), Reads("server", AttemptLimit)]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_ciba")]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("ciba_approved", "idp", "A person allowed what a client asked of them by CIBA; detail is the scopes."),
            EventType("ciba_denied", "idp", "A person did not allow what a client asked of them by CIBA."),
            EventType("ciba_ping", "idp", "A client was told that its person has decided, or could not be told."),
        ]

    @hookimpl
    def extensions(self) -> Sequence[Extension[Any]]:
        return [CibaRegistration()]

    @hookimpl
    def grants(self, host: Host) -> Sequence[Grant[Any]]:
        pace = Pace(host.clock, host.settings(CibaTokens).ciba_interval)
        return [CibaGrant(host, self.requests(host), host.service(AUTHORIZATIONS), pace)]

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        authorizations, clients, requests = host.service(AUTHORIZATIONS), host.service(CLIENTS), self.requests(host)
        decisions, owner = Decisions(authorizations, clients, requests), owner_of_id(host)
        most = host.settings(AttemptLimit).auth_rate_limit
        return [
            *CibaEndpoint(host, clients, host.service(DIRECTORIES), authorizations, requests, most=most).routes(),
            *CibaPage(host.service(LOGIN), host.service(PAGES), decisions, owner).routes(),
            *CibaApi(decisions, owner).routes(),
        ]

    @hookimpl
    def discovery(self, host: Host) -> Sequence[Discovery]:
        def members() -> Mapping[str, object]:
            return {
                "backchannel_authentication_endpoint": f"{host.issuer}{PATH}",
                "backchannel_token_delivery_modes_supported": list(MODES),
                "backchannel_user_code_parameter_supported": False,
            }

        return [Discovery("oauth", members), Discovery("openid", members)]

    @hookimpl
    def start_page(self) -> Sequence[StartPart]:
        return [
            StartPart(
                title=Message("Applications that wait for you"),
                lines=lambda: [StartLine(words=Message("See what they ask for"), link=PAGE)],
            )
        ]

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        return [
            Job(name="ciba-requests", every=SWEEP, run=self.requests(host).sweep, jitter=60.0),
            Job(name="ciba-pings", every=DELIVERY, run=self.pings(host).deliver),
        ]


def owner_of_id(host: Host) -> Owner:
    """Which node keeps the request of a call: the one in its id."""

    async def owner(call: Call) -> str | None:
        return host.handles.owner_of_id(call.path["id"])

    return owner
