"""Endpoints of other plugins: a device flow that proves a client, a registration, login options, a lookup behind a token.

Examples of the contract, checked by mypy: no plugin has this code.
"""

import hmac
from collections.abc import Sequence
from hashlib import sha256

import msgspec
from sqlalchemy import Executable

from greatseal.api.clients import Client, Registration
from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Handler, Reply, Route, Session
from greatseal.api.identity import LoginContext, LoginOption, LoginOptions, SessionCaller
from greatseal.api.problems import Conflict, NotFound, Unauthenticated
from greatseal.api.services import CLIENTS, DIRECTORIES, LOGIN, TOKENS
from greatseal.api.store import Refuse, Tx
from greatseal.api.tokens import BearerCaller, GrantQuestion, InvalidScope
from greatseal.host import Host


class Decision(msgspec.Struct, frozen=True):
    user_code: str
    approve: bool


class Pending(msgspec.Struct, frozen=True):
    client_id: str
    scopes: frozenset[str]


class DeviceFlow:
    """RFC 8628: the device's request, and the person's decision."""

    requires = (CLIENTS, TOKENS)

    INSERT: Executable
    PENDING: Executable
    DECIDE: Executable

    def __init__(self, host: Host) -> None:
        self.host = host

    def routes(self) -> Sequence[Route]:
        return [
            Route(
                "POST",
                "/device_authorization",
                self.start,
                style="oauth",
                auth=Handler("the client proves itself by any of its methods"),
                content_types=("application/x-www-form-urlencoded",),
                summary="Start a device flow",
            ),
            Route("POST", "/api/auth/device", self.decide, auth=Session(), summary="Approve or deny a device"),
        ]

    async def start(self, call: Call) -> Reply:
        request = await self.host.service(CLIENTS).authenticate(call)
        scopes = frozenset(request.form.get("scope", "").split()).intersection(request.client.scopes)
        if not scopes:
            raise InvalidScope("none of the scopes is allowed for the client")
        code = self.host.handles.mint("device")
        await self.host.db.write(self.insert, sha256(code.encode()).digest(), request.client.client_id, " ".join(sorted(scopes)))
        return Reply.json({"device_code": code, "interval": 5}).with_headers(("Cache-Control", "no-store"), *request.match.headers)

    async def decide(self, call: Call) -> Reply:
        person, decision = call.caller_as(SessionCaller).session, await call.body(Decision)
        pending = await self.host.db.read(self.pending, decision.user_code)
        question = GrantQuestion(
            phase="authorize",
            subject=person.subject,
            client=await self.host.service(CLIENTS).get(pending.client_id),
            scopes=pending.scopes,
            remote=call.remote,
            amr=person.amr,
        )
        scopes = await self.host.service(TOKENS).permitted(question)
        await self.host.db.write(self.record, decision, person.subject, " ".join(sorted(scopes)))
        return Reply.json({"status": "approved" if decision.approve else "denied"})

    def pending(self, tx: Tx, user_code: str) -> Pending:
        row = tx.one(self.PENDING, user_code=user_code, now=tx.now)
        if row is None:
            raise Refuse(NotFound("no device waits with this code"))
        return Pending(row.client_id, frozenset(row.scopes.split()))

    def insert(self, tx: Tx, digest: bytes, client_id: str, scopes: str) -> None:
        tx.run(self.INSERT, digest=digest, client_id=client_id, scopes=scopes, now=tx.now)

    def record(self, tx: Tx, decision: Decision, subject: str, scopes: str) -> None:
        if not tx.count(self.DECIDE, user_code=decision.user_code, approve=decision.approve, sub=subject, scopes=scopes, now=tx.now):
            raise Refuse(Conflict("the request was decided already"))


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
