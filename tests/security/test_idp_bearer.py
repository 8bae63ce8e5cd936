"""Assertions of other issuers (RFC 7523), and their tokens in an exchange (RFC 8693), over HTTP."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import trustme
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from security.idp_desk import PARALLEL, Desk, open_desk
from security.test_idp_clients import KeyServer

from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import Answer
from greatseal.testing.trust import signed

pytestmark = pytest.mark.asyncio(loop_scope="module")

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CI, CLUSTER = "https://ci.example", "https://kubernetes.default.svc.cluster.local"
KEY = ec.generate_private_key(ec.SECP256R1())
JWKS = {"keys": [{**jwk_of(KEY.public_key()), "kid": "k1"}]}
ISSUERS = [
    {"issuer": CI, "jwks": JWKS, "subject": "username"},
    {
        "issuer": CLUSTER,
        "jwks": JWKS,
        "subject": "workload",
        "workloads": ["system:serviceaccount:shop:*"],
        "audiences": ["greatseal"],
    },
    {"issuer": "https://gone.example", "jwks_uri": "https://gone.example/keys", "subject": "username"},
]
PAYMENT = {
    "type": "payment",
    "sentence": "Pay {amount} EUR",
    "members": {"amount": {"type": "decimal", "required": True}, "actions": {"type": "list of text"}},
}
READING = {"type": "reading", "sentence": "Read the meter", "without_person": True}
PROGRAM = {"redirect_uris": None, "grant_types": [GRANT, "client_credentials"], "scopes": ["openid", "profile", "groups"]}
HOSTS = {"hosts": {"gone.example": ["127.0.0.1"]}}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite", "postgresql"])
async def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    sections: dict[str, Any] = {"jwt_bearer": {"issuers": ISSUERS}, "resolver": HOSTS}
    if request.param == "postgresql":
        sections["database"] = {"url": request.getfixturevalue("postgres_cluster").make(), "migrate": "auto"}
    sections["oauth"] = {"authorization_details": [PAYMENT, READING]}
    features = ("jwt-bearer", "token-exchange", "resource-indicators", "resolver", "rar")
    async with open_desk(tmp_path_factory.mktemp("idp"), *features, **sections) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def program(desk: Desk) -> Any:
    return await desk.registered(**PROGRAM)


class Assertions:
    """What an issuer signs; each has a jti of its own."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.made = 0

    def claims(self, **changes: Any) -> dict[str, Any]:
        self.made += 1
        now = self.desk.clock.now() // 1_000_000
        claims = {"iss": CI, "sub": "ann", "aud": self.desk.url, "iat": now, "exp": now + 300, "jti": f"j{self.made}", **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def __call__(self, *, key: Any = KEY, header: Any = None, **changes: Any) -> str:
        return signed(key, self.claims(**changes), **{"kid": "k1", **(header or {})})


@pytest.fixture(scope="module")
def assertion(desk: Desk) -> Assertions:
    return Assertions(desk)


async def bring(desk: Desk, by: Any, assertion: str | tuple[str, ...], **more: str) -> Answer:
    sent = [("assertion", one) for one in ((assertion,) if isinstance(assertion, str) else assertion)]
    return await desk.form("/token", [("grant_type", GRANT), *sent, *more.items()], by=by)


def claims_of(answer: Answer) -> Any:
    assert answer.status == 200, answer.text
    return json.loads(b64url_decode(answer.json["access_token"].split(".")[1]))


async def test_idp_353_an_assertion_gives_a_token_for_the_person_that_it_means(desk, program, assertion):
    answer = await bring(
        desk, program, assertion(aud=["https://elsewhere.example", f"{desk.url}/token"], email="x@evil.example", groups=["admin"])
    )

    claims = claims_of(answer)
    assert (claims["sub"].partition("@")[0], claims["client_id"], claims["amr"]) == ("ann", program["client_id"], [])
    assert "refresh_token" not in answer.json
    assert "id_token" not in answer.json
    assert claims["scope"] == "openid profile groups"
    assert "admin" not in str(claims)
    assert "email" not in claims
    assert (await desk.userinfo(answer.json["access_token"])).json["sub"] == claims["sub"]
    (event,) = await desk.events("jwt_bearer")
    assert (event.sub, event.principal, event.client_id) == ("ann", claims["sub"], program["client_id"])
    assert event.detail == f"iss={CI} jti=j1"


async def test_a_workload_of_a_cluster_gets_a_token_that_is_nobody_elses(desk, program, assertion):
    claims = {
        "iss": CLUSTER, "sub": "system:serviceaccount:shop:stock", "aud": ["greatseal"],
        "kubernetes.io": {"namespace": "shop", "serviceaccount": {"name": "stock"}},
    }  # fmt: skip
    told = claims_of(await bring(desk, program, assertion(**claims)))

    assert told["sub"] == f"{CLUSTER}#system:serviceaccount:shop:stock"
    assert told["scope"] == "groups"
    assert {"auth_time", "amr", "acr", "groups", "kubernetes.io"}.isdisjoint(told)
    refused = await bring(desk, program, assertion(**{**claims, "sub": "system:serviceaccount:kube-system:admin"}))
    assert refused.outcome == (400, "invalid_grant")


async def test_s047_of_fifty_at_once_one_wins(desk, program, assertion):
    one = assertion()
    before = len(await desk.events("jwt_bearer"))

    answers = await asyncio.gather(*(bring(desk, program, one) for _ in range(PARALLEL)))

    assert sorted(answer.status for answer in answers) == [200] + [400] * (PARALLEL - 1)
    assert {answer.error for answer in answers if answer.status == 400} == {"invalid_grant"}
    assert len(await desk.events("jwt_bearer")) == before + 1
    desk.clock.advance(200)
    assert (await bring(desk, program, one)).error == "invalid_grant"


async def test_s047_the_same_jti_under_another_signature_is_the_same(desk, program, assertion):
    claims = assertion.claims()

    assert (await bring(desk, program, signed(KEY, claims, kid="k1"))).status == 200
    assert (await bring(desk, program, signed(KEY, dict(reversed(claims.items())), kid="k1", typ="JWT"))).error == "invalid_grant"


async def test_a_resource_of_the_client_is_the_audience(desk, assertion):
    client = await desk.registered(**PROGRAM, resources=["https://stock.example/"])

    assert claims_of(await bring(desk, client, assertion(), resource="https://stock.example/"))["aud"] == "https://stock.example/"
    assert (await bring(desk, client, assertion(), resource="https://other.example/")).outcome == (400, "invalid_target")


async def test_what_policy_refuses_uses_nothing_up(desk, program, assertion):
    one = assertion()

    assert (await bring(desk, program, one, scope="nothing")).error == "invalid_scope"
    assert (await bring(desk, program, one, authorization_details="[")).status == 400
    assert (await bring(desk, program, one)).status == 200


async def test_s042_s050_each_trick_is_refused_in_the_same_words(desk, program, assertion):
    now = desk.clock.now() // 1_000_000
    other = ec.generate_private_key(ec.SECP256R1())
    head, payload, signature = assertion().split(".")

    def under(**header: Any) -> str:
        return f"{b64url_encode(json.dumps({'kid': 'k1', **header}).encode())}.{payload}.{signature}"

    tricks = [
        "", "x", "a.b.c", f"{head}.{payload}.", f"{head}.{payload}", f"{head}.{payload}.{signature}=", "x" * 20_000,
        under(alg="none"), under(alg="HS256"), under(alg="RS256"), under(alg=["ES256"]), under(),
        assertion(key=other), assertion(key=other, header={"jwk": jwk_of(other.public_key())}),
        assertion(header={"jku": "https://evil.example"}), assertion(header={"x5u": "https://evil.example"}),
        assertion(header={"kid": "../../k1"}), assertion(header={"kid": "' OR 1=1"}), assertion(header={"crit": ["exp"]}),
        assertion(header={"b64": False}), assertion(header={"typ": "at+jwt"}),
        assertion(iss="https://evil.example"), assertion(iss=f"{CI}/"), assertion(iss=None), assertion(iss=[CI]), assertion(iss=desk.url),
        assertion(aud=None), assertion(aud="https://evil.example"), assertion(aud=f"{desk.url}/"), assertion(aud="greatseal"),
        assertion(exp=None), assertion(exp=now), assertion(exp=now + 3661), assertion(exp=str(now + 60)), assertion(exp=-1),
        assertion(nbf=now + 61), assertion(iat=now + 61), assertion(jti=None), assertion(jti=""), assertion(jti="a\0b"),
        assertion(sub="nobody"), assertion(sub=None), assertion(sub="ann\0"), assertion(sub={"$ne": 1}), assertion(sub="ann\nadmin"),
        assertion(act={"sub": "x"}), assertion(may_act={"sub": program["client_id"]}), assertion(cnf={"jkt": "x"}),
        assertion(events={}),
    ]  # fmt: skip
    for trick in tricks:
        answer = await bring(desk, program, trick)
        if trick == "":  # as if it were not there (RFC 6749 s3.2)
            assert answer.outcome == (400, "invalid_request")
            continue
        assert answer.outcome == (400, "invalid_grant"), trick
        assert answer.json["error_description"].startswith("assertion: expired, used"), trick
    own = await desk.tokens(await desk.cookie("ann"))
    for token in (own["access_token"], own["id_token"]):
        assert (await bring(desk, program, token)).error == "invalid_grant"
    failures = await desk.events("jwt_bearer_failure")
    assert all(event.outcome == "failure" and event.client_id == program["client_id"] for event in failures)
    assert "evil" not in str([event.detail for event in failures]), "what a stranger wrote is not in the log"


async def test_there_is_one_assertion(desk, program, assertion):
    for sent in ((), (assertion(), assertion())):
        assert (await bring(desk, program, sent)).outcome == (400, "invalid_request")


async def test_an_issuer_on_a_private_address_is_not_asked(desk, program, assertion):
    answer = await bring(desk, program, assertion(iss="https://gone.example"))

    assert answer.outcome == (503, "unavailable")
    assert "127.0.0.1" not in answer.text


async def test_who_brings_an_assertion_is_registered_for_it(desk, program, assertion):
    other = await desk.registered(redirect_uris=None, grant_types=["client_credentials"], scopes=["groups"])

    assert (await bring(desk, other, assertion())).outcome == (400, "unauthorized_client")
    assert (
        await desk.form("/token", {"grant_type": GRANT, "assertion": assertion(), "client_id": "x"}, by={**program, "client_id": "x"})
    ).status == 401
    public = await desk.register(**{**PROGRAM, "token_endpoint_auth_method": "none"})
    assert public.outcome == (400, "invalid_client_metadata")


# ---- Tokens of trusted issuers in an exchange

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
TYPE = "urn:ietf:params:oauth:token-type:"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(desk: Desk) -> Any:
    return await desk.registered(**{**PROGRAM, "grant_types": [EXCHANGE, "client_credentials"]}, allow_token_exchange_actor=True)


async def exchange(desk: Desk, by: Any, text: str, type: str = "id_token", **more: str) -> Answer:
    form = {"grant_type": EXCHANGE, "subject_token": text, "subject_token_type": f"{TYPE}{type}", **more}
    return await desk.form("/token", form, by=by)


async def test_the_token_of_a_trusted_issuer_is_exchanged_for_whom_it_means(desk, service, assertion):
    now = desk.clock.now() // 1_000_000
    foreign = assertion(exp=now + 100, auth_time=now - 1000, acr="gold", groups=["admin"], scope="admin", jti=None)

    told = claims_of(await exchange(desk, service, foreign))
    assert (told["sub"].partition("@")[0], told["client_id"], told["exp"]) == ("ann", service["client_id"], now + 100)
    assert (told["auth_time"], told["amr"], told["scope"]) == (now - 1000, [], "openid profile groups")
    assert {"acr", "act", "origin", "family"}.isdisjoint(told)
    own = await desk.form("/token", {"grant_type": "client_credentials"}, by=service)
    acting = await exchange(desk, service, foreign, actor_token=own.json["access_token"], actor_token_type=f"{TYPE}access_token")
    assert claims_of(acting)["act"] == {"sub": service["client_id"]}
    again = await exchange(desk, service, acting.json["access_token"], "access_token")
    assert claims_of(again)["act"] == {"sub": service["client_id"]}, "what it gave is a token of ours, which is exchanged as any"
    (event, *_) = await desk.events("token_exchange")
    assert event.detail == f"by=impersonation iss={CI}"


async def test_a_foreign_token_that_is_not_good_is_refused_in_the_words_of_ours(desk, service, assertion):
    words = set()
    named = {"sub": service["client_id"], "iss": desk.url}
    assert (await exchange(desk, service, assertion(may_act=named))).status == 200
    for text, type in (
        (assertion(iss="https://evil.example"), "id_token"), (assertion(aud="x"), "jwt"), (assertion(sub="nobody"), "jwt"),
        (assertion(key=ec.generate_private_key(ec.SECP256R1())), "id_token"), (assertion(), "access_token"),
        (assertion(header={"typ": "at+jwt"}), "jwt"), (assertion(act={"sub": "x"}), "id_token"), ("x", "jwt"),
        (assertion(may_act={**named, "iss": CI}), "id_token"), (assertion(cnf={"jkt": "x"}), "jwt"),
    ):  # fmt: skip
        answer = await exchange(desk, service, text, type)
        assert answer.outcome == (400, "invalid_request")
        words.add(answer.json["error_description"])
    assert len(words) == 1
    workload = assertion(iss=CLUSTER, sub="system:serviceaccount:shop:stock", aud="greatseal")
    assert (await exchange(desk, service, workload, "jwt")).outcome == (400, "invalid_request")


async def test_a_person_who_may_not_sign_in_is_nobody(desk, program, service, assertion):
    before = assertion(), assertion()
    live = (await bring(desk, program, assertion())).json["access_token"]
    assert (await desk.introspect(live, by=program))["active"]
    users = desk.folder / "users.toml"
    kept = users.read_text()
    users.write_text(kept.replace('username = "ann"\n', 'username = "ann"\nenabled = false\n'))
    try:
        assert (await bring(desk, program, before[0])).outcome == (400, "invalid_grant")
        assert (await exchange(desk, service, before[1])).outcome == (400, "invalid_request")
        assert await desk.introspect(live, by=program) == {"active": False}
        assert (await desk.userinfo(live)).status == 401
    finally:
        users.write_text(kept)


# ---- Authorization details (RFC 9396 s6) in an exchange


def details_of(answer: Answer) -> Any:
    """What token and response say."""
    said = claims_of(answer).get("authorization_details")
    assert answer.json.get("authorization_details") == said
    return said


async def test_an_exchanged_token_has_no_more_details_than_the_one_before(desk):
    types = {"authorization_details_types": ["payment", "reading"]}
    shop = await desk.registered(**types)
    service = await desk.registered(**{**PROGRAM, "grant_types": [EXCHANGE]}, **types)
    plain = await desk.registered(**{**PROGRAM, "grant_types": [EXCHANGE]})
    paid = {"type": "payment", "amount": "10", "actions": ["start", "cancel"]}
    less = {**paid, "actions": ["start"]}
    asked = {"client_id": shop["client_id"], "authorization_details": json.dumps([paid])}
    cookie = await desk.cookie("ben")
    first = await desk.redeem(await desk.code(cookie, **asked), by=shop)
    token = first.json["access_token"]

    async def swap(by: Any, text: str, *details: Any) -> Answer:
        more = {"authorization_details": json.dumps(details)} if details else {}
        return await exchange(desk, by, text, "access_token", **more)

    assert details_of(first) == [paid]
    assert details_of(await swap(service, token)) == [paid]
    narrowed = await swap(service, token, less)
    assert details_of(narrowed) == [less]
    for wider in (paid, {**less, "actions": ["start", "refund"]}, {"type": "payment", "amount": "10"}, {"type": "reading"}):
        assert (await swap(service, narrowed.json["access_token"], wider)).outcome == (400, "invalid_authorization_details")
    for wider in ({**paid, "amount": "11"}, {"type": "reading"}):
        assert (await swap(service, token, wider)).outcome == (400, "invalid_authorization_details")
    assert (await swap(service, token, paid, paid)).outcome == (400, "invalid_authorization_details"), "one payment is not two"
    assert details_of(await swap(plain, token)) is None, "a client that is not registered for the type"
    bare = (await desk.tokens(cookie))["access_token"]
    assert (await swap(service, bare, less)).outcome == (400, "invalid_authorization_details")


async def test_what_another_issuer_says_was_authorized_was_not(desk, assertion):
    types = {"authorization_details_types": ["payment", "reading"]}
    both = await desk.registered(**{**PROGRAM, "grant_types": [EXCHANGE, GRANT]}, **types)
    told = [{"type": "payment", "amount": "10"}]
    foreign = assertion(authorization_details=told)

    assert details_of(await exchange(desk, both, foreign)) is None
    for details in (told, [{"type": "reading"}]):
        asked = {"authorization_details": json.dumps(details)}
        assert (await exchange(desk, both, foreign, **asked)).outcome == (400, "invalid_authorization_details")
        assert (await bring(desk, both, foreign, **asked)).outcome == (400, "invalid_authorization_details")
    assert details_of(await bring(desk, both, foreign)) is None


# ---- Keys behind a URL


async def test_s051_keys_of_an_issuer_are_fetched_once_and_again_for_a_new_kid(tmp_path, monkeypatch):
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    authority.issue_cert("keys.example").configure_cert(context)
    server = KeyServer()
    app = web.Application()
    app.router.add_get("/jwks", server.handle)
    app.router.add_get("/elsewhere", server.trapped)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    uri = f"https://keys.example:{runner.addresses[0][1]}/jwks"
    sections = {
        "jwt_bearer": {"issuers": [{"issuer": CI, "jwks_uri": uri, "subject": "username"}]},
        "resolver": {"hosts": {"keys.example": ["127.0.0.1"]}},
        "oauth": {"allow_private_jwks_hosts": True},
    }
    async with open_desk(tmp_path, "jwt-bearer", "resolver", **sections) as desk:
        program, assertion, other = await desk.registered(**PROGRAM), Assertions(desk), ec.generate_private_key(ec.SECP256R1())
        server.answer = server.redirect(uri.replace("/jwks", "/elsewhere"))
        one = assertion()
        assert (await bring(desk, program, one)).outcome == (503, "unavailable")
        assert (server.asked, server.elsewhere) == (1, 0)
        desk.clock.advance(6)
        server.answer = server.keys({"k1": KEY})
        assert (await bring(desk, program, one)).status == 200, "an outage used nothing up"
        assert (await bring(desk, program, assertion())).status == 200
        assert server.asked == 2
        desk.clock.advance(31)
        server.answer = server.keys({"k2": other})
        assert (await bring(desk, program, assertion(key=other, header={"kid": "k2"}))).status == 200
        assert (await bring(desk, program, assertion())).error == "invalid_grant", "the issuer has that key no more"
        assert server.asked == 3
    await runner.cleanup()
