"""A client of FAPI 2.0, in each way of proving itself and of binding its tokens, at a service that other tests of the module use too."""

import json
import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from joserfc import jwt
from joserfc.jwk import KeySet
from security.idp_desk import BROWSER, Desk
from security.test_idp_mtls import OWN, Certificate

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode, sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import CALLBACK, CHALLENGE, VERIFIER, Answer, hidden_fields, members_of, told

__all__ = [
    "CALLBACK",
    "CHALLENGE",
    "JWKS",
    "KEYS",
    "VARIANTS",
    "VERIFIER",
    "FapiClient",
    "Variant",
    "error_of",
    "of",
    "refused",
    "registration",
]

KEYS: Mapping[str, Any] = {
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "PS256": rsa.generate_private_key(65537, 2048),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    "Ed25519": ed25519.Ed25519PrivateKey.generate(),
}
JWKS = {"keys": [{**jwk_of(key.public_key()), "kid": alg} for alg, key in KEYS.items()]}
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Variant(msgspec.Struct, frozen=True):
    """``alg`` signs assertions and requests; without it the client has a certificate alone."""

    profile: str
    method: str
    bound: str
    alg: str = "ES256"

    @property
    def signing(self) -> bool:
        return self.profile == "fapi2_message_signing"

    def __str__(self) -> str:
        return f"{self.profile}-{self.method}-{self.bound}"


VARIANTS = (
    Variant("fapi2", "private_key_jwt", "dpop", "PS256"),
    Variant("fapi2", "private_key_jwt", "mtls", "EdDSA"),
    Variant("fapi2", "tls_client_auth", "mtls"),
    Variant("fapi2", "self_signed_tls_client_auth", "dpop"),
    Variant("fapi2_message_signing", "private_key_jwt", "dpop", "Ed25519"),
    Variant("fapi2_message_signing", "tls_client_auth", "mtls", "PS256"),
)


def of(**wanted: str | bool) -> pytest.MarkDecorator:
    """The test runs with each variant that has these members."""
    chosen = [one for one in VARIANTS if all(getattr(one, name) == value for name, value in wanted.items())]
    return pytest.mark.parametrize("rp", chosen, indirect=True, ids=str)


class FapiClient:
    """Each step takes what a module of the suite does differently."""

    def __init__(self, desk: Desk, variant: Variant, client: Mapping[str, Any]) -> None:
        self.desk, self.variant, self.client = desk, variant, client
        self.client_id = client["client_id"]
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate: Certificate | None = OWN

    @classmethod
    async def registered(cls, desk: Desk, variant: Variant, **changes: Any) -> "FapiClient":
        answer = await desk.register(**registration(variant, **changes))
        assert answer.status == 201, answer.text
        return cls(desk, variant, answer.json)

    @property
    def now(self) -> int:
        return int(self.desk.clock.now()) // 1_000_000

    # ---- What proves it

    def signed(self, typ: str | None, claims: Mapping[str, Any], *, alg: str | None = None, key: Any = None, kid: str | None = None) -> str:
        alg = alg or self.variant.alg
        key = key or KEYS[alg]
        header = {"alg": alg, "kid": kid or alg, **({"typ": typ} if typ else {})}
        whole = {name: value for name, value in claims.items() if value is not None}
        return sign_compact(header, json.dumps(whole).encode(), lambda message: ALGORITHMS[alg].sign(key, message))

    def assertion(self, *, alg: str | None = None, key: Any = None, kid: str | None = None, **changes: Any) -> dict[str, str]:
        claims = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": self.desk.url,
            "jti": secrets.token_urlsafe(),
            "iat": self.now,
            "exp": self.now + 60,
            **changes,
        }
        return {"client_assertion_type": ASSERTION, "client_assertion": self.signed(None, claims, alg=alg, key=key, kid=kid)}

    def proof(
        self, method: str, path: str, token: str | None = None, *, alg: str = "ES256", key: Any = None, **changes: Any
    ) -> dict[str, str]:
        """A DPoP proof as a header; none where the client binds to its certificate."""
        if self.variant.bound != "dpop":
            return {}
        key = key or self.key
        claims = {"jti": secrets.token_urlsafe(), "htm": method, "htu": self.desk.url + path, "iat": self.now, **changes}
        if token is not None:
            claims["ath"] = b64url_encode(sha256(token.encode()).digest())
        header = {"typ": "dpop+jwt", "alg": alg, "jwk": jwk_of(key.public_key())}
        return {"DPoP": sign_compact(header, json.dumps(claims).encode(), lambda message: ALGORITHMS[alg].sign(key, message))}

    @property
    def shown(self) -> dict[str, str]:
        """The header of the proxy that has the TLS."""
        return {} if self.certificate is None or not self._certified else self.certificate.shown

    @property
    def _certified(self) -> bool:
        return "mtls" in self.variant.bound or "tls" in self.variant.method

    # ---- Its requests

    async def post(
        self, path: str, form: Mapping[str, Any], *, headers: Mapping[str, str] | None = None, proven: Mapping[str, str] | None = None
    ) -> Answer:
        """A form, with the client authentication ``proven`` or a good one."""
        if proven is None:
            proven = self.assertion() if self.variant.method == "private_key_jwt" else {"client_id": self.client_id}
        data = {name: value for name, value in {**form, **proven}.items() if value is not None}
        return await self.desk.post(path, data=data, headers={**self.shown, **(headers or {})})

    def asked(self, **changes: Any) -> dict[str, Any]:
        """The parameters of a good request; None takes one out."""
        whole = {
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid profile email offline_access",
            "state": "state-1",
            "nonce": "nonce-1",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **({"response_mode": "jwt"} if self.variant.signing else {}),
            **changes,
        }
        return {name: value for name, value in whole.items() if value is not None}

    def request(self, asked: Mapping[str, Any], *, alg: str | None = None, key: Any = None, **changes: Any) -> dict[str, Any]:
        """The same as it is sent: in a request object where the profile wants one; ``changes`` are claims of that."""
        if not self.variant.signing:
            return dict(asked)
        claims = {**asked, "iss": self.client_id, "aud": self.desk.url, "nbf": self.now, "exp": self.now + 300, **changes}
        return {"client_id": self.client_id, "request": self.signed("oauth-authz-req+jwt", claims, alg=alg, key=key)}

    async def push(self, *, headers: Mapping[str, str] | None = None, proven: Mapping[str, str] | None = None, **changes: Any) -> Answer:
        return await self.post("/par", self.request(self.asked(**changes)), headers=headers, proven=proven)

    async def begin(self, request_uri: str, cookie: str, **more: str) -> Answer:
        query = urlencode({"client_id": self.client_id, "request_uri": request_uri, **more})
        return await self.desk.get(f"/authorize?{query}", cookie=cookie)

    async def decided(self, asked: Answer, cookie: str, decision: str = "approve") -> Answer:
        """The person allows it, or not, unless they did so before."""
        if not asked.location.startswith("/api/auth/consent"):
            return asked
        page = await self.desk.get(asked.location, cookie=cookie, headers=BROWSER)
        return await self.desk.post("/api/auth/consent", cookie=cookie, data={**hidden_fields(page), "decision": decision})

    async def answered(self, answer: Answer) -> dict[str, Any]:
        """The verified authorization response."""
        members = told(answer)
        if not self.variant.signing:
            assert members["iss"] == self.desk.url
            return members
        assert members.keys() == {"response"}, members
        claims = await self.verified(members["response"])
        assert (claims["iss"], claims["aud"]) == (self.desk.url, self.client_id)
        assert self.now < claims["exp"] <= self.now + 600
        return claims

    async def authorized(self, cookie: str, *, headers: Mapping[str, str] | None = None, **changes: Any) -> dict[str, Any]:
        """A whole authorization."""
        pushed = await self.push(headers=headers, **changes)
        assert pushed.status == 201, pushed.text
        return await self.answered(await self.decided(await self.begin(pushed.json["request_uri"], cookie), cookie))

    async def code(self, cookie: str, **changes: Any) -> str:
        code: str = (await self.authorized(cookie, **changes))["code"]
        return code

    async def redeem(
        self, code: str, *, headers: Mapping[str, str] | None = None, proven: Mapping[str, str] | None = None, **changes: Any
    ) -> Answer:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER, **changes}
        return await self.post("/token", form, headers=self.proof("POST", "/token") if headers is None else headers, proven=proven)

    async def tokens(self, cookie: str, **changes: Any) -> dict[str, Any]:
        answer = await self.redeem(await self.code(cookie, **changes))
        assert answer.status == 200, answer.text
        tokens: dict[str, Any] = answer.json
        return tokens

    async def refresh(self, token: str) -> Answer:
        return await self.post("/token", {"grant_type": "refresh_token", "refresh_token": token}, headers=self.proof("POST", "/token"))

    async def userinfo(self, token: str, *, scheme: str | None = None, **changes: Any) -> Answer:
        scheme = scheme or ("DPoP" if self.variant.bound == "dpop" else "Bearer")
        headers = {**self.shown, "Authorization": f"{scheme} {token}", **self.proof("GET", "/userinfo", token, **changes)}
        return await self.desk.get("/userinfo", headers=headers)

    async def verified(self, token: str) -> dict[str, Any]:
        """The claims of a JWT of the service; it signs with nothing but ES256 for clients of FAPI."""
        keys = KeySet.import_key_set((await self.desk.get("/jwks")).json)
        claims: dict[str, Any] = jwt.decode(token, keys, algorithms=["ES256"]).claims
        return claims


def registration(variant: Variant, **changes: Any) -> dict[str, Any]:
    """What an administrator sends."""
    whole: dict[str, Any] = {
        "client_name": f"{variant}",
        "redirect_uris": [CALLBACK],
        "profile": variant.profile,
        "token_endpoint_auth_method": variant.method,
        "client_secret": None,
        "scopes": ["openid", "profile", "email", "offline_access"],
        "grant_types": ["authorization_code", "refresh_token", "client_credentials"],
    }
    if variant.method == "private_key_jwt" or variant.signing:
        whole["jwks"] = JWKS
    if "tls" in variant.method:
        whole["tls_client_certificate"] = OWN.pem
    if variant.bound == "mtls":
        whole["tls_client_certificate_bound_access_tokens"] = True
    return {**whole, **changes}


def refused(answer: Answer, error: str = "invalid_request", status: int = 400) -> None:
    assert answer.outcome == (status, error), answer.text


def error_of(answer: Answer) -> str:
    """The error that a redirect tells, or a page."""
    return members_of(answer.location).get("error", "") if "Location" in answer.headers else "shown"
