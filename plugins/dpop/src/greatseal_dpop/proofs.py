"""Proofs: JWTs that are good for one request each, under the key that they carry (RFC 9449 s4)."""

import re
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

from greatseal.api.clients import Client
from greatseal.api.http import Call
from greatseal.api.identity import Headers
from greatseal.api.moments import SECOND
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.algorithms import is_allowed
from greatseal.jose.compact import BadJws, Jws, b64url_encode, parse_compact
from greatseal.jose.jwk import public_key, thumbprint
from greatseal.jose.strict import decode_object
from greatseal_dpop.nonces import Nonces

TYPE = "dpop+jwt"
WINDOW = 60 * SECOND
"""By how much the clock of a client may differ from ours; what it accepts is remembered as long."""
LONGEST_JTI = 256

_URL = re.compile(r"(https?)://([^/?#:\[\]\s]+|\[[^/?#\[\]\s]+\])(?::([0-9]*))?(/[^?#\s]*)?(?:[?#]\S*)?", re.ASCII | re.IGNORECASE)
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile("[A-Za-z0-9._~-]")
_PORTS = {"http": "80", "https": "443"}


class BadProof(ValueError):
    """A proof that is not good here; the text says why and is fit for the client."""


class NeedsNonce(BadProof):
    """A proof without a nonce that is good here."""


class Proofs:
    """Reads the proofs of requests to this service, which must hold one of ``nonces`` where there are such."""

    def __init__(self, host: Host, nonces: Nonces | None = None) -> None:
        self._host = host
        self._nonces = nonces

    async def headers(self) -> Headers:
        """What goes out with each answer to a proof: the nonce for the next one."""
        return () if self._nonces is None else (("DPoP-Nonce", await self._nonces.current()),)

    async def read(self, call: Call, sent: Sequence[str], client: Client | None, *, ath: str | None = None) -> str:
        """The thumbprint of the key of the proof in the headers ``sent``, which is used up.

        The ``client`` may have registered which algorithms it has (``allowed_signing_algs``). ``ath`` is the hash of the access token
        beside it, None where there is none. Raises :class:`BadProof`.
        """
        if len(sent) != 1:
            raise BadProof("there are two DPoP headers (RFC 9449 s4.3)" if sent else "there is no DPoP header (RFC 9449 s4.1)")
        jws, jkt = await self._signed(sent[0], client.more.get("allowed_signing_algs") if client else None)
        try:
            claims = decode_object(jws.payload)
        except ValueError as error:
            raise BadProof(f"the claims are {error} (RFC 9449 s4.3)") from None
        self._check_place(call, claims, ath)
        end = self._end(claims)
        if self._nonces is not None and not await self._nonces.is_good(claims.get("nonce")):
            raise NeedsNonce("the proof has to hold the nonce of the header DPoP-Nonce of this answer (RFC 9449 s8)")
        self._use_up(jkt, claims.get("jti"), end)
        return jkt

    async def _signed(self, text: str, allowed: Collection[str] | None) -> tuple[Jws, str]:
        """The proof and the thumbprint of the key that made it."""
        try:
            jws = parse_compact(text)
        except BadJws as error:
            raise BadProof(f"the proof is no JWT: {error} (RFC 9449 s4.3)") from None
        typ, jwk = jws.header.get("typ"), jws.header.get("jwk")
        if not isinstance(typ, str) or typ.lower() != TYPE:
            raise BadProof(f"typ is not {TYPE} (RFC 9449 s4.2)")
        if not isinstance(jwk, dict):
            raise BadProof("the header has no jwk (RFC 9449 s4.2)")
        try:
            key = public_key(jwk)
        except ValueError as error:
            raise BadProof(f"the key is not accepted: {error} (RFC 9449 s4.2)") from None
        try:
            jws.verify(key)
        except BadJws as error:
            raise BadProof(f"the signature is not good: {error} (RFC 9449 s4.3)") from None
        if not is_allowed(jws.alg, key, allowed):
            raise BadProof("alg is none that this client may use with this key (RFC 9449 s4.3)")
        if await self._host.blocked_keys.find(spki_sha256(key)):
            raise BadProof("the key is blocked, since others may have it; make a new one")
        return jws, thumbprint(jwk)

    def _check_place(self, call: Call, claims: Mapping[str, Any], ath: str | None) -> None:
        """The proof is for this request and this access token."""
        if claims.get("htm") != call.method:
            raise BadProof(f"htm is not {call.method}, the method of this request (RFC 9449 s4.3)")
        if not self._is_here(call, claims.get("htu")):
            raise BadProof(f"htu is not the URL of this request, which begins with {self._host.issuer} (RFC 9449 s4.3)")
        if ath is not None and claims.get("ath") != ath:
            raise BadProof("ath is not the hash of this access token (RFC 9449 s4.3)")

    def _is_here(self, call: Call, htu: object) -> bool:
        """Metadata names endpoints below the issuer, while the service is asked below its base URL."""
        path = call.url[len(self._host.base_url) :].partition("?")[0]
        return isinstance(htu, str) and normal(htu) in {normal(self._host.issuer + path), normal(self._host.base_url + path)}

    def _end(self, claims: Mapping[str, Any]) -> int:
        """The moment from which on the proof is too old."""
        now, made = self._host.clock.now(), _moment(claims, "iat")
        if made is None:
            raise BadProof("iat is missing (RFC 9449 s4.2)")
        if not -WINDOW <= now - made <= WINDOW:
            raise BadProof(f"iat differs by more than {WINDOW // SECOND} s from the time here, which is {now // SECOND} (RFC 9449 s11.1)")
        expires, begins = _moment(claims, "exp"), _moment(claims, "nbf")
        if (expires is not None and expires <= now) or (begins is not None and begins > now + WINDOW):
            raise BadProof("the proof has expired, or is not valid yet (RFC 7519 s4.1)")
        return made + WINDOW

    def _use_up(self, jkt: str, jti: object, until: int) -> None:
        if not isinstance(jti, str) or not 1 <= len(jti) <= LONGEST_JTI:
            raise BadProof(f"jti is no text of 1 to {LONGEST_JTI} characters (RFC 9449 s4.2)")
        if self._host.strikes.seen("dpop_proof", b64url_encode(sha256(f"{jkt} {jti}".encode()).digest()), until):
            raise BadProof("the proof was used before; each request needs one of its own (RFC 9449 s11.1)")


def normal(url: str) -> str | None:
    """A URL without query and fragment, as RFC 3986 s6.2.2 and s6.2.3 spell it; None for what is none."""
    found = _URL.fullmatch(url)
    if found is None:
        return None
    scheme, host, port, path = found[1].lower(), found[2].lower(), found[3], found[4]
    authority = host if port in {None, "", _PORTS[scheme]} else f"{host}:{port}"
    return f"{scheme}://{authority}{_ESCAPE.sub(_unescaped, path or '/')}"


def _unescaped(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if _UNRESERVED.fullmatch(character) else found[0].upper()


def _moment(claims: Mapping[str, Any], name: str) -> int | None:
    """A NumericDate in microseconds."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 40:
        raise BadProof(f"{name} is no NumericDate (RFC 7519 s2)")
    return int(value * SECOND)
