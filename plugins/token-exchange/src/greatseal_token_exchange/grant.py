"""The grant: a token of a person is read, and another one is given for it. Nothing is consumed, and no refresh token is given."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import Client, ProvenRequest
from greatseal.api.identity import AccessDenied, AccountRefused
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest
from greatseal.api.tokens import (
    Authentication,
    Grant,
    Granted,
    GrantQuestion,
    IdTokenOrder,
    InvalidScope,
    SubjectToken,
    Tokens,
    UnauthorizedClient,
)
from greatseal.api.trust import NotVouched, TrustedIssuer
from greatseal.jose.compact import b64url_decode
from greatseal_token_exchange.actors import acting, carried, check_permission
from greatseal_token_exchange.foreign import foreign_subject
from greatseal_token_exchange.order import ACCESS_TOKEN, ID_TOKEN, Order, Presented, read, scopes_of

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:token-exchange"
UNPROVEN = "none"
"""The method of clients that prove nothing."""


class TokenExchange(Grant[msgspec.Struct]):
    """RFC 8693, in a fixed order: the gate of actors, the parameters, the subject token, the actor, policy, scopes."""

    grant_type: ClassVar[str] = GRANT_TYPE

    def __init__(self, tokens: Tokens, issuer: str, trusted: Callable[[], Mapping[str, TrustedIssuer]] = dict) -> None:
        self._tokens = tokens
        self._issuer = issuer
        self._trusted = trusted

    async def prepare(self, request: ProvenRequest) -> Granted:
        form, client = request.form, request.client
        if "actor_token" in form and not client.allow_token_exchange_actor:
            raise AccessDenied("the client may not act for others: it is registered without allow_token_exchange_actor (RFC 8693 s1.1)")
        if not client.is_administered:
            raise UnauthorizedClient("only a client that an administrator registered exchanges tokens (RFC 6749 s5.2)")
        if client.token_endpoint_auth_method == UNPROVEN:
            raise UnauthorizedClient("a client that does not prove itself exchanges no tokens (RFC 8693 s5)")
        order = read(form, client, self._issuer)
        subject, person = await self._subject(order.subject, request)
        check_permission(subject.claims, client, self._issuer)
        claims = carried(subject, client)
        if order.actor is not None:
            await self._check_actor(order.actor, request)
            claims["act"] = acting(client, subject.claims.get("act"))
        scopes = await self._permitted(request, order, subject, person)
        if order.requested == ID_TOKEN and "openid" not in scopes:
            raise InvalidScope("an ID token needs the scope openid (OpenID Connect Core s3.1.2.1)")
        origin = subject.claims.get("origin")
        return Granted(
            subject=subject.subject,
            client_id=client.client_id,
            scopes=scopes,
            authentication=person,
            audiences=order.targets,
            exchanged=subject.claims,
            claims=claims,
            id_token=IdTokenOrder() if order.requested == ID_TOKEN else None,
            issued_token_type=order.requested,
            origin=None if origin is None else b64url_decode(origin),
            not_after=subject.expires_at,
            events=(_event(order, subject, client),),
        )

    async def _subject(self, presented: Presented, request: ProvenRequest) -> tuple[SubjectToken, Authentication]:
        """The subject token, and the sign-in of the person that it is of."""
        own = await self._live(presented)
        token = own or await self._of_others(presented, request)
        if token.authentication is None:
            raise BadRequest("subject_token: it is a program's, which asks for its own tokens with client_credentials (RFC 8693 s2.2.2)")
        if own is None:
            return token, token.authentication
        named = token.claims.get("aud")
        meant = {named} if isinstance(named, str) else set(named or ())
        mine = not meant.isdisjoint(_names(request.client))
        if "cnf" in token.claims and not mine and not _proves(request, token.claims["cnf"]):
            raise BadRequest(
                "subject_token: it is bound to a key that was not proven, and the client is no audience of it (RFC 8693 s2.2.2)"
            )
        if "scope" not in token.claims and not mine:
            raise BadRequest("subject_token: an ID token is exchanged by the client that it is for (RFC 8693 s2.2.2)")
        return token, token.authentication

    async def _check_actor(self, presented: Presented, request: ProvenRequest) -> None:
        """The actor is the client itself, by a token that it got for itself."""
        token, client = await self._live(presented), request.client
        if token is None:
            raise _not_good(presented)
        if token.client_id != client.client_id or token.subject != request.match.subject:
            raise BadRequest("actor_token: expected a token that this client got for itself by client_credentials (RFC 8693 s2.2.2)")
        if "cnf" in token.claims and not _proves(request, token.claims["cnf"]):
            raise BadRequest("actor_token: it is bound to a key that was not proven (RFC 8693 s2.2.2)")

    async def _live(self, presented: Presented) -> SubjectToken | None:
        """The token of this issuer; None for others."""
        token = await self._tokens.subject(presented.text, presented.type)
        return token if token is not None and token.issuer == self._issuer else None

    async def _of_others(self, presented: Presented, request: ProvenRequest) -> SubjectToken:
        """The token of a trusted issuer, which is no access token: those say what may be done there."""
        if presented.type == ACCESS_TOKEN:
            raise _not_good(presented)
        try:
            return await foreign_subject(presented.text, request, self._trusted().values(), self._issuer)
        except NotVouched as refused:
            raise _not_good(presented, cause=refused.cause) from None

    async def _permitted(self, request: ProvenRequest, order: Order, subject: SubjectToken, person: Authentication) -> tuple[str, ...]:
        client = request.client
        scopes = scopes_of(request.form, subject.scopes, client)
        question = GrantQuestion(
            phase="exchange",
            subject=subject.subject,
            client=client,
            scopes=frozenset(scopes),
            remote=request.call.remote,
            amr=person.amr,
            auth_time=person.auth_time + SECOND - 1,  # tokens tell whole seconds; the sign-in was somewhere within
            target_service=order.target_service,
            actor=client if order.actor is not None else None,
        )
        try:
            permitted = await self._tokens.permitted(question)
        except AccountRefused as refused:
            raise _not_good(order.subject, cause=refused.detail) from None
        return tuple(scope for scope in scopes if scope in permitted)


def _names(client: Client) -> frozenset[str]:
    """What an audience calls the client: its id, or a resource that it is registered with."""
    return frozenset((client.client_id, *client.more.get("resources", ())))


def _proves(request: ProvenRequest, cnf: Mapping[str, Any]) -> bool:
    """Whether the request proved to hold every key that a token is bound to."""
    return bool(cnf) and all(request.proven.get(confirmation) == value for confirmation, value in cnf.items())


def _not_good(presented: Presented, *, cause: str = "") -> BadRequest:
    # One sentence for every reason: which one it was helps only who tries tokens of others.
    return BadRequest(
        f"{presented.name}: expired, revoked or no token of this issuer and type, nor of one that is trusted (RFC 8693 s2.2.2)", cause=cause
    )


def _event(order: Order, subject: SubjectToken, client: Client) -> AuditEvent:
    said = ["by=actor" if order.actor is not None else "by=impersonation"]
    said += [f"iss={subject.issuer}"] if subject.client_id is None else []
    said += [f"target_service={order.target_service}"] if order.target_service is not None else []
    return AuditEvent(event_type="token_exchange", service="idp", sub=subject.subject, client_id=client.client_id, detail=" ".join(said))
