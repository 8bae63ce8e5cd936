"""Reads a request as far as the registry, the scopes, the signing keys and the extensions are needed for it."""

from collections.abc import Mapping

import msgspec

from greatseal.api.authorization import Ask, Authorization, Place
from greatseal.api.clients import Client, Clients, ProvenRequest
from greatseal.api.http import Call, Parameters
from greatseal.api.identity import SessionView
from greatseal.api.problems import BadRequest
from greatseal.api.tokens import GrantQuestion, InvalidScope
from greatseal.host import Host
from greatseal_idp.authorize.request import (
    Addressee,
    AuthorizationRequest,
    addressee,
    check_registration,
    check_request,
    cut,
    essential_acr,
    read_claims,
    read_max_age,
    read_scopes,
    refuse_repeated,
    registered,
    required_acr,
)
from greatseal_idp.claims import Claims
from greatseal_idp.extensions import Extensions, Wishes
from greatseal_idp.scopes import Asked, Scopes
from greatseal_idp.settings import OAuthSettings
from greatseal_idp.signing import Signing


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a proven client before it is checked: what came over the wire, and what is in force."""

    at: Place
    client: Client
    sent: Parameters
    given: Parameters
    remote: str
    proven: Mapping[str, str] = {}

    def ask(self, response_mode: str | None = None) -> Ask:
        """As extensions see it."""
        return Ask(
            at=self.at,
            client=self.client,
            given=self.given,
            sent=self.sent,
            remote=self.remote,
            response_mode=response_mode,
            proven=self.proven,
        )


class Reader:
    """Checks requests, alike at every place."""

    def __init__(self, host: Host, clients: Clients, scopes: Scopes, claims: Claims, signing: Signing, *, extensions: Extensions) -> None:
        self._settings = host.settings(OAuthSettings)
        self._clients = clients
        self._scopes = scopes
        self._claims = claims
        self._signing = signing
        self._extensions = extensions

    async def opened(self, call: Call, sent: Parameters, client: Client) -> Asking:
        """A request at /authorize, with the parameters that are in force. Raises what is shown here."""
        return await self._opened(Asking(at="authorize", client=client, sent=sent, given=sent, remote=call.remote))

    async def pushed(self, request: ProvenRequest) -> Asking:
        """The same at /par."""
        return await self.posted(request, "par")

    async def posted(self, request: ProvenRequest, at: Place) -> Asking:
        """A request that a proven client sent in a form, with the parameters that are in force."""
        self.refuse_repeated(request.form)
        return await self._opened(_asking(request, at, request.form))

    async def checked(self, asking: Asking, to: Addressee) -> AuthorizationRequest:
        """The checked request. Raises problems that may go to the client."""
        parameters, client = asking.given, asking.client
        request = check_request(parameters, to, client, self._extensions, pushed=asking.at == "par")
        check_registration(request, client, self._settings)
        scopes = cut(request.scopes, await self._scopes.all())
        implied = await self._claims.implied(request.claims, scopes, client.scopes)
        hinted = self._hinted(parameters, client)
        wishes = await self._extensions.ask(asking.ask(to.mode or to.response_mode))
        _require_scopes(scopes, wishes)
        return msgspec.structs.replace(
            request,
            scopes=scopes,
            implied=implied,
            hinted=hinted,
            max_age=_lesser(request.max_age, wishes.max_age),
            acr=(*required_acr(client), *wishes.acr),
            more=wishes.more,
        )

    async def read(self, request: ProvenRequest, at: Place, given: Parameters | None) -> Authorization:
        """See :meth:`greatseal.api.authorization.Authorizations.read`."""
        client = request.client
        asking = await self.posted(request, at) if given is None else _asking(request, at, given)
        scopes = cut(read_scopes(asking.given, client), await self._scopes.all())
        claims = read_claims(asking.given)
        implied = await self._claims.implied(claims, scopes, client.scopes)
        wishes = await self._extensions.ask(asking.ask())
        _require_scopes(scopes, wishes)
        return Authorization(
            client_id=client.client_id,
            scopes=scopes,
            implied=implied,
            claims=claims,
            acr=tuple(group for group in (essential_acr(claims), *required_acr(client), *wishes.acr) if group),
            max_age=_lesser(read_max_age(asking.given, client), wishes.max_age),
            more=wishes.more,
        )

    def addressee(self, parameters: Parameters, client: Client) -> Addressee:
        """Where the answer goes. Raises BadRequest, which must be shown here."""
        return addressee(parameters, client, self._extensions.modes)

    def refuse_repeated(self, parameters: Parameters) -> None:
        """Raises BadRequest when a parameter was given twice that may not be."""
        refuse_repeated(parameters, self._extensions.repeatable)

    async def client_of(self, to: Addressee) -> Client:
        """The client of a request that waited. Raises NotRegistered when it or its redirect URI is gone."""
        return registered(await self._clients.get(to.client_id), to)

    def allowed(self, request: AuthorizationRequest, asked: Asked, client: Client) -> Asked:
        """What the registration leaves of ``asked`` when the code is made. Raises what may go to the client."""
        check_registration(request, client, self._settings)
        return Asked(cut(asked.scopes, client.scopes), asked.implied).within(client.scopes)

    async def current_scopes(self, request: AuthorizationRequest, client: Client) -> Asked:
        """The scopes of a request that its client still has. Raises what may go to the client, when none is left of those that it named."""
        check_registration(request, client, self._settings)
        return await self.of_client(Asked(request.scopes, request.implied), client)

    async def of_client(self, asked: Asked, client: Client) -> Asked:
        """Those that exist and that the client has. Raises InvalidScope when there are some and none is left."""
        known = await self._scopes.all()
        current = known.keys() & set(client.scopes)
        return Asked(cut(asked.scopes, current), asked.implied).within(current)

    async def _opened(self, asking: Asking) -> Asking:
        if not self._extensions.openers:
            return asking
        given = await self._extensions.open(asking.ask())
        self.refuse_repeated(given)
        return msgspec.structs.replace(asking, given=given)

    def _hinted(self, parameters: Parameters, client: Client) -> str | None:
        hint = parameters.get("id_token_hint")
        return None if hint is None else self.hinted(hint, client)

    def hinted(self, hint: str, client: Client) -> str:
        """See :meth:`greatseal.api.authorization.Authorizations.hinted`."""
        claims = self._signing.identity(hint)
        if claims is None or claims["aud"] != client.client_id:
            raise BadRequest(
                "id_token_hint is no ID token that was issued here to this client (OpenID Connect Core s3.1.2.1, CIBA Core s7.1)"
            )
        return str(claims["sub"])


def _asking(request: ProvenRequest, at: Place, given: Parameters) -> Asking:
    return Asking(at=at, client=request.client, sent=request.form, given=given, remote=request.call.remote, proven=request.proven)


def asked_of(client: Client, session: SessionView, asked: Asked, remote: str) -> GrantQuestion:
    """Whether the client may have the scopes of the person of a session."""
    return GrantQuestion(
        phase="authorize",
        subject=session.subject,
        client=client,
        scopes=frozenset(asked.all),
        remote=remote,
        amr=session.amr,
        auth_time=session.auth_time,
    )


def _require_scopes(scopes: tuple[str, ...], wishes: Wishes) -> None:
    if not scopes and not wishes.scopeless:
        raise InvalidScope("scope is missing (RFC 6749 s3.3)")


def _lesser(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
