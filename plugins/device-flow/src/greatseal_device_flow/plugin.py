"""The device flow's hooks."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.declarations import EventType, Job, Owns, Reads, Schema
from greatseal.api.http import Discovery, Route
from greatseal.api.languages import Catalogue
from greatseal.api.services import AUTHORIZATIONS, CLIENTS, LOGIN, PAGES
from greatseal.api.tokens import Grant
from greatseal.host import Host
from greatseal.polling import Pace
from greatseal_device_flow.api import DeviceApi
from greatseal_device_flow.decisions import Decisions
from greatseal_device_flow.endpoint import PATH, DeviceEndpoint
from greatseal_device_flow.grant import DeviceCode
from greatseal_device_flow.limits import DeviceLimits
from greatseal_device_flow.owners import owner_of_user_code
from greatseal_device_flow.page import DevicePage
from greatseal_device_flow.requests import DeviceRequests
from greatseal_device_flow.settings import AttemptLimit, DeviceTokens
from greatseal_device_flow.tables import SCHEMA

SWEEP = 600.0
"""Seconds between two runs of the job."""


class Plugin:
    """Sign-in on devices without a browser (RFC 8628)."""

    requires = (AUTHORIZATIONS, CLIENTS, LOGIN, PAGES)

    def __init__(self) -> None:
        self._requests: DeviceRequests | None = None

    def requests(self, host: Host) -> DeviceRequests:
        """What devices ask for, made when the first hook needs it."""
        if self._requests is None:
            self._requests = DeviceRequests(host, host.service(AUTHORIZATIONS), host.settings(DeviceTokens))
        return self._requests

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("tokens", DeviceTokens), Reads("server", AttemptLimit)]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_device_flow")]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("device_approved", "idp", "A person allowed a device what it asked for; detail is the scopes."),
            EventType("device_denied", "idp", "A person did not allow a device what it asked for."),
        ]

    @hookimpl
    def grants(self, host: Host) -> Sequence[Grant[Any]]:
        pace = Pace(host.clock, host.settings(DeviceTokens).device_interval)
        return [DeviceCode(host, self.requests(host), host.service(AUTHORIZATIONS), pace)]

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        limits = DeviceLimits(host, host.settings(AttemptLimit).auth_rate_limit)
        authorizations, requests, owner = host.service(AUTHORIZATIONS), self.requests(host), owner_of_user_code(host)
        decisions = Decisions(authorizations, requests, limits)
        return [
            *DeviceEndpoint(host, host.service(CLIENTS), authorizations, requests, limits).routes(),
            *DevicePage(host.service(LOGIN), host.service(PAGES), decisions, owner).routes(),
            *DeviceApi(decisions, owner).routes(),
        ]

    @hookimpl
    def discovery(self, host: Host) -> Sequence[Discovery]:
        def members() -> Mapping[str, object]:
            return {"device_authorization_endpoint": f"{host.issuer}{PATH}"}

        return [Discovery("oauth", members), Discovery("openid", members), Discovery("features", lambda: {"device_flow": True})]

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        return [Job(name="device-requests", every=SWEEP, run=self.requests(host).sweep, jitter=60.0)]
