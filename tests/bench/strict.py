"""What clients of the strict features send, made before the load: client assertions, DPoP proofs, and tokens to exchange."""

import json
import secrets
import time
from typing import Any
from urllib.parse import urlencode

from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import sign_compact
from greatseal.jose.jwk import jwk_of

KEY = ec.generate_private_key(ec.SECP256R1())
JWKS: dict[str, Any] = {"keys": [{**jwk_of(KEY.public_key()), "kid": "bench", "alg": "ES256", "use": "sig"}]}
"""Of the client that proves itself by a key."""
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
SIGNED = "application/token-introspection+jwt"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def assertions(client_id: str, audience: str, count: int) -> list[str]:
    """Forms of client_credentials with an assertion each (RFC 7523 s2.2)."""
    grant = {"grant_type": "client_credentials", "client_id": client_id, "client_assertion_type": ASSERTION}
    form = urlencode(grant)
    return [f"{form}&client_assertion={_signed({'alg': 'ES256', 'kid': 'bench'}, _claims(client_id, audience))}" for _ in range(count)]


def proofs(url: str, body: str, count: int) -> list[str]:
    """Bodies with a DPoP proof each (RFC 9449)."""
    header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk_of(KEY.public_key())}
    made = ({"jti": secrets.token_urlsafe(12), "htm": "POST", "htu": url, "iat": int(time.time())} for _ in range(count))
    return [f"{_signed(header, claims)}\t{body}" for claims in made]


def exchanged(token: str) -> str:
    """The form that exchanges a token."""
    return urlencode({"grant_type": EXCHANGE, "subject_token": token, "subject_token_type": ACCESS_TOKEN, "scope": "openid"})


def _claims(client_id: str, audience: str) -> dict[str, Any]:
    now = int(time.time())
    return {"iss": client_id, "sub": client_id, "aud": audience, "jti": secrets.token_urlsafe(12), "iat": now, "exp": now + 120}


def _signed(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return sign_compact(header, json.dumps(claims).encode(), lambda message: ALGORITHMS["ES256"].sign(KEY, message))
