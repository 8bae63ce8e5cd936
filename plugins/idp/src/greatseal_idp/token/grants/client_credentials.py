"""client_credentials (RFC 6749 s4.4): a client acts for itself. No row is read or written."""

from typing import ClassVar

import msgspec

from greatseal.api.clients import ProvenRequest
from greatseal.api.tokens import Grant, Granted, GrantQuestion, InvalidScope, Tokens, UnauthorizedClient
from greatseal_idp.clients.methods import PublicClient
from greatseal_idp.scopes import Scopes

OF_PEOPLE = frozenset({"openid", "offline_access", "profile", "email", "phone", "address"})
"""Scopes about a person, which a client does not get for itself unless it asks."""
NEVER = frozenset({"openid", "offline_access"})


class ClientCredentials(Grant[msgspec.Struct]):
    """Gives a client a token whose subject is the client."""

    grant_type: ClassVar[str] = "client_credentials"

    def __init__(self, tokens: Tokens, scopes: Scopes) -> None:
        self._tokens = tokens
        self._scopes = scopes

    async def prepare(self, request: ProvenRequest) -> Granted:
        client, match = request.client, request.match
        if client.token_endpoint_auth_method == PublicClient.method:
            raise UnauthorizedClient("a public client has no credentials to act with (RFC 6749 s4.4)")
        asked = request.form.get("scope")
        known = await self._scopes.all()
        names = [scope for scope in client.scopes if scope not in OF_PEOPLE] if asked is None else asked.split(" ")
        scopes = tuple(dict.fromkeys(name for name in names if name in client.scopes and name in known and name not in NEVER))
        if not scopes and not request.scopeless:
            raise InvalidScope("no scope is left that the client may have for itself (RFC 6749 s3.3)")
        asker = match.principal or match.subject
        permitted = await self._tokens.permitted(
            GrantQuestion(phase="client", subject=asker, client=client, scopes=frozenset(scopes), remote=request.call.remote)
        )
        if len(permitted) < len(scopes):
            scopes = tuple(scope for scope in scopes if scope in permitted)
        return Granted(subject=match.subject, client_id=client.client_id, scopes=scopes)
