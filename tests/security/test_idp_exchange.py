"""One token for another (RFC 8693), and services that want more than the token that they hold."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from security.idp_desk import PARALLEL, Desk, open_desk
from security.test_idp_dpop import Key

from greatseal.jose.compact import b64url_decode
from greatseal.testing.desk import VERIFIER, Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
TYPE = "urn:ietf:params:oauth:token-type:"
ACCESS_TOKEN, ID_TOKEN, JWT = f"{TYPE}access_token", f"{TYPE}id_token", f"{TYPE}jwt"
API = "https://stock.example/"
SERVICE = {"redirect_uris": None, "grant_types": [GRANT, "client_credentials"], "scopes": ["openid", "profile", "groups"]}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite", "postgresql"])
async def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    database = {}
    if request.param == "postgresql":
        database = {"database": {"url": request.getfixturevalue("postgres_cluster").make(), "migrate": "auto"}}
    async with open_desk(tmp_path_factory.mktemp("idp"), "token-exchange", "dpop", "resource-indicators", **database) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(desk: Desk) -> Any:
    return await desk.registered(**SERVICE, resources=[API], allow_token_exchange_actor=True, workload_type="backend")


@pytest_asyncio.fixture(loop_scope="module")
async def tokens(desk: Desk) -> Any:
    """Of ann at the client of the desk."""
    return await desk.tokens(await desk.cookie("ann"))


async def exchange(desk: Desk, by: Any, text: str, type: str = ACCESS_TOKEN, /, *, headers: Any = None, **more: str) -> Answer:
    form = {"grant_type": GRANT, "subject_token": text, "subject_token_type": type, **more}
    return await desk.form("/token", form, by=by, headers=headers)


async def own(desk: Desk, by: Any) -> dict[str, str]:
    answer = await desk.form("/token", {"grant_type": "client_credentials"}, by=by)
    return {"actor_token": answer.json["access_token"], "actor_token_type": ACCESS_TOKEN}


def claims_of(answer: Answer) -> Any:
    assert answer.status == 200, answer.text
    return json.loads(b64url_decode(answer.json["access_token"].split(".")[1]))


async def test_idp_053_idp_057_a_service_gets_a_token_that_names_it_and_holds_no_more(desk, service, tokens):
    answer = await exchange(desk, service, tokens["access_token"], audience=API, **await own(desk, service))

    before, claims = json.loads(b64url_decode(tokens["access_token"].split(".")[1])), claims_of(answer)
    assert answer.json["issued_token_type"] == ACCESS_TOKEN
    assert (answer.json["token_type"], answer.json["scope"]) == ("Bearer", "openid profile")
    assert "refresh_token" not in answer.json
    assert "id_token" not in answer.json
    assert claims["act"] == {"sub": service["client_id"], "workload_type": "backend"}
    assert (claims["sub"], claims["client_id"], claims["aud"]) == (before["sub"], service["client_id"], API)
    assert claims["exp"] <= before["exp"]
    assert answer.json["expires_in"] == claims["exp"] - claims["iat"]
    said = await desk.introspect(answer.json["access_token"], by=service)
    assert said["act"] == claims["act"]
    events = (await desk.ask("GET", "/api/admin/audit?event_type=token_exchange&limit=1", cookie=desk.admin)).json
    assert (events[0]["sub"], events[0]["client_id"]) == (before["sub"], service["client_id"])


async def test_a_chain_of_services_ends_at_five(desk, service, tokens):
    text = tokens["access_token"]
    for depth in range(1, 6):
        answer = await exchange(desk, service, text, **await own(desk, service))
        text = answer.json["access_token"]
        act, names = claims_of(answer)["act"], 0
        while act:
            act, names = act.get("act"), names + 1
        assert names == depth
    assert (await exchange(desk, service, text, **await own(desk, service))).outcome == (400, "invalid_request")
    assert (await exchange(desk, service, text)).status == 200


async def test_s034_idp_056_the_gate_of_actors_stands_before_the_subject_token(desk, tokens):
    closed = await desk.registered(**SERVICE)
    actor = await own(desk, closed)
    said = set()
    for subject in (tokens["access_token"], "x", "a.b.c", "x" * 20_000):
        for form in (actor, {"actor_token": "x"}, {**actor, "actor_token_type": "x"}):
            answer = await exchange(desk, closed, subject, **form)
            said.add((answer.status, answer.text))
    nothing = await desk.form("/token", {"grant_type": GRANT, **actor}, by=closed)
    said.add((nothing.status, nothing.text))
    assert len(said) == 1, "the answer does not depend on the subject token"
    assert nothing.outcome == (403, "access_denied")
    assert (await exchange(desk, closed, tokens["access_token"])).status == 200


async def test_s036_without_rules_no_service_may_be_acted_at(desk, service, tokens):
    for target in ("HTTP/stock.example", "HTTP/stock.example@EXAMPLE"):
        answer = await exchange(desk, service, tokens["access_token"], target_service=target)
        assert answer.outcome == (403, "access_denied")
    assert (await exchange(desk, service, tokens["access_token"], target_service="stock\0")).outcome == (400, "invalid_request")


async def test_tokens_that_are_not_good_are_all_the_same(desk, service, tokens):
    header, body, signature = tokens["access_token"].split(".")
    other = await desk.registered()
    revoked = (await desk.tokens(await desk.cookie("ben")))["access_token"]
    await desk.form("/revoke", {"token": revoked})
    bad = {
        "no token": "x",
        "another signature": f"{header}.{body}.{signature[::-1]}",
        "unsigned": f"eyJhbGciOiJub25lIn0.{body}.",
        "a refresh token": tokens["refresh_token"],
        "revoked": revoked,
        "long": "x" * 20_000,
        "a NUL": "a\0b",
        "not ASCII": "ä.ö.ü",
    }
    answers = {why: await exchange(desk, service, text) for why, text in bad.items()}

    assert {answer.outcome for answer in answers.values()} == {(400, "invalid_request")}, answers
    assert len({answer.text for answer in answers.values()}) == 1
    assert (await exchange(desk, service, tokens["id_token"])).outcome == (400, "invalid_request"), "no access token"
    assert (await exchange(desk, service, tokens["access_token"], ID_TOKEN)).outcome == (400, "invalid_request")
    assert (await exchange(desk, service, tokens["id_token"], ID_TOKEN)).outcome == (400, "invalid_request"), "for another client"
    assert (await exchange(desk, other, tokens["access_token"])).outcome == (400, "unauthorized_client")
    assert (await exchange(desk, service, (await own(desk, service))["actor_token"])).outcome == (400, "invalid_request"), "a program's"


async def test_what_ends_a_sign_in_ends_what_was_exchanged(desk, service):
    cookie = await desk.cookie("ann")
    family, plain = await desk.tokens(cookie), await desk.tokens(cookie, scope="openid profile")
    of_family, of_session = [(await exchange(desk, service, one["access_token"])).json["access_token"] for one in (family, plain)]

    await desk.form("/revoke", {"token": family["refresh_token"]})
    assert await desk.introspect(of_family, by=service) == {"active": False}
    assert (await desk.introspect(of_session, by=service))["active"]
    await desk.ask("POST", "/api/auth/logout", cookie=cookie)
    assert await desk.introspect(of_session, by=service) == {"active": False}
    assert (await exchange(desk, service, plain["access_token"])).outcome == (400, "invalid_request")


async def test_s028_an_id_token_is_exchanged_for_as_long_as_what_it_came_with(desk):
    """A family, a code or a consent that ended, ends the ID token too: it would be worth another access token."""
    both = await desk.registered(grant_types=["authorization_code", "refresh_token", GRANT], consent="explicit")

    async def sign_in(scope: str) -> tuple[str, dict[str, str]]:
        code = await desk.code(await desk.cookie("ann"), client_id=both["client_id"], scope=scope)
        return code, (await desk.redeem(code, by=both)).json

    async def exchanged(tokens: Any) -> Answer:
        return await exchange(desk, both, tokens["id_token"], ID_TOKEN)

    _, family = await sign_in("openid offline_access")
    code, plain = await sign_in("openid")
    _, whole = await sign_in("openid")
    before = [(await exchanged(tokens)).json["access_token"] for tokens in (family, plain, whole)]
    await desk.form("/revoke", {"token": family["refresh_token"]}, by=both)
    assert (await exchanged(family)).outcome == (400, "invalid_request")
    await desk.redeem(code, by=both)
    assert (await exchanged(plain)).outcome == (400, "invalid_request")
    assert (await exchanged(whole)).status == 200
    await desk.provider.consents.withdraw("ann@LOCALHOST", both["client_id"])
    assert (await exchanged(whole)).outcome == (400, "invalid_request")
    assert [await desk.introspect(text, by=both) for text in before] == [{"active": False}] * 3


async def test_s028_what_was_exchanged_ends_with_the_client_that_it_came_from(desk, service):
    first = await desk.registered()
    redeemed = await desk.redeem(await desk.code(await desk.cookie("ann"), client_id=first["client_id"]), by=first)
    once = (await exchange(desk, service, redeemed.json["access_token"])).json["access_token"]
    twice = (await exchange(desk, service, once)).json["access_token"]
    assert (await desk.introspect(twice, by=service))["active"]

    assert (await desk.ask("DELETE", f"/api/admin/clients/{first['client_id']}", cookie=desk.admin)).status == 204
    assert [await desk.introspect(text, by=service) for text in (once, twice)] == [{"active": False}] * 2
    assert (await exchange(desk, service, twice)).outcome == (400, "invalid_request")


async def test_a_stolen_bound_token_is_exchanged_by_nobody(desk):
    frontend, service, owner = (
        await desk.registered(resources=[API]),
        await desk.registered(**SERVICE),
        await desk.registered(**SERVICE, resources=[API]),
    )
    key, thief = Key(desk), Key(desk)
    code = await desk.code(await desk.cookie("ann"), client_id=frontend["client_id"], resource=(API,))
    redeemed = await desk.form(
        "/token",
        {"grant_type": "authorization_code", "code": code, "redirect_uri": frontend["redirect_uris"][0], "code_verifier": VERIFIER},
        by=frontend,
        headers=key.proof("POST", "/token"),
    )
    bound = redeemed.json["access_token"]

    assert (await exchange(desk, service, bound)).outcome == (400, "invalid_request")
    assert (await exchange(desk, service, bound, headers=thief.proof("POST", "/token"))).outcome == (400, "invalid_request")
    mine = await exchange(desk, service, bound, headers=key.proof("POST", "/token"))
    assert (claims_of(mine)["cnf"], mine.json["token_type"]) == ({"jkt": key.jkt}, "DPoP")
    assert "cnf" not in claims_of(await exchange(desk, owner, bound)), "the API that it was for needs no key of its caller"


async def test_each_type_of_token_for_each(desk, service, tokens):
    both = await desk.registered(grant_types=["authorization_code", "refresh_token", GRANT])
    mine = await desk.redeem(await desk.code(await desk.cookie("ann"), client_id=both["client_id"]), by=both)
    for text, type in ((mine.json["id_token"], ID_TOKEN), (mine.json["id_token"], JWT), (mine.json["access_token"], JWT)):
        for wanted in (ACCESS_TOKEN, JWT, ID_TOKEN):
            answer = await exchange(desk, both, text, type, requested_token_type=wanted)
            claims = claims_of(answer)
            assert answer.json["issued_token_type"] == wanted
            assert answer.json["expires_in"] == claims["exp"] - claims["iat"]
            if wanted == ID_TOKEN:
                assert (answer.json["token_type"], claims["aud"], "at_hash" in claims) == ("N_A", both["client_id"], False)
                assert {"scope", "refresh_token", "id_token"}.isdisjoint(answer.json)
            else:
                assert answer.json["token_type"] == "Bearer"
                assert await desk.introspect(answer.json["access_token"], by=both)
    for wanted in ("refresh_token", "saml1", "saml2"):
        answer = await exchange(desk, service, tokens["access_token"], requested_token_type=TYPE + wanted)
        assert answer.outcome == (400, "invalid_request")


async def test_scopes_and_targets_only_narrow(desk, service, tokens):
    async def asked(**more: str) -> Any:
        answer = await exchange(desk, service, tokens["access_token"], **more)
        return answer.json["scope"] if answer.status == 200 else answer.outcome

    assert await asked(scope="profile") == "profile"
    assert await asked(scope="profile groups") == "profile", "groups is the client's and not the token's"
    assert await asked(scope="groups") == (400, "invalid_scope")
    assert await asked(scope="email") == (400, "invalid_scope")
    assert await asked(audience="https://elsewhere.example/") == (400, "invalid_target")
    assert await asked(resource="https://elsewhere.example/") == (400, "invalid_target")
    assert claims_of(await exchange(desk, service, tokens["access_token"], resource=API))["aud"] == API
    assert claims_of(await exchange(desk, service, tokens["access_token"]))["aud"] == desk.url


async def test_one_token_is_exchanged_many_times_at_once(desk, service, tokens):
    answers = await asyncio.gather(*(exchange(desk, service, tokens["access_token"]) for _ in range(PARALLEL)))

    assert {answer.status for answer in answers} == {200}
    assert len({claims_of(answer)["jti"] for answer in answers}) == PARALLEL


async def test_idp_052_idp_055_what_an_actor_is_stands_in_its_registration(desk, tokens):
    plain = await desk.registered(**SERVICE)
    assert (plain["workload_type"], plain["allow_token_exchange_actor"]) == (None, False)
    assert (await exchange(desk, plain, tokens["access_token"], **await own(desk, plain))).outcome == (403, "access_denied")

    changed = await desk.put(plain, workload_type="batch", allow_token_exchange_actor=True)
    assert (changed.json["workload_type"], changed.json["allow_token_exchange_actor"]) == ("batch", True)
    act = claims_of(await exchange(desk, plain, tokens["access_token"], **await own(desk, plain)))["act"]
    assert act == {"sub": plain["client_id"], "workload_type": "batch"}
    for wrong in ({"workload_type": 1}, {"allow_token_exchange_actor": "yes"}):
        assert (await desk.put(plain, **wrong)).outcome == (400, "invalid_client_metadata")
    await desk.put(plain, workload_type=None)
    act = claims_of(await exchange(desk, plain, tokens["access_token"], **await own(desk, plain)))["act"]
    assert act == {"sub": plain["client_id"]}


async def test_only_an_administrator_registers_services_that_prove_themselves(desk):
    public = await desk.register(token_endpoint_auth_method="none", grant_types=["authorization_code", GRANT])
    assert public.outcome == (400, "invalid_client_metadata")


async def test_discovery_lists_the_grant_while_it_is_enabled(desk, tmp_path):
    for document in ("oauth-authorization-server", "openid-configuration"):
        assert GRANT in (await desk.get(f"/.well-known/{document}")).json["grant_types_supported"]
    async with open_desk(tmp_path) as plain:
        assert GRANT not in (await plain.get("/.well-known/openid-configuration")).json["grant_types_supported"]
        assert (await plain.register(**SERVICE)).outcome == (400, "invalid_client_metadata")
        answer = await exchange(plain, plain.client, "x")
        assert answer.outcome == (400, "unsupported_grant_type")
