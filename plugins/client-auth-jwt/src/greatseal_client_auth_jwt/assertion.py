"""The assertion itself: how it is read, and the rules that both methods share (RFC 7523 s3, reference values of RFC 7523bis)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from greatseal.api.clients import Client, ClientRequest, InvalidClient
from greatseal.host import Host
from greatseal.jose.compact import BadJws, Jws, parse_compact
from greatseal.jose.strict import decode_object

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
TYPES = frozenset({"jwt", "client-authentication+jwt"})
MAC_ALGORITHMS = frozenset({"HS256", "HS384", "HS512"})
LONGEST = 600  # seconds an assertion may live
LEEWAY = 60  # seconds a client's clock may be ahead


class Assertion(msgspec.Struct, frozen=True, kw_only=True):
    """A readable assertion. ``audiences`` are those that it may name at this endpoint."""

    jws: Jws
    claims: Mapping[str, Any]
    audiences: tuple[str, ...]

    @property
    def client_id(self) -> str:
        return str(self.claims["iss"])


def refused(cause: str) -> InvalidClient:
    """One public sentence for every reason; the reason is for the log."""
    return InvalidClient("the client or its credentials are not known", cause=cause)


def read(request: ClientRequest, *, mac: bool) -> Assertion | None:
    """The assertion of the request when it is of this family: under a MAC, or under a key pair."""
    text, kind = request.form.get("client_assertion"), request.form.get("client_assertion_type")
    if text is None or kind != TYPE:
        raise refused("client_assertion and client_assertion_type do not go together")
    try:
        jws = parse_compact(text)
        claims = decode_object(jws.payload)
    except (BadJws, ValueError) as error:
        raise refused(f"the assertion is not readable: {error}") from None
    if (jws.alg in MAC_ALGORITHMS) is not mac:
        return None
    issuer = claims.get("iss")
    if not isinstance(issuer, str) or claims.get("sub") != issuer or request.form.get("client_id", issuer) != issuer:
        raise refused("iss, sub and client_id are not one client")
    return Assertion(jws=jws, claims=claims, audiences=request.audiences)


async def accept(host: Host, assertion: Assertion, client: Client) -> None:
    """Check the claims, after the signature, and consume the jti. Raises InvalidClient.

    A client with ``strict_assertion_audience`` names the issuer alone, as a text (FAPI 2.0 Security Profile s5.3.2.1); one with
    ``issuer_assertion_audience`` the issuer alone, also as a list of one (OpenID Federation s12.1.1.2).
    """
    now = host.clock.now() // 1_000_000
    claims = assertion.claims
    typ = assertion.jws.header.get("typ")
    if typ is not None and (not isinstance(typ, str) or typ.lower() not in TYPES):
        raise refused("typ says that it is another kind of token")
    audience, strict = claims.get("aud"), client.more.get("strict_assertion_audience") is True
    if isinstance(audience, list) and len(audience) == 1 and not strict:
        audience = audience[0]
    sole = strict or client.more.get("issuer_assertion_audience") is True
    if not isinstance(audience, str) or audience not in ((host.issuer,) if sole else assertion.audiences):
        raise refused("aud is another one, or more than one")
    expires = _moment(claims, "exp")
    if expires is None or not now < expires <= now + LONGEST:
        raise refused(f"exp is missing, past or more than {LONGEST} s ahead")
    for name in ("iat", "nbf"):
        moment = _moment(claims, name)
        if moment is not None and moment > now + LEEWAY:
            raise refused(f"{name} lies in the future")
    jti = claims.get("jti")
    if not isinstance(jti, str) or not 1 <= len(jti) <= 256 or "\0" in jti:
        raise refused("jti is missing, too long or has a NUL, which PostgreSQL does not keep")
    key = f"{len(assertion.client_id)}:{assertion.client_id}:{jti}"
    if not await host.strikes.take("client_assertion", key, (expires + LEEWAY) * 1_000_000):
        raise refused("the jti was used before")


def _moment(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 40:
        raise refused(f"{name} is no NumericDate")
    return int(value)
