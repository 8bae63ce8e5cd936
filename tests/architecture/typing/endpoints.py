"""Endpoints of other plugins: a registration, login options, a lookup behind a token.

Examples of the contract, checked by mypy: no plugin has this code.
"""

import hmac
from collections.abc import Sequence

import msgspec

from greatseal.api.clients import Client, Registration
from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Reply
from greatseal.api.identity import LoginContext, LoginOption, LoginOptions
from greatseal.api.problems import NotFound, Unauthenticated
from greatseal.api.services import CLIENTS, DIRECTORIES, LOGIN
from greatseal.api.tokens import BearerCaller
from greatseal.host import Host


class NewClient(msgspec.Struct, frozen=True):
    client_name: str
    redirect_uris: tuple[str, ...]
    token_endpoint_auth_method: str = "client_secret_basic"
    client_secret: str | None = None


class OpenRegistration:
    """RFC 7591: a token, or the session of a service principal; without either the endpoint is not there."""

    def __init__(self, host: Host, token: Secret | None, realm: str) -> None:
        self.host = host
        self.token = token
        self.realm = realm

    async def register(self, call: Call) -> Reply:
        by = await self.admit(call)
        asked = await call.body(NewClient)
        client = Client(
            client_id=self.host.handles.new_id(),
            token_endpoint_auth_method=asked.token_endpoint_auth_method,
            client_name=asked.client_name,
            redirect_uris=asked.redirect_uris,
            source="dynamic",
        )
        secret = None if asked.client_secret is None else Secret(asked.client_secret)
        registered = await self.host.service(CLIENTS).register(Registration(client=client, open=True, client_secret=secret), by=by)
        shown = {} if registered.client_secret is None else {"client_secret": registered.client_secret.value}
        return Reply.json({"client_id": registered.client.client_id, **shown}, status=201)

    async def admit(self, call: Call) -> str:
        session = await self.host.service(LOGIN).session(call)
        if session is not None and "/" in session.username and session.realm == self.realm:
            return session.subject
        if self.token is None:
            raise NotFound("there is no such thing here")
        if not hmac.compare_digest(call.headers.get("Authorization", ""), f"Bearer {self.token.value}"):
            raise Unauthenticated("the registration token is not good")
        return "registration token"


class Upstreams(LoginOptions):
    """Configured providers as buttons; a user of type idp has to take one."""

    name = "federation"

    def __init__(self, host: Host, options: Sequence[LoginOption]) -> None:
        self.host = host
        self.configured = options

    async def options(self, context: LoginContext) -> Sequence[LoginOption]:
        return self.configured

    async def hint(self, username: str) -> str | None:
        user = await self.host.service(DIRECTORIES).user(username)
        return None if user is None else user.upstream


async def identity_groups(host: Host, call: Call) -> Reply:
    """GET /api/identity/users/{id}/groups behind Bearer("directory.read")."""
    caller = call.caller_as(BearerCaller)
    user = await host.service(DIRECTORIES).user(call.path["id"])
    host.log.info("lookup", client_id=caller.token.client_id)
    return Reply.json([] if user is None else [{"name": name} for name in user.groups])
