"""Request objects by value (RFC 9101): the parameter ``request`` is a whole authorization request that the client signed."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from greatseal.api.authorization import Ask, Extension, Wish
from greatseal.api.clients import Client, InvalidClientMetadata, Registration
from greatseal.api.http import Parameters
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.algorithms import is_allowed
from greatseal.jose.compact import ALGORITHMS, Jws, parse_compact
from greatseal.jose.keysets import read_key_set
from greatseal.jose.strict import decode_object
from greatseal.net import RemoteKeys
from greatseal_jar.decryption import RequestKeys

TYPE = "oauth-authz-req+jwt"
LEEWAY = 60
"""Seconds by which a client's clock may be ahead."""
LONGEST = 3600
"""Seconds that an object of a strict client may live, and be old (FAPI 2.0 Message Signing s5.3.1)."""

WHERE_OBJECTS_ARE = frozenset({"authorize", "par", "backchannel"})
"""A device has no browser that could change what it asks for, and RFC 8628 s3.1 has no ``request``."""
JWE_DOTS = 4
BACKCHANNEL = "backchannel_authentication_request_signing_alg"
CIBA = "urn:openid:params:grant-type:ciba"
LONGEST_JTI = 256
REGISTRATION = "(OpenID Connect Registration s2)"
STRICT = "(FAPI 2.0 Message Signing s5.3.1)"

_OF_THE_JWT = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti"})
_REPEATED = frozenset({"resource", "audience"})  # RFC 8707 s2, RFC 8693 s2.1

Alg = Literal["RSA-OAEP", "RSA-OAEP-256", "ECDH-ES", "ECDH-ES+A128KW", "ECDH-ES+A256KW"]
Enc = Literal["A128CBC-HS256", "A256CBC-HS512", "A128GCM", "A256GCM"]


class InvalidRequestObject(BadRequest):
    """The request object is not good (RFC 9101 s7)."""

    error = "invalid_request_object"


class RequestObjectFields(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a client."""

    request_object_signing_alg: str | None = None
    """The only algorithm that its request objects may have (OpenID Connect Registration s2)."""
    backchannel_authentication_request_signing_alg: str | None = None
    """The only algorithm of its signed requests at the backchannel; with it, all of them are signed (CIBA Core s4)."""
    request_object_encryption_alg: Alg | None = None
    """The only algorithm by which its request objects may be encrypted; all are signed (OpenID Connect Registration s2)."""
    request_object_encryption_enc: Enc | None = None
    """The only one that encrypts what is inside."""
    require_signed_request_object: bool = False
    """Whether a request without a request object is refused (RFC 9101 s10.5)."""
    strict_request_object: bool = False
    """Whether ``typ``, ``nbf`` and ``exp`` must be there, with an hour between the two at most (FAPI 2.0 Message Signing s5.3.1)."""
    single_use_request_object: bool = False
    """Whether each is good once, by its ``jti``, for at most an hour, with this issuer as its only ``aud`` and without ``sub``
    (OpenID Federation s12.1.1.1)."""


class RequestObjects(Extension[msgspec.Struct]):
    """Every client with registered keys may sign its requests."""

    name = "request-objects"
    fields = RequestObjectFields
    opens = "request"

    def __init__(self, host: Host, keys: RemoteKeys, own: RequestKeys) -> None:
        self._host = host
        self._keys = keys
        self._own = own

    def check(self, registration: Registration) -> None:
        client = registration.client
        for name in ("request_object_signing_alg", BACKCHANNEL):
            if client.more.get(name, "ES256") not in ALGORITHMS:
                raise InvalidClientMetadata(f"{name}: expected one of {', '.join(ALGORITHMS)} {REGISTRATION}")
        for name in RequestObjectFields.__struct_fields__:
            if client.more.get(name) and client.jwks is None and client.jwks_uri is None:
                raise InvalidClientMetadata(f"{name}: needs the keys of the client, in jwks_uri or jwks {REGISTRATION}")
        if "request_object_encryption_enc" in client.more and "request_object_encryption_alg" not in client.more:
            raise InvalidClientMetadata(f"request_object_encryption_enc: needs request_object_encryption_alg {REGISTRATION}")
        if client.jwks_uri is not None and not client.jwks_uri.startswith("https://"):
            raise InvalidClientMetadata(f"jwks_uri must begin with https:// {REGISTRATION}")
        if client.jwks is not None and any(map(client.more.get, RequestObjectFields.__struct_fields__)):
            try:
                read_key_set(client.jwks)
            except ValueError as error:
                raise InvalidClientMetadata(f"jwks: {error} (RFC 7517 s5)") from None

    async def open(self, ask: Ask) -> Parameters:
        try:
            return await self._opened(ask)
        except InvalidRequestObject as refused:
            if ask.at != "backchannel":
                raise
            raise BadRequest(refused.detail, cause=refused.cause) from None  # CIBA Core s13 has no code of its own for it

    async def _opened(self, ask: Ask) -> Parameters:
        try:
            jws = parse_compact(await self._decrypted(ask.sent["request"], ask.client))
            claims = decode_object(jws.payload)
        except ValueError as error:  # BadJws and BadJwe are such
            raise InvalidRequestObject(f"the request object is no signed JWT: {error} (RFC 9101 s6)") from None
        backchannel = ask.at == "backchannel"
        _check_header(jws, ask.client, BACKCHANNEL if backchannel else "request_object_signing_alg")
        await self._check_signature(jws, ask.client)
        self._check_parties({"client_id": ask.client.client_id, **claims} if backchannel else claims, ask.client)
        self._check_times(claims, ask.client)
        if backchannel:
            await self._use_up(claims, ask.client)
        elif ask.client.more.get("single_use_request_object") is True:
            await self._use_once(claims, ask.client)
        return Parameters(parameters(claims))

    async def _decrypted(self, text: str, client: Client) -> str:
        """The JWS: as it came, or from the JWE around it (RFC 9101 s6.1)."""
        if text.count(".") != JWE_DOTS:
            return text
        alg, enc = (client.more.get(f"request_object_encryption_{what}") for what in ("alg", "enc"))
        return await self._own.open(text, alg, enc)

    def concerns(self, ask: Ask) -> bool:
        return ask.at in WHERE_OBJECTS_ARE and "request" not in ask.sent

    async def ask(self, ask: Ask) -> Wish[msgspec.Struct] | None:
        if ask.client.more.get("require_signed_request_object") is True:
            raise BadRequest("this client must send its request as a signed request object (RFC 9101 s10.5)")
        if ask.at == "backchannel" and BACKCHANNEL in ask.client.more:
            raise BadRequest("this client must sign its requests (CIBA Core s7.1.1)")
        return None

    async def _check_signature(self, jws: Jws, client: Client) -> None:
        try:
            keys = await self._keys.of_client(client, jws.header)
        except ValueError:
            raise InvalidRequestObject("the client has no keys that sign; register jwks_uri or jwks (RFC 9101 s6.2)") from None
        used = next((key.key for key in keys if key.signed(jws)), None)
        if used is None:
            raise InvalidRequestObject("no registered key of the client made the signature (RFC 9101 s6.2)")
        if not is_allowed(jws.alg, used, client.more.get("allowed_signing_algs")):
            raise InvalidRequestObject("alg of the request object is none that the client may use with this key (RFC 9101 s6.2)")
        if await self._host.blocked_keys.find(spki_sha256(used)):
            raise InvalidRequestObject("the key is blocked, since others may have it; register a new one")

    def _check_parties(self, claims: Mapping[str, Any], client: Client) -> None:
        """Who says it to whom (RFC 9101 s4, s6.3)."""
        for name in ("client_id", "iss"):
            if claims.get(name) != client.client_id:
                raise InvalidRequestObject(f"{name} in the request object is not the client_id of the request (RFC 9101 s4, s6.3)")
        if claims.get("sub") == client.client_id:
            # It passes through browsers, and with this it could be sent as the assertion by which the client proves itself.
            raise InvalidRequestObject("sub in the request object must not be the client_id (RFC 9101 s10.8)")
        audience = claims.get("aud")
        if self._host.issuer not in (audience if isinstance(audience, list) else [audience]):
            raise InvalidRequestObject(f"aud in the request object is not {self._host.issuer} (RFC 9101 s4)")
        if "request" in claims or "request_uri" in claims:
            raise InvalidRequestObject("request and request_uri must not be in a request object (RFC 9101 s4)")

    async def _use_up(self, claims: Mapping[str, Any], client: Client) -> None:
        """What CIBA Core s7.1.1 asks beside: nobody reloads such a request, so each is good once."""
        for name in ("exp", "iat", "nbf"):
            if _moment(claims, name) is None:
                raise InvalidRequestObject(f"{name} is missing in the signed request (CIBA Core s7.1.1)")
        expires, begins = _moment(claims, "exp") or 0, _moment(claims, "nbf") or 0
        if expires > begins + LONGEST:  # so nbf is not older than that either, for exp is still to come
            raise InvalidRequestObject(f"exp is more than {LONGEST} s after nbf (FAPI-CIBA s5.2.2)")
        jti = claims.get("jti")
        if not isinstance(jti, str) or not 1 <= len(jti) <= LONGEST_JTI:
            raise InvalidRequestObject(f"jti is no text of 1 to {LONGEST_JTI} characters (CIBA Core s7.1.1)")
        if not await self._is_first(client, jti, expires):
            raise InvalidRequestObject("the jti was used before; each request needs one of its own (CIBA Core s7.1.1)")

    async def _use_once(self, claims: Mapping[str, Any], client: Client) -> None:
        """What OpenID Federation s12.1.1.1 asks beside."""
        if claims["aud"] not in (self._host.issuer, [self._host.issuer]):
            raise InvalidRequestObject(f"aud in the request object is more than {self._host.issuer} (OpenID Federation s12.1.1.1)")
        if "sub" in claims:
            raise InvalidRequestObject("sub must not be in the request object (OpenID Federation s12.1.1.1)")
        expires, jti = _moment(claims, "exp"), claims.get("jti")
        if expires is None or expires > self._host.clock.now() // SECOND + LONGEST:
            raise InvalidRequestObject(f"exp is missing, or more than {LONGEST} s ahead (OpenID Federation s12.1.1.1)")
        if not isinstance(jti, str) or not 1 <= len(jti) <= LONGEST_JTI:
            raise InvalidRequestObject(f"jti is no text of 1 to {LONGEST_JTI} characters (OpenID Federation s12.1.1.1)")
        if not await self._is_first(client, jti, expires):
            raise InvalidRequestObject("the jti was used before; each request needs one of its own (OpenID Federation s12.1.1.1)")

    async def _is_first(self, client: Client, jti: str, expires: int) -> bool:
        key = f"{len(client.client_id)}:{client.client_id}:{jti}"
        return await self._host.strikes.take("signed_request", key, (expires + LEEWAY) * SECOND)

    def _check_times(self, claims: Mapping[str, Any], client: Client) -> None:
        now = self._host.clock.now() // SECOND
        expires, begins, made = (_moment(claims, name) for name in ("exp", "nbf", "iat"))
        if expires is not None and expires <= now:
            raise InvalidRequestObject("the request object has expired (RFC 7519 s4.1.4)")
        if max(begins or 0, made or 0) > now + LEEWAY:
            raise InvalidRequestObject("the request object is not valid yet: nbf or iat lies in the future (RFC 7519 s4.1)")
        if client.more.get("strict_request_object") is True:
            if expires is None or begins is None:
                raise InvalidRequestObject(f"the request objects of this client need nbf and exp {STRICT}")
            if expires - begins > LONGEST:  # so nbf is not older than that either
                raise InvalidRequestObject(f"exp is more than {LONGEST} s after nbf {STRICT}")


def parameters(claims: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The authorization request in the claims of a request object: values that are no text are their JSON."""
    for name, value in claims.items():
        if name in _OF_THE_JWT or value is None:
            continue
        for one in value if name in _REPEATED and isinstance(value, list) else (value,):
            yield name, one if isinstance(one, str) else msgspec.json.encode(one).decode()


def _check_header(jws: Jws, client: Client, registered: str) -> None:
    """``registered`` is the member of the client that names its only algorithm."""
    typ = jws.header.get("typ")
    strict = client.more.get("strict_request_object") is True
    said = typ.lower().removeprefix("application/") if isinstance(typ, str) else typ
    if said not in ((TYPE,) if strict else (TYPE, "jwt", None)):
        raise InvalidRequestObject(f"typ of the request object is not {TYPE} (RFC 9101 s10.8)")
    if jws.alg not in ALGORITHMS:
        raise InvalidRequestObject(f"alg of the request object is none of {', '.join(ALGORITHMS)} (RFC 9101 s6.2)")
    if jws.alg != client.more.get(registered, jws.alg):
        raise InvalidRequestObject("alg of the request object is not the one that the client registered (OpenID Connect Core s6.3.2)")


def _moment(claims: Mapping[str, Any], name: str) -> int | None:
    """A NumericDate (RFC 7519 s2), in whole seconds."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 40:
        raise InvalidRequestObject(f"{name} in the request object is no NumericDate (RFC 7519 s2)")
    return int(value)
