"""Requests for authorization at endpoints of other plugins (service ``AUTHORIZATIONS``)."""

from collections.abc import Awaitable, Callable
from itertools import chain

import msgspec

from greatseal.api.authorization import (
    Authorization,
    Awaited,
    LoginRequired,
    Place,
    Proposal,
    Shown,
    UnmetAuthenticationRequirements,
)
from greatseal.api.clients import Client, Clients, ProvenRequest
from greatseal.api.http import Parameters
from greatseal.api.identity import SessionView
from greatseal.api.messages import Message
from greatseal.api.moments import SECOND
from greatseal.api.problems import NotFound
from greatseal.api.store import Refuse, Tx
from greatseal.api.tokens import Granted, InvalidGrant, Tokens
from greatseal.host import Host
from greatseal_idp.authorize.consents import Consents
from greatseal_idp.authorize.reader import Reader, asked_of
from greatseal_idp.authorize.request import AuthorizationRequest
from greatseal_idp.extensions import Extensions
from greatseal_idp.scopes import Asked, Scopes
from greatseal_idp.sessions.ladder import Ladder
from greatseal_idp.token.codes import Codes
from greatseal_idp.token.grants.authorization_code import AuthorizationCode, CodeRequest, granted

OVER = "what was approved is unknown, expired, used or taken back (RFC 6749 s5.2)"


class Proposals:
    """Each method as :class:`greatseal.api.authorization.Authorizations` says. An approval is a code that another grant redeems."""

    def __init__(
        self,
        host: Host,
        *,
        clients: Clients,
        scopes: Scopes,
        tokens: Tokens,
        extensions: Extensions,
        reader: Reader,
        consents: Consents,
        codes: Codes,
        redemption: AuthorizationCode,
        ladder: Ladder,
        waiting_at: Callable[[str], Awaitable[AuthorizationRequest | None]],
    ) -> None:
        self._host = host
        self._ladder = ladder
        self._clients = clients
        self._scopes = scopes
        self._tokens = tokens
        self._extensions = extensions
        self._reader = reader
        self._codes = codes
        self._redemption = redemption
        self._waiting_at = waiting_at
        self.allow = consents.allow

    async def open(self, request: ProvenRequest, at: Place) -> Parameters:
        return (await self._reader.posted(request, at)).given

    async def read(self, request: ProvenRequest, at: Place, *, given: Parameters | None = None) -> Authorization:
        return await self._reader.read(request, at, given)

    def hinted(self, hint: str, client: Client) -> str:
        return self._reader.hinted(hint, client)

    async def awaited(self, return_to: str) -> Awaited | None:
        request = await self._waiting_at(return_to)
        if request is None:
            return None
        acr = tuple(dict.fromkeys(chain.from_iterable(request.all_acr)))
        hint = request.login_hint or (request.hinted or "").rpartition("@")[0] or None
        return Awaited(acr=acr, max_age=request.max_age, prompt=request.prompt, login_hint=hint)

    async def shown(self, authorization: Authorization, subject: str) -> tuple[Shown, ...]:
        return (await self._extensions.shown(authorization.more, subject)).shown

    async def propose(self, authorization: Authorization, session: SessionView, *, since: int, remote: str) -> Proposal:
        client = await self._clients.get(authorization.client_id)
        if client is None:
            raise NotFound(Message("the application is not registered any more"))
        _require_fit(authorization, session, since, self._host.clock.now(), self._ladder)
        asked = await self._reader.of_client(Asked(authorization.scopes, authorization.implied), client)
        asked = asked.permitted(await self._tokens.permitted(asked_of(client, session, asked, remote)))
        details = await self._extensions.shown(authorization.more, session.subject)
        known = await self._scopes.all()
        return Proposal(
            client=client,
            authorization=msgspec.structs.replace(authorization, scopes=asked.scopes, implied=asked.implied),
            scopes=tuple(known[name].definition for name in asked.all if name in known),
            shown=details.shown,
            keys=details.keys,
        )

    async def allowed(self, request: ProvenRequest, origin: bytes) -> Granted:
        record = await self._host.db.read(self._codes.find, origin)
        if record is None or record.used or record.client_id != request.client.client_id:
            raise InvalidGrant(OVER)
        asked = CodeRequest(digest=origin, client_id=record.client_id, redirect_uri=record.redirect_uri, code_verifier=None)
        return granted(record, await self._redemption.filled(request, record, asked))

    def redeem(self, tx: Tx, granted: Granted) -> None:
        if granted.origin is None or self._codes.consume(tx, granted.origin) is None:
            raise Refuse(InvalidGrant(OVER))


def _require_fit(authorization: Authorization, session: SessionView, since: int, now: int, ladder: Ladder) -> None:
    """Raises LoginRequired, and UnmetAuthenticationRequirements where another sign-in would not help: there was one for this request."""
    fresh = since <= session.signed_in_at <= now
    if authorization.max_age is not None and not session.was_proven((since if fresh else now) - authorization.max_age * SECOND, now):
        raise LoginRequired("the last sign-in is too long ago (OpenID Connect Core s3.1.2.1)")
    if not ladder.meets(session.acr, authorization.acr):
        if fresh:
            raise UnmetAuthenticationRequirements(
                "the sign-in does not reach an acr that the client or what it asks for needs (RFC 9470 s5)"
            )
        raise LoginRequired("the person must sign in in another way")
