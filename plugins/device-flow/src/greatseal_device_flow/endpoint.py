"""``POST /device_authorization`` (RFC 8628 s3.1, s3.2): a device asks, and gets a code for itself and one for its person."""

from urllib.parse import quote

import msgspec

from greatseal.api.authorization import Authorizations
from greatseal.api.clients import Clients
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.tokens import UnauthorizedClient
from greatseal.host import Host
from greatseal_device_flow.grant import GRANT_TYPE
from greatseal_device_flow.limits import DeviceLimits
from greatseal_device_flow.requests import DeviceRequests

PATH = "/device_authorization"
PAGE = "/device"
"""The path of the page where the code is entered."""


class DeviceEndpoint:
    """What devices call."""

    def __init__(
        self, host: Host, clients: Clients, authorizations: Authorizations, requests: DeviceRequests, limits: DeviceLimits
    ) -> None:
        self._page = f"{host.issuer}{PAGE}"
        self._clients = clients
        self._authorizations = authorizations
        self._requests = requests
        self._limits = limits

    def routes(self) -> list[Route]:
        return [
            Route(
                "POST",
                PATH,
                self.begin,
                style="oauth",
                auth=Handler("the client proves itself as at the token endpoint (RFC 8628 s3.1)"),
                content_types=(),
                summary="Ask for a device code and a user code (RFC 8628 s3.1).",
            )
        ]

    async def begin(self, call: Call) -> Reply:
        request = await self._clients.authenticate(call)
        if GRANT_TYPE not in request.client.grant_types:
            raise UnauthorizedClient("the client is not registered for this grant_type (RFC 8628 s3.4)")
        asked = await self._authorizations.read(request, "device")
        if request.client.may_be_anybody:
            await self._limits.request(call.remote)
        begun = await self._requests.begin(asked)
        members = {
            **msgspec.structs.asdict(begun),
            "verification_uri": self._page,
            "verification_uri_complete": f"{self._page}?user_code={quote(begun.user_code)}",
        }
        return Reply.json(members).with_headers(("Cache-Control", "no-store"), ("Pragma", "no-cache"), *request.match.headers)
