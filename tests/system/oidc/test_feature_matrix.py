"""Each pair of features that are off by default, on together: one whole flow, in which both take part, and a discovery document of both."""

import json
from itertools import combinations
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec
from security.idp_desk import BROWSER, SECRET, Desk, credentials_of, open_desk
from security.test_idp_dpop import Key, claims_of
from security.test_idp_mtls import Certificate

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import CALLBACK, VERIFIER, Answer, hidden_fields, told

API = "https://stock.example/"
DETAIL = {"type": "payment", "amount": "12"}
TOKEN = "let-the-programs-in-0123456789"
SIGNER = ec.generate_private_key(ec.SECP256R1())
AUTHORITY = trustme.CA()
CERTIFICATE = Certificate(AUTHORITY)
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
CIBA = "urn:openid:params:grant-type:ciba"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"

SHOWN: dict[str, frozenset[str]] = {
    "ciba": frozenset(
        {
            "backchannel_authentication_endpoint",
            "backchannel_token_delivery_modes_supported",
            "backchannel_user_code_parameter_supported",
            f"grant_types_supported={CIBA}",
        }
    ),
    "client-auth-mtls": frozenset(
        {
            "tls_client_certificate_bound_access_tokens",
            *(
                f"{endpoint}_endpoint_auth_methods_supported={method}"
                for endpoint in ("token", "revocation", "introspection")
                for method in ("tls_client_auth", "self_signed_tls_client_auth")
            ),
        }
    ),
    "device-flow": frozenset({"device_authorization_endpoint", f"grant_types_supported={DEVICE}"}),
    "dpop": frozenset({"dpop_signing_alg_values_supported"}),
    "jar": frozenset(
        {
            "request_parameter_supported=True",
            "request_object_signing_alg_values_supported",
            "require_signed_request_object",
            "authorization_signing_alg_values_supported",
            *(f"response_modes_supported={mode}" for mode in ("jwt", "query.jwt", "fragment.jwt", "form_post.jwt")),
            *(
                f"{what}_encryption_{member}_values_supported"
                for what in ("authorization", "introspection", "id_token", "userinfo", "request_object")
                for member in ("alg", "enc")
            ),
        }
    ),
    "rar": frozenset({"authorization_details_types_supported"}),
    "registration": frozenset({"registration_endpoint"}),
    "resource-indicators": frozenset(),
    "token-exchange": frozenset({f"grant_types_supported={EXCHANGE}"}),
}
"""What each feature adds to discovery: a member, or a value of a member that is there without it."""
SETTINGS: dict[str, Any] = {
    "client-auth-mtls": {"server": {"trusted_proxies": ["127.0.0.1/32"]}},
    "rar": {
        "oauth": {
            "authorization_details": [
                {"type": "payment", "sentence": "Pay {amount} EUR", "members": {"amount": {"type": "decimal", "required": True}}}
            ]
        }
    },
    "registration": {"server": {"registration_token": TOKEN}},
}


class Flow:
    """One client and the person ann; every feature that is on takes part in every step where it can."""

    def __init__(self, desk: Desk, on: frozenset[str]) -> None:
        self.desk = desk
        self.on = on
        self.key = Key(desk)
        self.client: dict[str, Any] = {}
        self.open = "registration" in on and "token-exchange" not in on
        """Whether the client registers itself: one for exchanges is an administrator's."""

    def registration(self, *grants: str) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "client_name": "Everything",
            "redirect_uris": [CALLBACK],
            "scopes": ["openid", "profile", "offline_access"],
            "grant_types": ["authorization_code", "refresh_token", *grants],
            "token_endpoint_auth_method": "client_secret_basic",
            "client_secret": SECRET,
        }
        if "client-auth-mtls" in self.on:
            fields["tls_client_certificate_bound_access_tokens"] = "dpop" not in self.on
            if not self.open:
                fields |= {"token_endpoint_auth_method": "tls_client_auth", "tls_client_certificate": CERTIFICATE.pem}
                del fields["client_secret"]
        if "dpop" in self.on:
            fields["dpop_bound_access_tokens"] = True
        if "jar" in self.on:
            fields |= {"jwks": {"keys": [jwk_of(SIGNER.public_key())]}, "require_signed_request_object": True}
        if "rar" in self.on:
            fields["authorization_details_types"] = ["payment"]
        if "resource-indicators" in self.on:
            fields["resources"] = [API]
        if "ciba" in self.on:
            fields["backchannel_token_delivery_mode"] = "poll"
        return fields

    async def register(self) -> None:
        """By itself where it can."""
        grants = {"device-flow": DEVICE, "ciba": CIBA, "token-exchange": EXCHANGE}
        fields = self.registration(*(grant for feature, grant in grants.items() if feature in self.on))
        if self.open:
            fields["scope"] = " ".join(fields.pop("scopes"))
            answer = await self.desk.post("/register", json=fields, headers={"Authorization": f"Bearer {TOKEN}"})
        else:
            answer = await self.desk.ask("POST", "/api/admin/clients", cookie=self.desk.admin, json=fields)
        assert answer.status == 201, answer.text
        self.client = answer.json

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
        header = {"alg": "ES256", "typ": "oauth-authz-req+jwt"}
        request = sign_compact(header, json.dumps(claims).encode(), lambda message: ALGORITHMS["ES256"].sign(SIGNER, message))
        return {"client_id": whole["client_id"], "request": request}

    async def send(self, path: str, **form: str) -> Answer:
        """With every proof that the features bring."""
        headers = dict(CERTIFICATE.shown) if "client-auth-mtls" in self.on else {}
        if "client_secret" in self.client:
            headers |= credentials_of(self.client, self.client["client_secret"])
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
        return await self.send("/token", grant_type=EXCHANGE, subject_token=tokens["access_token"], subject_token_type=ACCESS_TOKEN)

    def check(self, answer: Answer) -> Any:
        """What the features promise of a token."""
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
        assert claims.get("authorization_details") == ([DETAIL] if "rar" in self.on else None)
        return answer.json

    async def run(self) -> None:
        """Every grant that is on, then a refresh."""
        await self.register()
        ann = await self.desk.cookie("ann")
        tokens = self.check(await self.code(ann))
        if "device-flow" in self.on:
            tokens = self.check(await self.device(ann))
        if "ciba" in self.on:
            tokens = self.check(await self.ciba(ann))
        tokens = self.check(await self.send("/token", grant_type="refresh_token", refresh_token=tokens["refresh_token"]))
        if "token-exchange" in self.on:
            answer = await self.exchange(tokens)
            assert answer.status == 200, answer.text


def whole(*on: str) -> dict[str, Any]:
    """The settings of those features."""
    sections: dict[str, Any] = {}
    for feature in on:
        for name, section in SETTINGS.get(feature, {}).items():
            sections[name] = {**sections.get(name, {}), **section}
    return sections


async def discovered(desk: Desk) -> dict[str, Any]:
    """Both documents: each member with its value."""
    whole: dict[str, Any] = {}
    for name in ("openid-configuration", "oauth-authorization-server"):
        whole |= (await desk.get(f"/.well-known/{name}")).json
    return whole


def added(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """The members that are new, and the values that are new in the others."""
    assert before.keys() <= after.keys()
    found = after.keys() - before.keys()
    for name, value in before.items():
        if isinstance(value, list):
            assert set(value) <= set(after[name])
            found |= {f"{name}={one}" for one in set(after[name]) - set(value)}
        elif isinstance(value, bool) and after[name] is not value:
            found.add(f"{name}={after[name]}")
    return found


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    AUTHORITY.cert_pem.write_to_path(tmp_path / "cas.pem")

    def open(*on: str) -> Any:
        sections = whole(*on)
        if "client-auth-mtls" in on:
            sections["oauth"] = {**sections.get("oauth", {}), "client_ca_file": str(tmp_path / "cas.pem")}
        if {"registration", "resource-indicators"} <= set(on):
            sections["registration"] = {"resources": [API]}
        return open_desk(tmp_path, "resolver", "client-auth-jwt", *on, **sections)

    return open


@pytest.mark.parametrize("pair", list(combinations(sorted(SHOWN), 2)), ids="+".join)
async def test_two_features_take_part_in_one_flow(opened: Any, pair: tuple[str, str]) -> None:
    async with opened(*pair) as desk:
        await Flow(desk, frozenset(pair)).run()


async def test_all_features_take_part_in_one_flow(opened: Any) -> None:
    async with opened(*SHOWN) as desk:
        await Flow(desk, frozenset(SHOWN)).run()


async def test_discovery_lists_what_is_on_and_nothing_else(opened: Any) -> None:
    async with opened() as desk:
        plain = await discovered(desk)
    for on in [*((feature,) for feature in SHOWN), tuple(SHOWN)]:
        async with opened(*on) as desk:
            found = added(plain, await discovered(desk))
        both = {"backchannel_authentication_request_signing_alg_values_supported"} if {"ciba", "jar"} <= set(on) else set()
        assert found == frozenset(both).union(*(SHOWN[feature] for feature in on)), on


async def test_without_them_their_requests_are_answered_as_if_they_did_not_exist(opened: Any) -> None:
    async with opened() as desk:
        client = await desk.registered()
        ann = await desk.cookie("ann")
        for grant in (DEVICE, CIBA, EXCHANGE):
            assert (await desk.form("/token", {"grant_type": grant}, by=client)).outcome == (400, "unsupported_grant_type")
            assert (await desk.register(grant_types=[grant])).outcome == (400, "invalid_client_metadata")
        for path in ("/device_authorization", "/bc-authorize", "/register"):
            assert (await desk.form(path, {"scope": "openid"}, by=client)).status == 404
        for path in ("/device", "/ciba", "/api/auth/device", "/api/auth/ciba"):
            assert (await desk.get(path)).status == 404
        assert told(await desk.authorize(ann, client_id=client["client_id"], request="e30.e30."))["error"] == "request_not_supported"
        assert told(await desk.authorize(ann, client_id=client["client_id"], response_mode="jwt"))["error"] == "invalid_request"
        for field, value in {
            "dpop_bound_access_tokens": True,
            "require_signed_request_object": True,
            "authorization_signed_response_alg": "ES256",
            "tls_client_certificate_bound_access_tokens": True,
            "token_endpoint_auth_method": "tls_client_auth",
        }.items():
            assert (await desk.register(**{field: value})).outcome == (400, "invalid_client_metadata"), field
