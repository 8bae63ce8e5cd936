"""POST /introspect (RFC 7662): whether a token is live, for those whom it concerns."""

from typing import Any

import orjson

from greatseal.api.clients import Client, Clients, InvalidClient, ProvenRequest
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.identity import AccountRefused
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest
from greatseal.host import Host
from greatseal_idp.clients.methods import PublicClient
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.extensions import Extensions
from greatseal_idp.owners import owner_of_handle
from greatseal_idp.proofs import Proofs
from greatseal_idp.scopes import INTROSPECT
from greatseal_idp.signing import Signing
from greatseal_idp.token.families import FamiliesImpl
from greatseal_idp.token.refresh_tokens import KIND as REFRESH
from greatseal_idp.token.verify import TokensImpl, Verified, signed_in_by

SIGNED = "application/token-introspection+jwt"
_INACTIVE = Reply(body=b'{"active":false}', content_type="application/json")
_SHOWN = (
    "scope", "client_id", "exp", "iat", "nbf", "sub", "aud", "iss", "jti", "cnf", "act", "acr", "amr", "auth_time",
    "sid",
)  # fmt: skip


class Introspection:
    """Answers ``{"active": false}`` alone for all that is not live or is not the caller's to know."""

    def __init__(
        self,
        host: Host,
        clients: Clients,
        tokens: TokensImpl,
        families: FamiliesImpl,
        directories: DirectoriesImpl,
        *,
        signing: Signing,
        proofs: Proofs,
        extensions: Extensions,
    ) -> None:
        self._host = host
        self._clients = clients
        self._tokens = tokens
        self._families = families
        self._directories = directories
        self._signing = signing
        self._proofs = proofs
        self._extensions = extensions

    def routes(self) -> list[Route]:
        """/introspect."""
        return [
            Route(
                "POST",
                "/introspect",
                self.introspect,
                style="oauth",
                auth=Handler("the client proves itself by its registered method"),
                content_types=(),
                summary="State and claims of a token (RFC 7662).",
                owner=owner_of_handle(self._host, ("token", REFRESH)),
                cors=True,
            )
        ]

    async def introspect(self, call: Call) -> Reply:
        """The introspection response (s2.2), signed for whoever accepts it so (RFC 9701 s5)."""
        request = await self._clients.authenticate(call)
        reply = await self._answer(request)
        return await self._signed(reply, request.client) if SIGNED in call.headers.get("Accept", "") else reply

    async def _answer(self, request: ProvenRequest) -> Reply:
        if request.client.token_endpoint_auth_method == PublicClient.method:
            raise InvalidClient("a public client cannot introspect tokens (RFC 7662 s2.1)")
        token = request.form.get("token")
        if token is None:
            raise BadRequest("token is required (RFC 7662 s2.1)")
        if token.startswith(f"{REFRESH}_"):
            return await self._refresh_token(token, request.client)
        found = await self._tokens.verified(token)
        if found is None or not concerns(request.client, found):
            return _INACTIVE
        auth_time = signed_in_by(found.token.claims)
        if auth_time is not None and not await self._may(found.token.subject, auth_time):
            return _INACTIVE
        if found.introspection is None:
            found.introspection = orjson.dumps(self._members(found))
        return Reply(body=found.introspection, content_type="application/json")

    async def _signed(self, reply: Reply, client: Client) -> Reply:
        now = self._host.clock.now() // SECOND
        said = {"iss": self._host.issuer, "aud": client.client_id, "iat": now, "token_introspection": orjson.loads(reply.body)}
        alg = client.more.get("introspection_signed_response_alg")
        signed = await self._signing.jwt("token-introspection+jwt", said, alg=alg)
        return Reply(body=(await self._extensions.seal("introspection", client, signed)).encode(), content_type=SIGNED)

    async def _refresh_token(self, text: str, client: Client) -> Reply:
        token = await self._families.read(text)
        record = await self._host.db.read(self._families.find, token.family) if token else None
        if token is None or record is None or record.client_id != client.client_id:
            return _INACTIVE
        if not record.is_live(self._host.clock.now()) or token.generation != record.generation:
            return _INACTIVE
        signed_in = record.held.authentication
        if not await self._may(record.subject, signed_in.auth_time if signed_in else None):
            return _INACTIVE
        members: dict[str, Any] = {
            "active": True,
            "scope": " ".join(record.scopes),
            "client_id": record.client_id,
            "username": record.subject.rpartition("@")[0] or record.subject,
            "token_type": "refresh_token",
            "exp": record.ends_at // SECOND,
            "iat": record.rotated_at // SECOND,
            "sub": record.subject,
            "iss": self._host.issuer,
        }
        if record.held.bound:
            members["cnf"] = record.held.bound
        return Reply.json(members)

    def _members(self, found: Verified) -> dict[str, Any]:
        claims = found.token.claims
        members = {"active": True, **{name: claims[name] for name in (*_SHOWN, *self._extensions.claims) if name in claims}}
        members["token_type"] = self._proofs.scheme_of(claims.get("cnf"))
        if "auth_time" in claims:
            members["username"] = found.token.subject.rpartition("@")[0] or found.token.subject
        return members

    async def _may(self, subject: str, auth_time: int | None) -> bool:
        """Whether the account behind a token may still sign in, and its sign-in still counts (decisions, identity provider 10)."""
        try:
            await self._directories.account(subject, auth_time=auth_time)
        except AccountRefused:
            return False
        return True


def concerns(client: Client, found: Verified) -> bool:
    """Whether the client holds the token, is (or owns) an audience of it, or may ask about all."""
    if found.token.client_id == client.client_id or INTROSPECT in client.scopes:
        return True
    audience = found.token.claims["aud"]
    named = {audience} if isinstance(audience, str) else set(audience)
    owned = client.more.get("resources", ()) if client.source == "admin" else ()  # whoever registered himself may name an API, and is none
    return not named.isdisjoint((client.client_id, *owned))
