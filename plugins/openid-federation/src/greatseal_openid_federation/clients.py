"""Clients of a federation (OpenID Federation 1.0 s12.1): what a trust chain says of them, as a registration, kept for a while."""

import asyncio
from collections import OrderedDict
from collections.abc import Container, Mapping, Sequence
from typing import Any

import msgspec

from greatseal.api.clients import Client, ClientResolver, Clients, InvalidClientMetadata, InvalidRedirectUri
from greatseal.api.moments import SECOND
from greatseal.api.problems import Outbound, Problem, Unavailable
from greatseal.api.tokens import Grant
from greatseal.host import Host
from greatseal.jose.compact import parse_compact
from greatseal.jose.keysets import VerificationKey
from greatseal.jose.strict import decode_object
from greatseal_openid_federation.chains import Chain
from greatseal_openid_federation.entities import host_of, is_entity
from greatseal_openid_federation.problems import InvalidMetadata
from greatseal_openid_federation.resolution import Federation

SOURCE = "federation"
METHOD = "private_key_jwt"
ENTITY_TYPES = ("openid_relying_party", "oauth_client")
JWK_SET = "jwk-set+jwt"
NOT_TAKEN = frozenset({"client_id", "client_secret", "client_secret_expires_at", "client_registration_types", "resources", "scope"})
"""Members that say nothing about a client here, or that only an operator gives."""

KEPT_SECONDS, KEYS_SECONDS, AGAIN_SECONDS = 3600, 600, 60
"""Seconds until a chain is looked at again, until the keys of a ``signed_jwks_uri`` are, and until it is tried again after an outage."""
REFUSED_SECONDS = 30
"""Seconds that a refusal stays."""
MOST = 2000
"""Clients that are kept, and as many refusals."""
KNOWN, PER_CLIENT, PER_HOST, EVERYBODY, WINDOW = 20_000, 10, 30, 300, 60.0
"""Searches in so many seconds: for a client that had a chain before, for others of one host, and for all others together."""


class _Kept(msgspec.Struct):
    """``again`` is when it is looked at again, monotonic seconds; ``expires`` when the chain ends, microseconds."""

    again: float
    expires: int
    client: Client


class _Refused(msgspec.Struct):
    until: float
    problem: Problem | None


class FederationClients(ClientResolver):
    """A client whose id is an Entity Identifier. A chain that cannot be renewed now is good until it expires."""

    name = "openid-federation"

    def __init__(self, host: Host, clients: Clients, federation: Federation, scopes: tuple[str, ...]) -> None:
        self._host = host
        self._clients = clients
        self._federation = federation
        self._scopes = scopes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._refused: OrderedDict[str, _Refused] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    async def resolve(self, client_id: str) -> Client | None:
        if not is_entity(client_id):
            return None
        lock = self._locks.setdefault(client_id, asyncio.Lock())
        try:
            async with lock:
                return await self._current(client_id)
        finally:
            if not lock.locked():
                self._locks.pop(client_id, None)

    async def _current(self, client_id: str) -> Client | None:
        now, moment = self._host.clock.monotonic(), self._host.clock.now()
        kept, refused = self._kept.get(client_id), self._refused.get(client_id)
        if kept is not None and moment >= kept.expires:
            del self._kept[client_id]
            kept = None
        if kept is not None and now < kept.again:
            self._kept.move_to_end(client_id)
            return kept.client
        if refused is not None and now < refused.until:
            if refused.problem is not None:
                raise _again(refused.problem)
            return None
        try:
            found = await self._found(client_id)
        except Unavailable as outage:
            if kept is None:
                raise
            self._host.log.warning("a trust chain could not be renewed", client_id=client_id, cause=outage.cause)
            kept.again = now + AGAIN_SECONDS
            return kept.client
        except Problem as problem:
            self._refuse(client_id, problem)
            raise
        if found is None:
            self._refuse(client_id, None)
        return found

    def _refuse(self, client_id: str, problem: Problem | None) -> None:
        self._kept.pop(client_id, None)
        _put(self._refused, client_id, _Refused(self._host.clock.monotonic() + REFUSED_SECONDS, problem), MOST)

    async def _found(self, client_id: str) -> Client | None:
        """The client by a chain that is built now. Raises problems for the client."""
        self._count(client_id)
        chain = await self._federation.resolve(client_id)
        if chain is None:
            return None
        metadata = next((chain.metadata[kind] for kind in ENTITY_TYPES if kind in chain.metadata), None)
        if metadata is None:
            raise InvalidMetadata(f"to its federation the entity is none of {' and '.join(ENTITY_TYPES)} (OpenID Federation s12.1)")
        body = await self._with_keys(registration(metadata, self._scopes, self._host.components(Grant)), metadata, chain)
        try:
            client = await self._clients.read_body(client_id, body, source=SOURCE)
        except (InvalidClientMetadata, InvalidRedirectUri) as problem:
            raise InvalidMetadata(f"{problem.detail} (OpenID Federation s12.1)", cause=problem.cause) from None
        self._host.log.info("a client was found in a federation", client_id=client_id, chain=list(chain.entities), expires=chain.expires)
        self._keep(client_id, client, chain, KEYS_SECONDS if "signed_jwks_uri" in metadata else KEPT_SECONDS)
        return client

    def _keep(self, client_id: str, client: Client, chain: Chain, seconds: int) -> None:
        now = self._host.clock.monotonic()
        _put(self._kept, client_id, _Kept(now + seconds, chain.expires * SECOND, client), MOST)
        _put(self._known, client_id, None, KNOWN)

    def _count(self, client_id: str) -> None:
        """Raise Unavailable when too many chains are looked for: each costs several requests to others, and anybody may name any."""
        known = client_id in self._known
        for key, limit in ((client_id, PER_CLIENT),) if known else ((host_of(client_id), PER_HOST), ("*", EVERYBODY)):
            wait = self._host.limits.hit("federation-client", key, limit, WINDOW)
            if wait is not None:
                raise Unavailable("too many clients are looked up at the moment", cause=f"trust chains of {key}", retry_after=wait)

    async def _with_keys(self, body: dict[str, Any], metadata: Mapping[str, Any], chain: Chain) -> dict[str, Any]:
        """With one set of keys: the one of the chain itself, else a signed one, else the one behind ``jwks_uri`` (s5.2.1.1)."""
        signed = body.pop("signed_jwks_uri", None)
        if "jwks" in body:
            body.pop("jwks_uri", None)
        elif signed is not None:
            body.pop("jwks_uri", None)
            body["jwks"] = await self._signed_keys(signed, chain)
        elif "jwks_uri" not in metadata:
            raise InvalidMetadata("the client has no keys: jwks, signed_jwks_uri and jwks_uri are missing (OpenID Federation s12.1)")
        return body

    async def _signed_keys(self, url: object, chain: Chain) -> dict[str, Any]:
        """The key set behind ``signed_jwks_uri`` (s5.2.1). Raises InvalidMetadata, and Unavailable when it cannot be had now."""
        if not isinstance(url, str) or not url.startswith("https://"):
            raise InvalidMetadata("signed_jwks_uri: expected an https URL (OpenID Federation s5.2.1)")
        try:
            answer = await self._federation.get(url, f"application/{JWK_SET}")
        except Outbound as error:
            raise Unavailable("the signed keys of the client cannot be had now", cause=str(error)) from None
        if answer.status != 200:
            raise Unavailable("the signed keys of the client cannot be had now", cause=f"{url}: status {answer.status}")
        try:
            return read_signed_keys(answer.body, chain.entities[0], chain.keys, self._host.clock.now() // SECOND)
        except ValueError as error:
            raise InvalidMetadata(f"signed_jwks_uri: {error} (OpenID Federation s5.2.1)") from None


def registration(metadata: Mapping[str, Any], scopes: Sequence[str], grants: Container[str]) -> dict[str, Any]:
    """The metadata of a client as the body of an open registration; ``scopes`` are the most that it may have. Raises InvalidMetadata."""
    types = metadata.get("client_registration_types", ["automatic"])
    if not isinstance(types, list) or "automatic" not in types:
        raise InvalidMetadata("client_registration_types: expected automatic, for nothing else is offered (OpenID Federation s12.1)")
    if metadata.get("subject_type", "public") != "public":
        raise InvalidMetadata("subject_type: only public is offered (OpenID Federation s12.1)")
    if METHOD not in _methods(metadata):
        raise InvalidMetadata(f"token_endpoint_auth_method: expected {METHOD} of a client of a federation (OpenID Federation s12.1)")
    body = {name: value for name, value in metadata.items() if name not in NOT_TAKEN}
    scope = metadata.get("scope")
    asked = scope.split() if isinstance(scope, str) and scope else scopes
    body["scope"] = " ".join(one for one in asked if one in scopes)
    body["token_endpoint_auth_method"] = METHOD
    body.setdefault("client_name", _first_text(metadata, "display_name", "organization_name"))
    # What a client registers for other providers too: this one gives what it has (RFC 7591 s2).
    for name, offered in (("grant_types", grants), ("response_types", ("code",))):
        if isinstance(listed := body.get(name), list) and (common := [one for one in listed if isinstance(one, str) and one in offered]):
            body[name] = common
    return body


def read_signed_keys(body: bytes, entity: str, keys: tuple[VerificationKey, ...], now: int) -> dict[str, Any]:
    """The JWK Set in a signed one, by a federation key of the entity. ``now`` is seconds. Raises ValueError."""
    jws = parse_compact(body.decode("ascii", "replace").strip())
    claims = decode_object(jws.payload)
    if jws.header.get("typ") != JWK_SET:
        raise ValueError(f"typ is not {JWK_SET}")
    if not any(key.kid == jws.header.get("kid") and key.signed(jws) for key in keys):
        raise ValueError("the signature is by no federation key of the client")
    if claims.get("iss") != entity or claims.get("sub") != entity:
        raise ValueError("iss or sub is not the client")
    expires = claims.get("exp", now + 1)
    if not isinstance(expires, int | float) or expires <= now:
        raise ValueError("exp has passed")
    return {"keys": claims.get("keys")}


def _methods(metadata: Mapping[str, Any]) -> Any:
    """How the client may prove itself (s12.1.4). One that says nothing does as all of a federation can."""
    one = metadata.get("token_endpoint_auth_method")
    many = metadata.get("token_endpoint_auth_methods_supported")
    return [one] if one is not None else many if isinstance(many, list) else [METHOD]


def _first_text(metadata: Mapping[str, Any], *names: str) -> str | None:
    return next((value for name in names if isinstance(value := metadata.get(name), str)), None)


def _again(problem: Problem) -> Problem:
    """The same refusal, once more."""
    return type(problem)(problem.detail, cause=f"{problem.cause}; that was a moment ago")


def _put(where: OrderedDict[str, Any], key: str, value: object, most: int) -> None:
    """As the latest of so many."""
    where[key] = value
    where.move_to_end(key)
    while len(where) > most:
        where.popitem(last=False)
