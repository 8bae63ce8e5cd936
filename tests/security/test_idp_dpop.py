"""Tokens that are bound to a key (RFC 9449), and whoever holds the token without the key."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec
from security.idp_desk import PARALLEL, Desk, open_desk

from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_decode, b64url_encode, sign_compact
from greatseal.jose.jwk import jwk_of, thumbprint_of
from greatseal.testing.desk import CALLBACK, VERIFIER, Answer, bearer, told

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Key:
    """A client's key, and its proofs for the service at ``url``."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.jkt = thumbprint_of(self.private.public_key())

    def proof(self, method: str, path: str, token: str | None = None, **changes: Any) -> dict[str, str]:
        """The header of a proof that is new each time."""
        claims = {
            "jti": secrets.token_urlsafe(),
            "htm": method,
            "htu": self.desk.url + path,
            "iat": self.desk.clock.now() // 1_000_000,
            **({} if token is None else {"ath": b64url_encode(sha256(token.encode()).digest())}),
            **changes,
        }
        header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk_of(self.private.public_key())}
        return {"DPoP": sign_compact(header, json.dumps(claims).encode(), lambda message: ALGORITHMS["ES256"].sign(self.private, message))}


def dpop(token: str) -> dict[str, str]:
    return {"Authorization": f"DPoP {token}"}


def claims_of(token: str) -> Any:
    return json.loads(b64url_decode(token.split(".")[1]))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path_factory.mktemp("idp"), "dpop") as desk:
        yield desk


@pytest.fixture
def key(desk: Desk) -> Key:
    return Key(desk)


async def redeem(desk: Desk, code: str, by: Any, *proofs: dict[str, str]) -> Answer:
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    return await desk.form("/token", form, by=by, headers=proofs[0] if proofs else None)


async def refresh(desk: Desk, token: str, by: Any, *proofs: dict[str, str]) -> Answer:
    return await desk.form("/token", {"grant_type": "refresh_token", "refresh_token": token}, by=by, headers=proofs[0] if proofs else None)


async def code_of(desk: Desk, client: Any) -> str:
    return await desk.code(await desk.cookie("ann"), client_id=client["client_id"], scope="openid offline_access")


async def tokens_of(desk: Desk, client: Any, key: Key) -> Any:
    answer = await redeem(desk, await code_of(desk, client), client, key.proof("POST", "/token"))
    assert answer.status == 200, answer.text
    return answer.json


async def userinfo(desk: Desk, token: str, proof: dict[str, str] | None = None, *, method: str = "GET") -> Answer:
    return await desk.ask(method, "/userinfo", headers={**dpop(token), **(proof or {})})


@pytest.mark.parametrize("format", ["jwt", "opaque"])
async def test_a_token_that_was_asked_for_with_a_proof_says_its_key(desk, key, format):
    client = await desk.registered(access_token_format=format)
    tokens = await tokens_of(desk, client, key)

    token = tokens["access_token"]
    assert tokens["token_type"] == "DPoP"
    about = await desk.introspect(token, by=client)
    assert (about["token_type"], about["cnf"]) == ("DPoP", {"jkt": key.jkt})
    if format == "jwt":
        assert claims_of(token)["cnf"] == {"jkt": key.jkt}
    answer = await userinfo(desk, token, key.proof("GET", "/userinfo", token))
    assert (answer.status, answer.json["sub"]) == (200, "ann@LOCALHOST")


async def test_without_a_proof_a_token_is_a_bearer_token_as_ever(desk):
    client = await desk.registered()
    tokens = (await redeem(desk, await code_of(desk, client), client)).json

    assert tokens["token_type"] == "Bearer"
    assert "cnf" not in claims_of(tokens["access_token"])
    assert (await desk.userinfo(tokens["access_token"])).status == 200


async def test_a_resource_refuses_a_bound_token_without_its_key(desk, key):
    client = await desk.registered()
    token = (await tokens_of(desk, client, key))["access_token"]
    unbound = (await redeem(desk, await code_of(desk, client), client)).json["access_token"]
    used = key.proof("GET", "/userinfo", token)
    assert (await userinfo(desk, token, used)).status == 200
    now = desk.clock.now() // 1_000_000

    refused = {
        "as Bearer": (await desk.userinfo(token), "invalid_token"),
        "as Bearer, with a proof": (
            await desk.get("/userinfo", headers={**bearer(token), **key.proof("GET", "/userinfo", token)}),
            "invalid_token",
        ),
        "in a form": (await desk.post("/userinfo", data={"access_token": token}), "invalid_token"),
        "no proof": (await userinfo(desk, token), "invalid_dpop_proof"),
        "a proof that was used": (await userinfo(desk, token, used), "invalid_dpop_proof"),
        "another key": (await userinfo(desk, token, Key(desk).proof("GET", "/userinfo", token)), "invalid_token"),
        "no ath": (await userinfo(desk, token, key.proof("GET", "/userinfo")), "invalid_dpop_proof"),
        "another ath": (await userinfo(desk, token, key.proof("GET", "/userinfo", unbound)), "invalid_dpop_proof"),
        "another method": (await userinfo(desk, token, key.proof("POST", "/userinfo", token)), "invalid_dpop_proof"),
        "another URL": (await userinfo(desk, token, key.proof("GET", "/token", token)), "invalid_dpop_proof"),
        "an old proof": (await userinfo(desk, token, key.proof("GET", "/userinfo", token, iat=now - 90)), "invalid_dpop_proof"),
        "a token that is not bound": (await userinfo(desk, unbound, key.proof("GET", "/userinfo", unbound)), "invalid_token"),
        "no token of ours": (await userinfo(desk, "x", key.proof("GET", "/userinfo", "x")), "invalid_token"),
    }

    for what, (answer, error) in refused.items():
        assert answer.outcome == (401, error), (what, answer.text)
        assert answer.headers["WWW-Authenticate"].startswith(f'DPoP error="{error}"'), (what, answer.headers)


async def test_whoever_brings_nothing_is_told_what_may_be_brought(desk):
    challenge = (await desk.get("/userinfo")).headers["WWW-Authenticate"]

    assert challenge.startswith("Bearer, DPoP algs=")
    assert "ES256" in challenge


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_scheme_may_be_written_in_any_case(desk, key, method):
    token = (await tokens_of(desk, await desk.registered(), key))["access_token"]

    for scheme in ("DPoP", "dpop", "DPOP"):
        headers = {"Authorization": f"{scheme} {token}", **key.proof(method, "/userinfo", token)}
        assert (await desk.ask(method, "/userinfo", headers=headers)).status == 200


async def test_one_proof_is_good_for_one_token_request_of_many_at_once(desk, key):
    client = await desk.registered(grant_types=["client_credentials"], redirect_uris=None, scopes=["groups"])
    proof = key.proof("POST", "/token")
    form = {"grant_type": "client_credentials"}

    answers = await asyncio.gather(*(desk.form("/token", form, by=client, headers=proof) for _ in range(PARALLEL)))

    assert sorted(answer.outcome for answer in answers if answer.status != 200) == [(400, "invalid_dpop_proof")] * (PARALLEL - 1)


async def test_a_client_that_asks_for_bound_tokens_gets_no_other(desk, key):
    client = await desk.registered(dpop_bound_access_tokens=True)
    code = await code_of(desk, client)

    for proofs in ([], [{"DPoP": "x"}], [key.proof("GET", "/token")]):
        assert (await redeem(desk, code, client, *proofs)).outcome == (400, "invalid_dpop_proof")

    tokens = (await redeem(desk, code, client, key.proof("POST", "/token"))).json
    assert tokens["token_type"] == "DPoP", "a refusal burned no code"
    assert (await refresh(desk, tokens["refresh_token"], client)).outcome == (400, "invalid_dpop_proof")
    assert (await refresh(desk, tokens["refresh_token"], client, key.proof("POST", "/token"))).json["token_type"] == "DPoP"


async def test_a_refresh_token_of_a_public_client_needs_the_key_of_its_code(desk, key):
    client = await desk.registered(token_endpoint_auth_method="none")
    token = (await tokens_of(desk, client, key))["refresh_token"]

    for proofs in ([], [Key(desk).proof("POST", "/token")]):
        assert (await refresh(desk, token, client, *proofs)).outcome == (400, "invalid_grant")

    fresh = (await refresh(desk, token, client, key.proof("POST", "/token"))).json
    assert claims_of(fresh["access_token"])["cnf"] == {"jkt": key.jkt}, "a refusal is no replay"


async def test_a_client_with_credentials_may_change_its_key(desk, key):
    client = await desk.registered()
    token = (await tokens_of(desk, client, key))["refresh_token"]
    other = Key(desk)

    fresh = (await refresh(desk, token, client, other.proof("POST", "/token"))).json

    assert claims_of(fresh["access_token"])["cnf"] == {"jkt": other.jkt}


async def test_a_blocked_key_binds_and_proves_nothing(desk, key):
    client = await desk.registered()
    token = (await tokens_of(desk, client, key))["access_token"]
    host = desk.service.host("dpop")
    await host.db.write(lambda tx: host.blocked_keys.block(tx, spki_sha256(key.private.public_key()), reason="leaked", by="admin"))

    assert (await userinfo(desk, token, key.proof("GET", "/userinfo", token))).outcome == (401, "invalid_dpop_proof")
    answer = await redeem(desk, await code_of(desk, client), client, key.proof("POST", "/token"))
    assert answer.outcome == (400, "invalid_dpop_proof")


async def test_the_documents_name_the_algorithms(desk):
    for document in ("openid-configuration", "oauth-authorization-server"):
        found = (await desk.get(f"/.well-known/{document}")).json["dpop_signing_alg_values_supported"]
        assert {"ES256", "EdDSA", "PS256", "RS256"} <= set(found)
        assert not {"none", "HS256"} & set(found)


async def test_a_script_of_another_origin_may_send_proofs(desk):
    for path in ("/token", "/userinfo"):
        asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "dpop"}
        allowed = (await desk.ask("OPTIONS", path, headers=asked)).headers["Access-Control-Allow-Headers"]
        assert allowed == "*, Authorization"


async def test_proofs_name_the_issuer_or_the_base_url(tmp_path):
    async with open_desk(tmp_path, "dpop", server={"issuer": "https://id.example"}) as desk:
        key = Key(desk)
        client = await desk.registered(grant_types=["client_credentials"], redirect_uris=None, scopes=["groups"])
        for url, status in (("https://id.example", 200), (desk.url, 200), ("https://other.example", 400)):
            proof = key.proof("POST", "/token", htu=f"{url}/token")
            assert (await desk.form("/token", {"grant_type": "client_credentials"}, by=client, headers=proof)).status == status


async def test_a_client_that_asks_for_bound_tokens_gets_none_without_the_feature(tmp_path, database_url):
    """The client and its tokens are of a service with the feature; the next start has it no more, and the one after has it again."""
    again = {"database": {"url": database_url}, "cluster": {"key_file": str(tmp_path / "cluster.key")}}
    for number, features in enumerate((["dpop"], [], ["dpop"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with open_desk(folder, *features, **again) as desk:
            if number == 0:
                key = Key(desk)
                asking = await desk.registered(dpop_bound_access_tokens=True)
                public = await desk.registered(token_endpoint_auth_method="none")
                bound, token = await tokens_of(desk, asking, key), await tokens_of(desk, public, key)
            elif number == 1:
                assert (await desk.register(dpop_bound_access_tokens=True)).outcome == (400, "invalid_client_metadata")
                key.desk = desk
                for proofs in ([], [key.proof("POST", "/token")]):
                    assert (await refresh(desk, bound["refresh_token"], asking, *proofs)).status >= 400
                    assert (await refresh(desk, token["refresh_token"], public, *proofs)).status == 503
                assert (await userinfo(desk, token["access_token"])).status == 401
                assert (await desk.userinfo(token["access_token"])).status == 401
            else:
                key.desk = desk
                for client, held in ((asking, bound), (public, token)):
                    fresh = await refresh(desk, held["refresh_token"], client, key.proof("POST", "/token"))
                    assert claims_of(fresh.json["access_token"])["cnf"] == {"jkt": key.jkt}


# ---- Codes that are bound to a key (s10), and the nonce of the server (s8, s9)


async def code_for(desk: Desk, client: Any, **asked: str) -> str:
    return await desk.code(await desk.cookie("ann"), client_id=client["client_id"], scope="openid offline_access", **asked)


@pytest.mark.parametrize("how", ["dpop_jkt", "pushed with dpop_jkt", "pushed with a proof"])
async def test_a_stolen_code_is_worth_nothing_without_its_key(desk, key, how):
    client = await desk.registered()
    if how == "dpop_jkt":
        code = await code_for(desk, client, dpop_jkt=key.jkt)
    else:
        more = {"dpop_jkt": key.jkt} if how == "pushed with dpop_jkt" else {"headers": key.proof("POST", "/par")}
        pushed = await desk.push(by=client, scope="openid offline_access", **more)
        assert pushed.status == 201, pushed.text
        query = f"/authorize?client_id={client['client_id']}&request_uri={pushed.json['request_uri']}"
        code = told(await desk.ask("GET", query, cookie=await desk.cookie("ann")))["code"]

    for proofs in ([], [Key(desk).proof("POST", "/token")]):
        answer = await redeem(desk, code, client, *proofs)
        assert answer.outcome == (400, "invalid_grant")
        assert "RFC 9449 s10" in answer.json["error_description"]
    tokens = (await redeem(desk, code, client, key.proof("POST", "/token"))).json
    assert tokens["token_type"] == "DPoP", "a refusal burned no code"
    other = await refresh(desk, tokens["refresh_token"], client, Key(desk).proof("POST", "/token"))
    assert other.status == 200, "a client with credentials may change its key"


async def test_a_request_names_one_key(desk, key):
    client = await desk.registered()
    mismatched = await desk.push(by=client, dpop_jkt=Key(desk).jkt, headers=key.proof("POST", "/par"))
    assert mismatched.outcome == (400, "invalid_dpop_proof")
    assert (await desk.push(by=client, dpop_jkt="x")).outcome == (400, "invalid_request")
    asked = await desk.authorize(await desk.cookie("ann"), client_id=client["client_id"], dpop_jkt=f"{key.jkt}=")
    assert told(asked)["error"] == "invalid_request"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def strict(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    """A service that asks for nonces."""
    async with open_desk(tmp_path_factory.mktemp("strict"), "dpop", oauth={"dpop_nonce": True}) as desk:
        yield desk


async def test_the_nonce_of_a_refusal_is_good_for_the_next_proofs(strict):
    key, client = Key(strict), await strict.registered(token_endpoint_auth_method="none")
    code = await code_of(strict, client)

    asked = await redeem(strict, code, client, key.proof("POST", "/token"))
    assert asked.outcome == (400, "use_dpop_nonce")
    assert asked.headers["Cache-Control"] == "no-store"
    nonce = asked.headers["DPoP-Nonce"]
    answer = await redeem(strict, code, client, key.proof("POST", "/token", nonce=nonce))
    assert (answer.status, answer.headers["DPoP-Nonce"]) == (200, nonce), "the refusal burned no code"
    tokens = answer.json

    at_resource = await userinfo(strict, tokens["access_token"], key.proof("GET", "/userinfo", tokens["access_token"]))
    assert at_resource.outcome == (401, "use_dpop_nonce")
    assert at_resource.headers["WWW-Authenticate"].startswith('DPoP error="use_dpop_nonce"')
    nonce = at_resource.headers["DPoP-Nonce"]
    good = await userinfo(strict, tokens["access_token"], key.proof("GET", "/userinfo", tokens["access_token"], nonce=nonce))
    assert (good.status, good.headers["DPoP-Nonce"]) == (200, nonce)
    pushed = await strict.push(by=client, headers=key.proof("POST", "/par"))
    assert pushed.outcome == (400, "use_dpop_nonce")
    assert (await refresh(strict, tokens["refresh_token"], client, key.proof("POST", "/token"))).outcome == (400, "use_dpop_nonce")
    fresh = await refresh(strict, tokens["refresh_token"], client, key.proof("POST", "/token", nonce=nonce))
    assert fresh.json["token_type"] == "DPoP", "a refusal is no replay"
    wrong = await refresh(strict, "x", client, key.proof("POST", "/token", nonce=nonce))
    assert (wrong.outcome, wrong.headers["DPoP-Nonce"]) == ((400, "invalid_grant"), nonce)


@pytest.mark.parametrize("nonce", [None, "", "x", "dpn_n1_x", 7, "swapped"])
async def test_a_nonce_that_is_not_ours_is_refused(strict, nonce):
    key, client = Key(strict), await strict.registered(grant_types=["client_credentials"], redirect_uris=None, scopes=["groups"])
    form = {"grant_type": "client_credentials"}
    ours = (await strict.form("/token", form, by=client, headers=key.proof("POST", "/token"))).headers["DPoP-Nonce"]
    sent = ours.swapcase() if nonce == "swapped" else nonce

    answer = await strict.form("/token", form, by=client, headers=key.proof("POST", "/token", nonce=sent))

    assert answer.outcome == (400, "use_dpop_nonce")


async def test_a_nonce_of_before_a_restart_is_refused(tmp_path, database_url):
    """Which proofs were used before is forgotten with the process, so none of them may be good."""
    again = {"database": {"url": database_url}, "cluster": {"key_file": str(tmp_path / "cluster.key")}, "oauth": {"dpop_nonce": True}}
    proof: dict[str, str] = {}
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with open_desk(folder, "dpop", **again) as desk:
            form = {"grant_type": "client_credentials"}
            if not proof:
                key = Key(desk)
                client = await desk.registered(grant_types=["client_credentials"], redirect_uris=None, scopes=["groups"])
                nonce = (await desk.form("/token", form, by=client, headers=key.proof("POST", "/token"))).headers["DPoP-Nonce"]
                proof = key.proof("POST", "/token", nonce=nonce, htu=desk.url + "/token")
                assert (await desk.form("/token", form, by=client, headers=proof)).status == 200
                outcome = (400, "invalid_dpop_proof")
            else:
                key.desk = desk
                proof = key.proof("POST", "/token", nonce=nonce)
                outcome = (400, "use_dpop_nonce")
            assert (await desk.form("/token", form, by=client, headers=proof)).outcome == outcome
