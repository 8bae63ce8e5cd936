"""One client that takes every step which its features offer, for tests that switch them on together."""

import json
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qsl, urlencode

import trustme
from cryptography.hazmat.primitives.asymmetric import ec
from security.idp_desk import BROWSER, SECRET, Desk, credentials_of
from security.test_idp_dpop import Key, claims_of
from security.test_idp_mtls import Certificate

from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import CALLBACK, VERIFIER, Answer, hidden_fields, told
from greatseal.testing.trust import signed

API = "https://stock.example/"
DETAIL = {"type": "payment", "amount": "12"}
TOKEN = "let-the-programs-in-0123456789"
SIGNER = ec.generate_private_key(ec.SECP256R1())
AUTHORITY = trustme.CA()
CERTIFICATE = Certificate(AUTHORITY)
KEYS = {"keys": [jwk_of(SIGNER.public_key())]}
ISSUER: dict[str, Any] = {"issuer": "https://ci.example", "jwks": KEYS, "subject": "username"}
RULES = "/api/admin/hbac"
TARGET = "HTTP/files.example.org@EXAMPLE.ORG"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
CIBA = "urn:openid:params:grant-type:ciba"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
GRANTS = {"device-flow": DEVICE, "ciba": CIBA, "token-exchange": EXCHANGE, "jwt-bearer": BEARER}
ADMINISTERED = {"ciba", "token-exchange", "jwt-bearer"}
"""Features whose clients an administrator registers."""
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Flow:
    """One client and the person ann; every feature that is on takes part in every step where it can."""

    def __init__(self, desk: Desk, on: frozenset[str]) -> None:
        self.desk = desk
        self.on = on
        self.key = Key(desk)
        self.client: dict[str, Any] = {}
        self.open = "registration" in on and on.isdisjoint(ADMINISTERED)
        """Whether the client registers itself."""
        self.certified = "client-auth-mtls" in on and not self.open
        """Whether it proves itself by its certificate."""

    def registration(self, *grants: str) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "client_name": "Everything",
            "redirect_uris": [CALLBACK],
            "scopes": ["openid", "profile", "offline_access"],
            "grant_types": ["authorization_code", "refresh_token", *grants],
            **self.proof(),
        }
        if "client-auth-mtls" in self.on:
            fields["tls_client_certificate_bound_access_tokens"] = "dpop" not in self.on
        brought = {
            "ciba": {"backchannel_token_delivery_mode": "poll"},
            "dpop": {"dpop_bound_access_tokens": True},
            "fapi": {"profile": "fapi2_message_signing" if "jar" in self.on else "fapi2"},
            "jar": {"jwks": KEYS, "require_signed_request_object": True},
            "rar": {"authorization_details_types": ["payment"]},
            "resource-indicators": {"resources": [API]},
        }
        for feature in brought.keys() & self.on:
            fields |= brought[feature]
        return fields

    def proof(self) -> dict[str, Any]:
        """How the client proves itself."""
        if self.certified:
            return {"token_endpoint_auth_method": "tls_client_auth", "tls_client_certificate": CERTIFICATE.pem}
        if "fapi" in self.on:
            return {"token_endpoint_auth_method": "private_key_jwt", "jwks": KEYS}
        return {"token_endpoint_auth_method": "client_secret_basic", "client_secret": SECRET}

    async def register(self) -> None:
        """By itself where it can."""
        fields = self.registration(*(grant for feature, grant in GRANTS.items() if feature in self.on))
        if self.open:
            fields["scope"] = " ".join(fields.pop("scopes"))
            answer = await self.desk.post("/register", json=fields, headers={"Authorization": f"Bearer {TOKEN}"})
        else:
            answer = await self.desk.ask("POST", "/api/admin/clients", cookie=self.desk.admin, json=fields)
        assert answer.status == 201, answer.text
        self.client = answer.json
        if "hbac" in self.on:
            await self.allow("ann")

    async def allow(self, *users: str) -> None:
        """The one access rule, for those people."""
        rule = {
            "users": users,
            "clients": [self.client["client_id"]],
            "scopes": ["openid", "profile", "offline_access"],
            "delegation_targets": [TARGET],
        }
        for one in (await self.desk.ask("GET", RULES, cookie=self.desk.admin)).json:
            assert (await self.desk.ask("DELETE", f"{RULES}/{one['rule_id']}", cookie=self.desk.admin)).status == 204
        assert (await self.desk.ask("POST", RULES, cookie=self.desk.admin, json=rule)).status == 201

    def asked(self, **more: str) -> dict[str, str]:
        """Of a request for authorization, by its features."""
        whole = {"client_id": self.client["client_id"], "scope": "openid profile offline_access", **more}
        if "rar" in self.on:
            whole["authorization_details"] = json.dumps([DETAIL])
        if "resource-indicators" in self.on:
            whole["resource"] = API
        if "jar" not in self.on:
            return whole
        now = self.desk.clock.now() // 1_000_000
        claims: dict[str, Any] = {**whole, "iss": whole["client_id"], "aud": self.desk.url, "iat": now, "nbf": now, "exp": now + 300}
        claims["jti"] = token_urlsafe()
        if "authorization_details" in claims:
            claims["authorization_details"] = [DETAIL]
        return {"client_id": whole["client_id"], "request": signed(SIGNER, claims, typ="oauth-authz-req+jwt")}

    def jwt(self, issuer: str, subject: str) -> str:
        """Of somebody who says who somebody is: the client itself, or an issuer."""
        now = self.desk.clock.now() // 1_000_000
        claims = {"iss": issuer, "sub": subject, "aud": self.desk.url, "iat": now, "exp": now + 60, "jti": token_urlsafe()}
        return signed(SIGNER, claims)

    async def send(self, path: str, **form: str) -> Answer:
        """With every proof that the features bring."""
        headers = dict(CERTIFICATE.shown) if "client-auth-mtls" in self.on else {}
        if self.client["token_endpoint_auth_method"] == "client_secret_basic":
            headers |= credentials_of(self.client)
        elif self.client["token_endpoint_auth_method"] == "private_key_jwt":
            me = self.client["client_id"]
            form |= {"client_assertion_type": ASSERTION, "client_assertion": self.jwt(me, me)}
        if "dpop" in self.on:
            headers |= self.key.proof("POST", path)
        return await self.desk.ask("POST", path, data={"client_id": self.client["client_id"], **form}, headers=headers)

    async def code(self, ann: str) -> Answer:
        """By /par and the consent page."""
        challenge = dict(parse_qsl(self.desk.query()))
        mode = {"response_mode": "query.jwt"} if "jar" in self.on else {}
        kept = {name: challenge[name] for name in ("redirect_uri", "response_type", "state", "code_challenge", "code_challenge_method")}
        pushed = await self.send("/par", **self.asked(**kept, **mode))
        assert pushed.status == 201, pushed.text
        query = urlencode({"client_id": self.client["client_id"], "request_uri": pushed.json["request_uri"]})
        shown = await self.desk.ask("GET", f"/authorize?{query}", cookie=ann)
        page = await self.desk.ask("GET", shown.location, cookie=ann, headers=BROWSER)
        if "rar" in self.on:
            assert "Pay 12 EUR" in page.text
        answer = told(await self.desk.approve(ann, hidden_fields(page)))
        if "jar" in self.on:
            answer = claims_of(answer["response"])
        assert answer["iss"] == self.desk.url
        return await self.send(
            "/token", grant_type="authorization_code", code=answer["code"], redirect_uri=CALLBACK, code_verifier=VERIFIER
        )

    async def device(self, ann: str) -> Answer:
        begun = await self.send("/device_authorization", **self.asked())
        assert begun.status == 200, begun.text
        decided = await self.desk.ask(
            "POST", "/api/auth/device", cookie=ann, json={"user_code": begun.json["user_code"], "decision": "approve"}
        )
        assert decided.status == 200, decided.text
        return await self.send("/token", grant_type=DEVICE, device_code=begun.json["device_code"])

    async def ciba(self, ann: str) -> Answer:
        begun = await self.send("/bc-authorize", **self.asked(login_hint="ann"))
        assert begun.status == 200, begun.text
        (waiting,) = (await self.desk.ask("GET", "/api/auth/ciba", cookie=ann)).json
        decided = await self.desk.ask("POST", f"/api/auth/ciba/{waiting['id']}", cookie=ann, json={"decision": "approve"})
        assert decided.status == 200, decided.text
        return await self.send("/token", grant_type=CIBA, auth_req_id=begun.json["auth_req_id"])

    async def exchange(self, tokens: Any) -> Answer:
        more = {"target_service": TARGET} if "hbac" in self.on else {}
        return await self.send("/token", grant_type=EXCHANGE, subject_token=tokens["access_token"], subject_token_type=ACCESS_TOKEN, **more)

    async def bearer(self) -> Answer:
        more = {"resource": API} if "resource-indicators" in self.on else {}
        return await self.send("/token", grant_type=BEARER, assertion=self.jwt(ISSUER["issuer"], "ann"), **more)

    def check(self, answer: Answer, *, details: bool = True) -> Any:
        """What the features promise of a token; ``details`` where the person was asked."""
        assert answer.status == 200, answer.text
        claims = claims_of(answer.json["access_token"])
        assert claims["sub"] == "ann@LOCALHOST"
        assert claims["client_id"] == self.client["client_id"]
        bound = (
            {"jkt": self.key.jkt} if "dpop" in self.on else {"x5t#S256": CERTIFICATE.thumbprint} if "client-auth-mtls" in self.on else None
        )
        assert claims.get("cnf") == bound
        assert answer.json["token_type"] == ("DPoP" if "dpop" in self.on else "Bearer")
        assert claims["aud"] == (API if "resource-indicators" in self.on else self.desk.url)
        assert claims.get("authorization_details") == ([DETAIL] if details and "rar" in self.on else None)
        return answer.json

    async def run(self) -> None:
        """Every grant that is on, then a refresh; where rules decide, each of them again without one."""
        await self.register()
        ann = await self.desk.cookie("ann")
        tokens = self.check(await self.code(ann))
        if "device-flow" in self.on:
            tokens = self.check(await self.device(ann))
        if "ciba" in self.on:
            tokens = self.check(await self.ciba(ann))
        refreshed = self.check(await self.refresh(tokens))
        kept = refreshed["refresh_token"] == tokens["refresh_token"]
        assert kept is ("fapi" in self.on), "FAPI 2.0 s5.3.2.1: refresh tokens are not rotated"
        tokens |= refreshed
        if "token-exchange" in self.on:
            answer = await self.exchange(tokens)
            assert answer.status == 200, answer.text
        if "jwt-bearer" in self.on:
            assert "refresh_token" not in self.check(await self.bearer(), details=False)
        if "hbac" in self.on:
            await self.allow("ben")
            for refused in await self.again(tokens):
                assert refused.json["error"] == "access_denied", refused.text

    async def again(self, tokens: Any) -> list[Answer]:
        """What needs no browser."""
        answers = [await self.refresh(tokens)]
        if "token-exchange" in self.on:
            answers.append(await self.exchange(tokens))
        if "jwt-bearer" in self.on:
            answers.append(await self.bearer())
        return answers

    async def refresh(self, tokens: Any) -> Answer:
        return await self.send("/token", grant_type="refresh_token", refresh_token=tokens["refresh_token"])
