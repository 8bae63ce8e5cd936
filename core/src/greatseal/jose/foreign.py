"""JWTs of other issuers: what every :class:`greatseal.api.trust.TrustedIssuer` checks (RFC 7523 s3, RFC 8725)."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from greatseal.api.moments import SECOND
from greatseal.api.trust import ForeignToken, NotVouched
from greatseal.jose.compact import BadJws, parse_compact
from greatseal.jose.keysets import VerificationKey
from greatseal.jose.strict import decode_object

LONGEST = 16_384
"""Characters of a token that is looked at."""
LEEWAY = 60
"""Seconds that the issuer's clock may be ahead."""
LONGEST_TEXT = 256
TYPES = frozenset({"jwt", "authorization-grant+jwt"})
"""``typ`` of tokens that say who somebody is; others, such as access tokens and logout tokens, are for something else (RFC 8725 s3.11)."""
KEYS_OF_ITS_OWN = ("jwk", "jku", "x5u")
"""Header members by which a token would bring the key that checks it (RFC 8725 s3.10)."""


def read(text: str, *, ignoring: Collection[str] = ()) -> ForeignToken:
    """The token, not verified. Raises :class:`NotVouched`.

    ``ignoring`` are members of :data:`KEYS_OF_ITS_OWN` that tokens of this kind have, and that nobody looks at.
    """
    if len(text) > LONGEST:
        raise NotVouched("it is too long")
    try:
        jws = parse_compact(text)
        claims = decode_object(jws.payload)
    except (BadJws, ValueError) as error:
        raise NotVouched(f"it is not readable: {error}") from None
    typ = jws.header.get("typ", "JWT")
    if not isinstance(typ, str) or typ.lower().removeprefix("application/") not in TYPES or "events" in claims:
        raise NotVouched("typ or events say that it is another kind of token")
    if any(name in jws.header and name not in ignoring for name in KEYS_OF_ITS_OWN):
        raise NotVouched("its header brings a key: jwk, jku or x5u")
    return ForeignToken(text=text, header=jws.header, claims=claims)


def signed_by(token: ForeignToken, keys: Iterable[VerificationKey]) -> VerificationKey:
    """The key that made the signature, of those of the issuer. Raises :class:`NotVouched`."""
    jws = parse_compact(token.text)
    found = next((key for key in keys if key.signed(jws)), None)
    if found is None:
        raise NotVouched("no key of the issuer made the signature")
    return found


def check_claims(claims: Mapping[str, Any], audiences: frozenset[str], *, now: int, longest: int) -> int:
    """Audience and times; when it expires, in microseconds. ``now`` is microseconds, ``longest`` the seconds that it may live.

    Raises :class:`NotVouched`.
    """
    audience = claims.get("aud")
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named) or audiences.isdisjoint(named):
        raise NotVouched("aud names nothing that stands for this server")
    return check_times(claims, now=now, longest=longest)


def check_times(claims: Mapping[str, Any], *, now: int, longest: int) -> int:
    """The times alone, as :func:`check_claims`, for tokens that have no audience."""
    expires, second = _moment(claims, "exp"), now // SECOND
    if expires is None or not second < expires <= second + longest + LEEWAY:
        raise NotVouched(f"exp is missing, past or more than {longest} s ahead")
    for name in ("iat", "nbf"):
        moment = _moment(claims, name)
        if moment is not None and moment > second + LEEWAY:
            raise NotVouched(f"{name} lies in the future")
    return expires * SECOND


def authenticated_at(claims: Mapping[str, Any], *, now: int) -> int:
    """When the subject signed in, as far as the token tells: ``auth_time``, else ``iat``, and never after ``now``; microseconds.

    Raises :class:`NotVouched`.
    """
    told = [moment for name in ("auth_time", "iat") if (moment := _moment(claims, name)) is not None]
    return min([now, *(moment * SECOND for moment in told)])


def text_of(claims: Mapping[str, Any], name: str) -> str:
    """A claim that is a text in one printable line, without blanks around it. Raises :class:`NotVouched`."""
    value = claims.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT or not value.isprintable() or value != value.strip():
        raise NotVouched(f"{name[:LONGEST_TEXT]} is missing, or no text in one line of at most {LONGEST_TEXT} characters")
    return value


def _moment(claims: Mapping[str, Any], name: str) -> int | None:
    """A NumericDate (RFC 7519 s2) in whole seconds."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 40:
        raise NotVouched(f"{name} is no NumericDate")
    return int(value)
