"""Reads a request as far as the registry, the scopes and the signing keys are needed for it."""

import msgspec

from greatseal.api.clients import Client
from greatseal.api.http import Parameters
from greatseal.api.problems import BadRequest
from greatseal.host import Host
from greatseal_idp.authorize.parts import Parts
from greatseal_idp.authorize.request import Addressee, AuthorizationRequest, check_registration, check_request, cut, registered
from greatseal_idp.scopes import Asked
from greatseal_idp.settings import OAuthSettings


class Reader:
    """Checks requests, alike at /authorize and /par."""

    def __init__(self, host: Host, provider: Parts) -> None:
        self._settings = host.settings(OAuthSettings)
        self._provider = provider

    async def read(self, parameters: Parameters, to: Addressee, client: Client, *, pushed: bool = False) -> AuthorizationRequest:
        """The checked request. Raises problems that may go to the client."""
        request = check_request(parameters, to, client, pushed=pushed)
        check_registration(request, client, self._settings)
        scopes = cut(request.scopes, await self._provider.scopes.all())
        implied = await self._provider.claims.implied(request.claims, scopes, client.scopes)
        return msgspec.structs.replace(request, scopes=scopes, implied=implied, hinted=self._hinted(parameters, client))

    async def client_of(self, to: Addressee) -> Client:
        """The client of a request that waited. Raises NotRegistered when it or its redirect URI is gone."""
        return registered(await self._provider.clients.get(to.client_id), to)

    def allowed(self, request: AuthorizationRequest, asked: Asked, client: Client) -> Asked:
        """What the registration leaves of ``asked`` when the code is made. Raises what may go to the client."""
        check_registration(request, client, self._settings)
        return Asked(cut(asked.scopes, client.scopes), asked.implied).within(client.scopes)

    async def current_scopes(self, request: AuthorizationRequest, client: Client) -> Asked:
        """The scopes of a request that its client still has. Raises what may go to the client, when none is left of those that it named."""
        check_registration(request, client, self._settings)
        known = await self._provider.scopes.all()
        current = known.keys() & set(client.scopes)
        return Asked(cut(request.scopes, current), request.implied).within(current)

    def _hinted(self, parameters: Parameters, client: Client) -> str | None:
        hint = parameters.get("id_token_hint")
        if hint is None:
            return None
        claims = self._provider.signing.identity(hint)
        if claims is None or claims["aud"] != client.client_id:
            raise BadRequest("id_token_hint is no ID token that was issued here to this client")
        return str(claims["sub"])
