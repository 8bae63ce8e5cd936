"""Reads a request as far as the registry, the scopes and the signing keys are needed for it."""

import msgspec

from greatseal.api.clients import Client
from greatseal.api.http import Parameters
from greatseal.api.problems import BadRequest
from greatseal.host import Host
from greatseal_idp.authorize.parts import Parts
from greatseal_idp.authorize.request import Addressee, AuthorizationRequest, check_request, cut
from greatseal_idp.clients.redirects import matches
from greatseal_idp.settings import OAuthSettings

ID_TOKEN = frozenset({"jwt"})


class Reader:
    """Checks requests, alike at /authorize and /par."""

    def __init__(self, host: Host, provider: Parts) -> None:
        self._settings = host.settings(OAuthSettings)
        self._provider = provider

    async def read(self, parameters: Parameters, to: Addressee, client: Client) -> AuthorizationRequest:
        """The checked request. Raises problems that may go to the client."""
        request = check_request(parameters, to, client, self._settings)
        scopes = cut(request.scopes, await self._provider.scopes.all())
        return msgspec.structs.replace(request, scopes=scopes, hinted=self._hinted(parameters, client))

    async def client_of(self, to: Addressee) -> Client:
        """The client of a request that waited. Raises BadRequest when it or its redirect URI is gone."""
        client = await self._provider.clients.get(to.client_id)
        if client is None or not matches(client.redirect_uris, to.redirect_uri):
            raise BadRequest("the application is not registered any more, or not for this address")
        return client

    async def current_scopes(self, request: AuthorizationRequest, client: Client) -> tuple[str, ...]:
        """The scopes of a request that its client still has. Raises InvalidScope when none is left."""
        known = await self._provider.scopes.all()
        return cut(request.scopes, known.keys() & set(client.scopes))

    def _hinted(self, parameters: Parameters, client: Client) -> str | None:
        hint = parameters.get("id_token_hint")
        if hint is None:
            return None
        claims = self._provider.signing.verify(hint, typ=ID_TOKEN) or {}
        audience, subject = claims.get("aud"), claims.get("sub")
        if not isinstance(subject, str) or client.client_id not in (audience if isinstance(audience, list) else [audience]):
            raise BadRequest("id_token_hint is no ID token that was issued here to this client")
        return subject
