"""The grant: an assertion of a trusted issuer is used up, and a token is given for whom it means. No refresh token is given."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import Client, ProvenRequest
from greatseal.api.identity import AccountRefused
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest
from greatseal.api.store import Refused, Tx
from greatseal.api.tokens import Authentication, Grant, Granted, GrantQuestion, InvalidGrant, InvalidScope, Tokens, UnauthorizedClient
from greatseal.api.trust import NotVouched, TrustedIssuer, Vouched, check_use, vouched
from greatseal.host import Host
from greatseal.jose.foreign import LEEWAY, read

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
UNPROVEN = "none"
"""The method of clients that prove nothing."""
KIND = "jwt_bearer"
"""Of the strikes."""
NEVER = "offline_access"
"""An assertion gives no refresh token."""
OF_PEOPLE = frozenset({"openid", "profile", "email", "phone", "address"})
"""Scopes about a person, which a workload has no use for."""
REFUSED = "assertion: expired, used, not for this server, or of nobody who is known here (RFC 7523 s3.1)"


class Redemption(msgspec.Struct, frozen=True, kw_only=True):
    """What is given, if the assertion was not used before. ``until`` is microseconds."""

    key: str
    until: int
    granted: Granted
    failed: AuditEvent


class JwtBearer(Grant[Redemption]):
    """RFC 7523 s2.1: the client, the assertion, whom it means, policy, scopes; then the assertion is used up in the write of the grant."""

    grant_type: ClassVar[str] = GRANT_TYPE

    def __init__(self, host: Host, tokens: Tokens) -> None:
        self._host = host
        self._tokens = tokens
        self._audiences = frozenset({host.issuer, f"{host.issuer}/token"})

    def outside_key(self, form: Mapping[str, Any]) -> str | None:
        text = form.get("assertion")
        try:
            claims = read(text).claims if isinstance(text, str) else {}
        except NotVouched:
            return None
        issuer, jti = claims.get("iss"), claims.get("jti")
        return f"{KIND}:{_key(issuer, jti)}" if isinstance(issuer, str) and isinstance(jti, str) else None

    async def prepare(self, request: ProvenRequest) -> Redemption:
        client = request.client
        if not client.is_administered:
            raise UnauthorizedClient("only a client that an administrator registered brings assertions (RFC 6749 s5.2)")
        if client.token_endpoint_auth_method == UNPROVEN:
            raise UnauthorizedClient("a client that does not prove itself brings no assertions (RFC 6749 s5.2)")
        if "assertion" not in request.form:
            raise BadRequest("assertion is required (RFC 7523 s2.1)")
        try:
            return await self._redemption(request)
        except NotVouched as refused:
            await self._host.audit_log(_failure(client, refused.issuer, refused.cause))
            raise InvalidGrant(REFUSED, cause=refused.cause) from None

    def redeem(self, tx: Tx, prepared: Redemption) -> Granted | Refused:
        if not self._host.strikes.take_within(tx, KIND, prepared.key, prepared.until):
            tx.audit(prepared.failed)
            return Refused(InvalidGrant(REFUSED, cause="the jti was used before"))
        return prepared.granted

    async def _redemption(self, request: ProvenRequest) -> Redemption:
        found = await vouched(self._host.components(TrustedIssuer).values(), read(request.form["assertion"]), self._audiences)
        check_use(found, request.client, request.proven, self._host.issuer)
        if found.jti is None:
            raise NotVouched("it has no jti", issuer=found.issuer)
        client, person = request.client, found.kind == "person"
        scopes = scopes_of(request, found)
        try:
            permitted = await self._tokens.permitted(_question(request, found, scopes))
        except AccountRefused as refused:
            raise NotVouched(refused.detail, issuer=found.issuer) from None
        granted = Granted(
            subject=found.local,
            client_id=client.client_id,
            scopes=tuple(scope for scope in scopes if scope in permitted),
            authentication=Authentication(auth_time=found.authenticated_at, amr=(), acr=None) if person else None,
            exchanged={},  # nothing of the assertion is authorized but what this grant says
            events=(_event("jwt_bearer", client, found),),
        )
        failed = msgspec.structs.replace(_event("jwt_bearer_failure", client, found, " used before"), outcome="failure")
        # As long as it may be taken: the issuer's clock may be ahead, and the same assertion has the same end.
        return Redemption(key=_key(found.issuer, found.jti), until=found.expires_at + LEEWAY * SECOND, granted=granted, failed=failed)


def scopes_of(request: ProvenRequest, found: Vouched) -> tuple[str, ...]:
    """What is asked for, of what client and issuer may have. Raises InvalidScope."""
    client, asked = request.client, request.form.get("scope")
    never = {NEVER} if found.kind == "person" else {NEVER, *OF_PEOPLE}
    may = [scope for scope in client.scopes if scope not in never and (found.scopes is None or scope in found.scopes)]
    names = may if asked is None else asked.split(" ")
    if not set(names) <= set(client.scopes):
        raise InvalidScope("scope: one of them is not registered for this client (RFC 6749 s3.3)")
    left = tuple(dict.fromkeys(name for name in names if name in may))
    if not left and not request.scopeless:
        raise InvalidScope("scope: none of them is for the subject of this assertion (RFC 7521 s4.1)")
    return left


def _question(request: ProvenRequest, found: Vouched, scopes: tuple[str, ...]) -> GrantQuestion:
    person = found.kind == "person"
    return GrantQuestion(
        phase="token" if person else "client",
        subject=found.local,
        client=request.client,
        scopes=frozenset(scopes),
        remote=request.call.remote,
        auth_time=found.authenticated_at + SECOND - 1 if person else None,  # tokens tell whole seconds
    )


def _key(issuer: str, jti: str) -> str:
    return f"{len(issuer)}:{issuer}:{jti}"


def _event(type: str, client: Client, found: Vouched, more: str = "") -> AuditEvent:
    detail = f"iss={found.issuer} jti={found.jti}{more}"
    return AuditEvent(event_type=type, service="idp", sub=found.subject, client_id=client.client_id, principal=found.local, detail=detail)


def _failure(client: Client, issuer: str | None, cause: str) -> AuditEvent:
    detail = cause if issuer is None else f"iss={issuer} {cause}"
    return AuditEvent(event_type="jwt_bearer_failure", service="idp", outcome="failure", client_id=client.client_id, detail=detail)
