"""The modules of the public FAPI 2.0 message signing plan that are about signed requests and signed answers, and the same without FAPI.

Each test of the plan is named after its module, without ``fapi2-security-profile-final-``.
"""

import json
import secrets
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import jwt
from joserfc.jwk import KeySet
from system.oidc.relying import CALLBACK, RelyingParty

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode, sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import CHALLENGE, VERIFIER

ES256, OTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
RSA = rsa.generate_private_key(65537, 2048)
KEYS = {"keys": [{**jwk_of(ES256.public_key()), "kid": "one"}, {**jwk_of(RSA.public_key()), "kid": "two"}]}
HOUR = 3600


@pytest.fixture
def features():
    return ("jar",)


class Signer:
    """A relying party that signs its requests, and reads signed answers."""

    def __init__(self, party: RelyingParty, clock: Any) -> None:
        self.party = party
        self.now = clock.now() // 1_000_000
        self.issuer = party.metadata["issuer"]

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of a request object; None takes one out."""
        now = self.now
        asked = {**self.party.request(code_challenge=CHALLENGE, code_challenge_method="S256"), "response_mode": "jwt"}
        whole = {**asked, "iss": self.party.client_id, "aud": self.issuer, "nbf": now, "exp": now + 300, **changes}
        return {name: value for name, value in whole.items() if value is not None}

    def signed(self, claims: Any = None, *, key: Any = ES256, alg: str = "ES256", kid: str = "one", **changes: Any) -> str:
        header = {"alg": alg, "typ": "oauth-authz-req+jwt", "kid": kid}
        payload = json.dumps(claims or self.claims(**changes)).encode()
        return sign_compact(header, payload, lambda message: ALGORITHMS[alg].sign(key, message))

    async def push(self, request: str, **outside: str) -> tuple[int, dict[str, Any]]:
        return await self.party.call("pushed_authorization_request_endpoint", {"request": request, **outside})

    async def refused(self, request: str, **outside: str) -> str:
        """The error of a request object, which /par and /authorize both refuse with it."""
        status, pushed = await self.push(request, **outside)
        assert status == 400, pushed
        sent = {"client_id": self.party.client_id, "redirect_uri": CALLBACK, "state": "s", "request": request, **outside}
        answer = (await self.party.begin(sent)).answer
        assert (answer["error"], answer["state"]) == (pushed["error"], "s")
        return str(pushed["error"])

    async def pushed(self, **changes: Any) -> dict[str, Any]:
        """A whole authorization by /par; the verified answer."""
        status, pushed = await self.push(self.signed(**changes))
        assert status == 201, pushed
        page = await self.party.begin({"client_id": self.party.client_id, "request_uri": pushed["request_uri"]})
        return await self.read((await self.party.browser.finish(page)).answer)

    async def read(self, answer: dict[str, str], *, algorithms: tuple[str, ...] = ("ES256",)) -> dict[str, Any]:
        """JARM s2.4."""
        assert answer.keys() == {"response"}, answer
        async with self.party.browser.session.get(self.party.metadata["jwks_uri"]) as reply:
            keys = KeySet.import_key_set(await reply.json(content_type=None))
        claims: dict[str, Any] = jwt.decode(answer["response"], keys, algorithms=list(algorithms)).claims
        assert (claims["iss"], claims["aud"]) == (self.issuer, self.party.client_id)
        assert claims["exp"] == self.now + 600
        return claims


@pytest.fixture
async def rp(party, clock):
    """It must sign every request as FAPI 2.0 says."""
    switches = {"require_signed_request_object": True, "strict_request_object": True, "request_object_signing_alg": "ES256"}
    return Signer(await party(jwks=KEYS, **switches), clock)


async def test_happy_flow(rp):
    state = secrets.token_urlsafe()

    answer = await rp.pushed(state=state)

    assert answer["state"] == state
    status, tokens = await rp.party.redeem(answer["code"], code_verifier=VERIFIER)
    assert status == 200, tokens
    assert (await rp.party.verify(tokens["id_token"]))["sub"] == "alice@LOCALHOST"


async def test_discovery_end_point_verification(rp):
    metadata = rp.party.metadata

    assert {"jwt", "query.jwt", "fragment.jwt", "form_post.jwt"} < set(metadata["response_modes_supported"])
    assert metadata["request_parameter_supported"] is True
    assert metadata["require_signed_request_object"] is False
    assert {"ES256", "PS256", "EdDSA"} <= set(metadata["request_object_signing_alg_values_supported"])
    assert "none" not in metadata["request_object_signing_alg_values_supported"]
    assert {"ES256", "RS256"} == set(metadata["authorization_signing_alg_values_supported"])


async def test_user_rejects_authentication(rp):
    status, pushed = await rp.push(rp.signed(state="no"))
    page = await rp.party.begin({"client_id": rp.party.client_id, "request_uri": pushed["request_uri"]})

    answer = await rp.read((await rp.party.browser.finish(page, decision="deny")).answer)

    assert (status, answer["error"], answer["state"]) == (201, "access_denied", "no")
    assert "code" not in answer


async def test_ensure_request_object_with_multiple_aud_succeeds(rp):
    assert "code" in await rp.pushed(aud=[rp.issuer, "https://other.example"])


async def test_ensure_authorization_request_without_state_success(rp):
    assert "state" not in await rp.pushed(state=None)


async def test_ensure_request_object_with_nbf_8_seconds_in_the_future_is_accepted(rp):
    assert "code" in await rp.pushed(nbf=rp.now + 8)


async def test_ensure_different_nonce_inside_and_outside_request_object(rp):
    status, pushed = await rp.push(rp.signed(nonce="inside"), nonce="outside")
    page = await rp.party.begin({"client_id": rp.party.client_id, "request_uri": pushed["request_uri"], "nonce": "outside"})
    answer = await rp.read((await rp.party.browser.finish(page)).answer)

    _, tokens = await rp.party.redeem(answer["code"], code_verifier=VERIFIER)

    assert (status, (await rp.party.verify(tokens["id_token"]))["nonce"]) == (201, "inside")


async def test_ensure_different_state_inside_and_outside_request_object(rp):
    sent = {"client_id": rp.party.client_id, "request": rp.signed(state="inside"), "state": "outside"}

    assert (await rp.read((await rp.party.browser.finish(await rp.party.begin(sent))).answer))["state"] == "inside"


async def test_state_only_outside_request_object_not_used(rp):
    sent = {"client_id": rp.party.client_id, "request": rp.signed(state=None), "state": "outside"}

    assert "state" not in await rp.read((await rp.party.browser.finish(await rp.party.begin(sent))).answer)


async def test_ensure_request_object_without_redirect_uri_fails(rp):
    status, pushed = await rp.push(rp.signed(redirect_uri=None), redirect_uri=CALLBACK)

    assert (status, pushed["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "module",
    [
        "ensure_request_object_without_exp_fails",
        "ensure_request_object_without_nbf_fails",
        "ensure_expired_request_object_fails",
        "ensure_request_object_with_bad_aud_fails",
        "ensure_request_object_with_exp_over_60_fails",
        "ensure_request_object_with_nbf_over_60_fails",
        "ensure_signed_request_object_with_RS256_fails",
        "ensure_request_object_signature_algorithm_is_not_none",
        "ensure_request_object_with_invalid_signature_fails",
        "ensure_matching_key_in_authorization_request",
        "par_authorization_request_containing_request_uri",
    ],
)
async def test_a_request_object_that_is_refused(rp, module):
    now, good = rp.now, rp.signed()
    unsigned = ".".join([b64url_encode(b'{"alg":"none","typ":"oauth-authz-req+jwt"}'), good.split(".")[1], ""])
    text = {
        "ensure_request_object_without_exp_fails": rp.signed(exp=None),
        "ensure_request_object_without_nbf_fails": rp.signed(nbf=None),
        "ensure_expired_request_object_fails": rp.signed(nbf=now - 600, exp=now - 300),
        "ensure_request_object_with_bad_aud_fails": rp.signed(aud="https://other.example"),
        "ensure_request_object_with_exp_over_60_fails": rp.signed(exp=now + HOUR + 600),
        "ensure_request_object_with_nbf_over_60_fails": rp.signed(nbf=now - HOUR - 600),
        "ensure_signed_request_object_with_RS256_fails": rp.signed(key=RSA, alg="RS256", kid="two"),
        "ensure_request_object_signature_algorithm_is_not_none": unsigned,
        "ensure_request_object_with_invalid_signature_fails": good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BAAA"),
        "ensure_matching_key_in_authorization_request": rp.signed(key=OTHER),
        "par_authorization_request_containing_request_uri": rp.signed(request_uri="urn:ietf:params:oauth:request_uri:x"),
    }[module]

    assert await rp.refused(text) == "invalid_request_object"


async def test_ensure_unsigned_request_at_par_endpoint_fails(rp):
    """And at /authorize: ensure_unsigned_authorization_request_without_using_par_fails."""
    asked = rp.party.request(code_challenge=CHALLENGE, code_challenge_method="S256")

    status, pushed = await rp.party.call("pushed_authorization_request_endpoint", asked)
    answer = (await rp.party.begin(asked)).answer

    assert (status, pushed["error"], answer["error"]) == (400, "invalid_request", "invalid_request")


# ---- Of other clients


async def test_oidcc_ensure_request_object_with_redirect_uri(party, clock):
    rp = Signer(await party(jwks=KEYS), clock)
    sent = {"client_id": rp.party.client_id, "response_type": "code", "scope": "openid", "redirect_uri": f"{CALLBACK}/other"}

    page = await rp.party.begin({**sent, "request": rp.signed(response_mode=None, nbf=None, exp=None, state="s1")})

    assert (await rp.party.browser.finish(page)).answer["state"] == "s1"


@pytest.mark.parametrize(("mode", "mark"), [("jwt", "?"), ("query.jwt", "?"), ("fragment.jwt", "#"), ("form_post.jwt", "")])
async def test_a_signed_answer_in_every_mode(party, clock, mode, mark):
    rp = Signer(await party(authorization_signed_response_alg="RS256"), clock)

    page = await rp.party.browser.finish(await rp.party.begin(rp.party.request(response_mode=mode, state="s/+ü")))

    assert page.url.startswith(CALLBACK + mark) if mark else "response" in page.answer
    answer = await rp.read(page.answer, algorithms=("RS256",))
    assert (answer["state"], "code" in answer, "error" in answer) == ("s/+ü", True, False)
    refused = await rp.party.begin(rp.party.request(response_mode=mode, prompt="none", max_age="x"))
    assert (await rp.read(refused.answer, algorithms=("RS256",)))["error"] == "invalid_request"


async def test_a_signed_answer_is_no_token_here(party, clock):
    """Its type is that of ID tokens, and it has no subject."""
    rp = Signer(await party(), clock)
    page = await rp.party.browser.finish(await rp.party.begin(rp.party.request(response_mode="jwt")))

    hinted = await rp.party.begin(rp.party.request(id_token_hint=page.answer["response"]))

    assert hinted.answer["error"] == "invalid_request"
    headers = {"Authorization": f"Bearer {page.answer['response']}"}
    async with rp.party.browser.session.get(rp.party.metadata["userinfo_endpoint"], headers=headers) as reply:
        assert reply.status == 401
