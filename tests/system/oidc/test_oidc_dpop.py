"""The modules about DPoP of the public FAPI 2.0 plans, one test each, named after it; they need no profile of FAPI."""

import aiohttp
import pytest
from security.test_idp_dpop import Key
from system.oidc.relying import CALLBACK

from greatseal.testing.desk import CHALLENGE, VERIFIER


class Holder:
    """A relying party that holds a key."""

    def __init__(self, rp, provider, clock):
        class Here:
            url = provider.url

        Here.clock = clock
        self.rp, self.here, self.key = rp, Here, Key(Here)

    async def post(self, path, form, *proof):
        headers = {"Authorization": aiohttp.encode_basic_auth(self.rp.client_id, self.rp.secret), **(proof[0] if proof else {})}
        async with self.rp.browser.session.post(f"{self.here.url}{path}", data=form, headers=headers) as reply:
            return reply.status, await reply.json()

    async def code(self, **asked):
        _, answer = await self.rp.authorize(code_challenge=CHALLENGE, code_challenge_method="S256", **asked)
        return answer["code"]

    async def redeem(self, code, *proof):
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
        return await self.post("/token", form, *proof)

    async def token(self, **claims):
        status, tokens = await self.redeem(await self.code(), self.key.proof("POST", "/token", **claims))
        assert status == 200, tokens
        assert tokens["token_type"] == "DPoP"
        return tokens["access_token"]

    async def userinfo(self, token, proof, scheme="DPoP"):
        headers = {"Authorization": f"{scheme} {token}", **proof}
        async with self.rp.browser.session.get(f"{self.here.url}/userinfo", headers=headers) as reply:
            return reply.status


@pytest.fixture
def features():
    return ("dpop",)


@pytest.fixture
async def holder(party, provider, clock):
    return Holder(await party(dpop_bound_access_tokens=True), provider, clock)


async def test_fapi2_dpop_negative_tests(holder):
    key, other, now = holder.key, Key(holder.here), holder.here.clock.now() // 1_000_000
    code = await holder.code()
    wrong = {
        "no proof": (),
        "htm": (key.proof("GET", "/token"),),
        "htu": (key.proof("POST", "/userinfo"),),
        "iat of the past": (key.proof("POST", "/token", iat=now - 3600),),
        "iat of the future": (key.proof("POST", "/token", iat=now + 3600),),
        "no iat": (key.proof("POST", "/token", iat=None),),
        "no jti": (key.proof("POST", "/token", jti=None),),
        "no JWT": ({"DPoP": "x"},),
    }
    for what, proofs in wrong.items():
        status, refused = await holder.redeem(code, *proofs)
        assert (status, refused["error"]) == (400, "invalid_dpop_proof"), what

    token = (await holder.redeem(code, key.proof("POST", "/token")))[1]["access_token"]
    used = key.proof("GET", "/userinfo", token)
    assert await holder.userinfo(token, used) == 200
    for proof in (
        used,
        {},
        other.proof("GET", "/userinfo", token),
        key.proof("GET", "/userinfo"),
        key.proof("GET", "/userinfo", "another"),
        key.proof("POST", "/userinfo", token),
        key.proof("GET", "/token", token),
    ):
        assert await holder.userinfo(token, proof) == 401
    assert await holder.userinfo(token, key.proof("GET", "/userinfo", token), "Bearer") == 401


@pytest.mark.parametrize("apart", [-10, 10], ids=["before", "after"])
async def test_fapi2_ensure_dpop_proof_with_iat_10_seconds_before_or_after_succeeds(holder, apart):
    now = holder.here.clock.now() // 1_000_000
    token = await holder.token(iat=now + apart)

    assert await holder.userinfo(token, holder.key.proof("GET", "/userinfo", token, iat=now + apart)) == 200


async def test_fapi2_ensure_mismatched_dpop_jkt_fails(holder):
    other = Key(holder.here)
    status, refused = await holder.redeem(await holder.code(dpop_jkt=other.jkt), holder.key.proof("POST", "/token"))
    assert (status, refused["error"]) == (400, "invalid_grant")

    asked = holder.rp.request(code_challenge=CHALLENGE, code_challenge_method="S256", dpop_jkt=other.jkt)
    status, refused = await holder.post("/par", asked, holder.key.proof("POST", "/par"))
    assert (status, refused["error"]) == (400, "invalid_dpop_proof")


async def test_fapi2_check_dpop_proof_nbf_exp(holder):
    now, code = holder.here.clock.now() // 1_000_000, await holder.code()
    for wrong in ({"exp": now - 1}, {"nbf": now + 3600}, {"exp": "x"}, {"nbf": []}):
        status, refused = await holder.redeem(code, holder.key.proof("POST", "/token", **wrong))
        assert (status, refused["error"]) == (400, "invalid_dpop_proof")

    assert (await holder.redeem(code, holder.key.proof("POST", "/token", nbf=now - 10, exp=now + 60)))[0] == 200


async def test_fapi2_access_token_type_header_case_sensitivity(holder):
    token = await holder.token()

    for scheme in ("DPoP", "dpop", "DPOP", "dPoP"):
        assert await holder.userinfo(token, holder.key.proof("GET", "/userinfo", token), scheme) == 200
