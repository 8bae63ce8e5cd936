"""Providers that lie or do not answer, and browsers that bring what is not theirs: nobody is signed in, and the log says why."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from cryptography.hazmat.primitives import hmac
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from rig.upstream import ES256, Stub, request_of
from security.idp_federation import BROWSER, Federation, open_federation

from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.compact import b64url_encode, sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal_federation.metadata import FAILED_SECONDS, FRESH_SECONDS
from greatseal_federation.refusals import Untrusted
from greatseal_federation.start import BEGINNINGS

pytestmark = pytest.mark.asyncio(loop_scope="module")

MINUTE = 60


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One service for every lie; ann is linked."""
    async with open_federation(tmp_path_factory.mktemp("federation")) as opened:
        await opened.link("ann")
        yield opened


@pytest.fixture
def lying(shared: Federation) -> Any:
    stub = shared.stub
    key = stub.key
    yield shared
    stub.claims, stub.metadata, stub.userinfo, stub.forge, stub.key = {}, {}, {}, None, key
    stub.token, stub.answer = lambda answer: answer, lambda _request: None
    shared.desk.clock.advance(10 * MINUTE)  # keys are asked for again


def unsigned(claims: Any, header: Any) -> str:
    head = {**header, "alg": "none"}
    return f"{b64url_encode(msgspec.json.encode(head))}.{b64url_encode(msgspec.json.encode(claims))}."


def by(key: ec.EllipticCurvePrivateKey, **more: Any) -> Callable[[Any, Any], str]:
    def forge(claims: Any, header: Any) -> str:
        return sign_compact({**header, **more}, msgspec.json.encode(claims), lambda message: ES256.sign(key, message))

    return forge


def confused(stub: Stub) -> Callable[[Any, Any], str]:
    """A MAC with the public key for a secret (RFC 8725 s2.1)."""

    def forge(claims: Any, header: Any) -> str:
        def mac(message: bytes) -> bytes:
            secret = stub.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            made = hmac.HMAC(secret, SHA256())
            made.update(message)
            return made.finalize()

        return sign_compact({**header, "alg": "HS256"}, msgspec.json.encode(claims), mac)

    return forge


def with_own_key(stub: Stub) -> Callable[[Any, Any], str]:
    key = ec.generate_private_key(ec.SECP256R1())
    return by(key, jwk=jwk_of(key.public_key()), kid="other")


async def refused(opened: Federation, because: str, status: int = 502, error: str = "bad_upstream") -> None:
    """Nobody is signed in; the page is for a person, and says nothing of what only the log has."""
    before = len(await opened.desk.events("login_failure"))
    answer = await opened.sign_in("/account")
    assert (answer.status, f"{status}: {error}" in answer.text) == (status, True), answer.text
    assert not [one for one in answer.cookies if "session" in one]
    assert because not in answer.text
    assert "Try again" in answer.text
    failed = (await opened.desk.events("login_failure"))[before:]
    assert any(because in (one.detail or "") for one in failed), [one.detail for one in failed]


CLAIMS = {
    "issuer": ({"iss": "https://elsewhere.example"}, "iss"),
    "no-issuer": ({"iss": None}, "iss"),
    "audience": ({"aud": "somebody-else"}, "aud"),
    "many-audiences": ({"aud": ["greatseal", "somebody-else"]}, "azp"),
    "another-party": ({"azp": "somebody-else"}, "azp"),
    "nonce": ({"nonce": "another"}, "nonce"),
    "no-nonce": ({"nonce": None}, "nonce"),
    "expired": ({"exp": 1}, "exp"),
    "never-expires": ({"exp": 1 << 39}, "exp"),
    "no-end": ({"exp": None}, "exp"),
    "exp-as-text": ({"exp": "tomorrow"}, "exp"),
    "from-the-future": ({"iat": 1 << 39}, "iat"),
    "old": ({"iat": 1}, "iat"),
    "no-beginning": ({"iat": None}, "iat"),
    "hash": ({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, "at_hash"),
    "no-sub": ({"sub": None}, "sub"),
    "sub-of-two-lines": ({"sub": "ada-1\nann"}, "sub"),
    "sub-after-a-blank": ({"sub": " ada-1"}, "sub"),
    "long-sub": ({"sub": "x" * 257}, "sub"),
    "sub-as-number": ({"sub": 7}, "sub"),
    "logout-token": ({"events": {}}, "events"),
}


@pytest.mark.parametrize("lie", sorted(CLAIMS))
async def test_s080_an_id_token_with_a_false_claim_signs_nobody_in(lying: Federation, lie: str) -> None:
    lying.stub.claims, because = CLAIMS[lie]

    await refused(lying, because)


SIGNATURES: dict[str, tuple[Callable[[Stub], Callable[[Any, Any], str]], str]] = {
    "none": (lambda _stub: unsigned, "the ID token"),
    "mac-with-the-public-key": (confused, "no key of the issuer"),
    "key-in-the-header": (with_own_key, "brings a key"),
    "another-key": (lambda _stub: by(ec.generate_private_key(ec.SECP256R1())), "no key of the issuer"),
    "unknown-kid": (lambda stub: by(stub.key, kid="../../etc/passwd"), "no key of the issuer"),
    "crit": (lambda stub: by(stub.key, crit=["exp"]), "crit"),
    "logout-token": (lambda stub: by(stub.key, typ="logout+jwt"), "another kind"),
    "access-token": (lambda stub: by(stub.key, typ="at+jwt"), "another kind"),
    "no-token": (lambda _stub: lambda _claims, _header: "x", "not readable"),
    "long": (lambda stub: lambda claims, header: by(stub.key)({**claims, "more": "x" * 16_384}, header), "too long"),
}


@pytest.mark.parametrize("lie", sorted(SIGNATURES))
async def test_s040_s041_s042_an_id_token_that_the_provider_did_not_sign_signs_nobody_in(lying: Federation, lie: str) -> None:
    made, because = SIGNATURES[lie]
    lying.stub.forge = made(lying.stub)

    await refused(lying, because)


ANSWERS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no-id-token": (lambda answer: {**answer, "id_token": None}, "no ID token"),
    "no-access-token": (lambda answer: {**answer, "access_token": None}, "no access token"),
    "access-token-of-other-letters": (lambda answer: {**answer, "access_token": "\xe4"}, "no access token"),
    "another-type": (lambda answer: {**answer, "token_type": "mac"}, "no access token"),
    "refusal": (lambda _answer: web.json_response({"error": "invalid_client"}, status=401), "invalid_client"),
    "refusal-with-200": (lambda _answer: {"error": "bad_verification_code"}, "bad_verification_code"),
    "list": (lambda answer: [answer], "no JSON object"),
    "html": (lambda _answer: web.Response(text="<html>"), "not JSON"),
    "twice": (lambda _answer: web.Response(text='{"access_token":"a","access_token":"b"}'), "member twice"),
    "redirect": (lambda _answer: web.Response(status=307, headers={"Location": "/token"}), "status 307"),
}


@pytest.mark.parametrize("lie", sorted(ANSWERS))
async def test_f16_an_answer_of_the_token_endpoint_that_is_none_signs_nobody_in(lying: Federation, lie: str) -> None:
    lying.stub.token, because = ANSWERS[lie]

    await refused(lying, because)


async def test_f16_a_huge_answer_and_an_error_of_the_provider_are_an_outage(lying: Federation) -> None:
    for answer in (web.Response(text="x" * 300_000), web.Response(status=500), web.Response(status=429)):
        lying.stub.token = lambda _answer, answer=answer: answer  # type: ignore[misc]
        page = await lying.sign_in()
        assert (page.status, "cannot be reached now" in page.text) == (503, True)
        assert page.headers["Retry-After"]


async def test_rfc_9207_an_answer_of_another_issuer_is_refused(lying: Federation) -> None:
    request = await lying.begin()
    code = lying.stub.code(request)

    answer = await lying.arrive(code=code, state=request["state"], iss="https://evil.example")

    assert answer.status == 502
    assert not [path for path, form, _ in lying.stub.asked if form.get("code") == code], "the code went nowhere"
    again = await lying.begin()
    assert (await lying.arrive(code=lying.stub.code(again), state=again["state"], iss=lying.stub.url)).status == 303


async def test_s102_a_state_is_good_once_in_its_browser_and_for_its_provider(lying: Federation) -> None:
    request = await lying.begin()
    code = lying.stub.code(request)
    mine = lying.browser

    lying.browser = ""
    assert "another browser" in (await lying.arrive(code=code, state=request["state"])).text
    lying.browser = "greatseal_federation=guessed"
    assert (await lying.arrive(code=code, state=request["state"])).status == 400
    lying.browser = mine
    for state in ("", "fs_n1_x", request["state"][:-1], request["state"] + "x", "\n"):
        assert (await lying.arrive(code=code, state=state)).status == 400
    assert (await lying.desk.get("/internal/callback/partner", headers=BROWSER)).status == 400
    assert (await lying.arrive(code=code, state=request["state"])).status == 303
    assert (await lying.arrive(code=lying.stub.code(request), state=request["state"])).status == 400


async def test_s022_of_fifty_callbacks_with_one_state_one_signs_in(lying: Federation) -> None:
    request = await lying.begin()
    code = lying.stub.code(request)
    asked = len(lying.stub.asked)

    answers = await asyncio.gather(*(lying.arrive(code=code, state=request["state"]) for _ in range(50)))

    assert sorted(answer.status for answer in answers) == [303] + [400] * 49
    assert len([path for path, *_ in lying.stub.asked[asked:] if path == "/token"]) == 1, "the code was redeemed once"


async def test_a_state_is_too_old_after_twenty_minutes(lying: Federation) -> None:
    request = await lying.begin()
    lying.desk.clock.advance(20 * MINUTE)

    assert (await lying.arrive(code=lying.stub.code(request), state=request["state"])).status == 400


async def test_who_stops_there_is_told_so_and_the_words_of_the_provider_are_in_the_log_alone(lying: Federation) -> None:
    request = await lying.begin("/account")

    answer = await lying.arrive(state=request["state"], error="access_denied", error_description="<script>call 0800")

    assert (answer.status, "0800" in answer.text, "did not sign in there" in answer.text) == (403, False, True)
    assert 'href="/auth/external/partner?return_to=%2Faccount"' in answer.text
    program = await lying.arrive(state=(await lying.begin())["state"], error="access_denied", headers={})
    assert program.outcome == (403, "access_denied")


async def test_s003_a_sign_in_leads_to_no_other_place(lying: Federation) -> None:
    for return_to in ("https://evil.example/", "//evil.example", "/\\evil.example"):
        assert (await lying.sign_in(return_to)).location == "/account"


async def test_an_unknown_provider_is_not_there(lying: Federation) -> None:
    assert (await lying.desk.get("/auth/external/nobody")).outcome == (404, "not_found")
    assert (await lying.desk.get("/internal/callback/nobody?state=x&code=y")).outcome == (404, "not_found")


async def test_s046_a_blocked_key_of_the_provider_signs_nobody_in(lying: Federation) -> None:
    lying.stub.key = ec.generate_private_key(ec.SECP256R1())
    lying.desk.clock.advance(10 * MINUTE)
    digest, host = spki_sha256(lying.stub.key.public_key()), lying.desk.service.host("federation")
    await host.db.write(lambda tx: host.blocked_keys.block(tx, digest, reason="copied", by="admin@LOCALHOST"))

    await refused(lying, "blocked")
    lying.stub.key = ec.generate_private_key(ec.SECP256R1())
    lying.desk.clock.advance(10 * MINUTE)
    assert (await lying.sign_in()).status == 303, "a new key of the provider is fetched"


async def test_the_session_of_a_sign_in_is_a_new_one_and_the_one_before_ends(lying: Federation) -> None:
    before = await lying.desk.cookie("ben")
    request = await lying.begin(cookie=before)

    after = await lying.arrive(code=lying.stub.code(request), state=request["state"], cookie=before)

    assert after.cookie != before
    assert (await lying.desk.get("/api/auth/me", cookie=before)).status == 401


METADATA: dict[str, tuple[dict[str, Any], str]] = {
    "issuer": ({"issuer": "https://elsewhere.example"}, "its issuer is"),
    "no-keys": ({"jwks_uri": None}, "no jwks_uri"),
    "no-token-endpoint": ({"token_endpoint": None}, "token_endpoint"),
    "endpoint-as-list": ({"token_endpoint": ["x"]}, "token_endpoint"),
    "script": ({"authorization_endpoint": "javascript:alert(1)"}, "https"),
    "plain-elsewhere": ({"token_endpoint": "http://elsewhere.example/token"}, "https"),
    "user-information": ({"authorization_endpoint": "https://a@elsewhere.example/"}, "https"),
}


@pytest.mark.parametrize("lie", sorted(METADATA))
async def test_metadata_that_is_not_that_of_the_provider_leads_nobody_anywhere(lying: Federation, lie: str) -> None:
    lying.stub.metadata, because = METADATA[lie]
    made: Any = lying.desk.service.kernel.hooks.instances["federation"]
    store, upstream = made.assembly(None).metadata, made.assembly(None).upstreams.get("partner")
    store.forget(upstream.id)

    page = await lying.start()

    assert (page.status, "Error 502" in page.text) == (502, True)
    with pytest.raises(Untrusted) as problem:
        await store.of(upstream)
    assert because in problem.value.cause
    store.forget(upstream.id)


async def test_metadata_is_kept_asked_for_again_and_used_when_it_cannot_be_had(lying: Federation) -> None:
    stub, clock = lying.stub, lying.desk.clock
    made: Any = lying.desk.service.kernel.hooks.instances["federation"]
    made.assembly(None).metadata.forget("partner")
    known = "/.well-known/openid-configuration"
    stub.fetched.clear()

    await lying.begin()
    await lying.begin()
    assert stub.fetched.count(known) == 1
    clock.advance(FRESH_SECONDS + 1)
    await lying.begin()
    assert stub.fetched.count(known) == 2
    stub.answer = lambda _request: web.Response(status=302, headers={"Location": known})
    clock.advance(FRESH_SECONDS + 1)
    await lying.begin()
    await lying.begin()
    assert stub.fetched.count(known) == 3, "one that failed is left alone"
    clock.advance(FAILED_SECONDS + 86_400)
    assert (await lying.start()).status == 503


async def test_a_provider_at_a_private_address_is_asked_only_where_the_configuration_says_so(tmp_path: Any) -> None:
    async with open_federation(tmp_path, table={"allow_private_hosts": False}) as opened:
        page = await opened.start()

        assert (page.status, opened.stub.fetched) == (503, [])


async def test_a_promised_iss_must_be_there(tmp_path: Any) -> None:
    async with open_federation(tmp_path) as opened:
        opened.stub.metadata = {"authorization_response_iss_parameter_supported": True}
        await opened.link("ann")

        await refused(opened, "no iss")
        request = await opened.begin()
        assert (await opened.arrive(code=opened.stub.code(request), state=request["state"], iss=opened.stub.url)).status == 303


async def test_beginnings_are_limited_by_address(tmp_path: Any) -> None:
    async with open_federation(tmp_path, server={"auth_rate_limit": 2}) as opened:
        for _ in range(2 * BEGINNINGS):
            await opened.begin()

        assert (await opened.start()).status == 429


async def test_max_age_needs_a_provider_that_tells_when(tmp_path: Any) -> None:
    async with open_federation(tmp_path) as opened:
        await opened.link("ann")
        waiting = request_of((await opened.desk.authorize(max_age="60")).location)["return_to"]
        now = opened.desk.clock.now() // 1_000_000
        for auth_time, status in ((now - 1000, 502), (None, 403), (now + 1000, 403), ("now", 403)):
            opened.stub.claims = {"auth_time": auth_time}
            answer = await opened.sign_in(waiting)
            assert answer.status == status
        opened.stub.claims = {"auth_time": now - 30}
        assert (await opened.sign_in(waiting)).location == waiting


async def test_claims_that_are_required_are_asked_for_and_checked(tmp_path: Any) -> None:
    async with open_federation(tmp_path, table={"require": {"department": "physics"}}) as opened:
        await opened.link("ann")
        opened.stub.userinfo = {"department": "physics"}
        assert (await opened.sign_in()).status == 303
        for department in ("chemistry", ["physics"], None):
            opened.stub.userinfo = {"department": department}
            assert (await opened.sign_in()).status == 403


async def test_userinfo_of_somebody_else_is_refused(tmp_path: Any) -> None:
    async with open_federation(tmp_path, table={"realm": "PARTNER.EXAMPLE"}) as opened:
        for userinfo in ({"sub": "other"}, {"sub": None}, ["x"]):
            opened.stub.userinfo = userinfo
            assert (await opened.sign_in()).status == 502


@pytest.mark.parametrize("token", ["a b", "a\x7fb", "a\nb"])
async def test_an_access_token_that_no_header_may_have_goes_nowhere(tmp_path: Any, token: str) -> None:
    async with open_federation(tmp_path, table={"realm": "PARTNER.EXAMPLE"}) as opened:
        opened.stub.claims = {"at_hash": None}
        opened.stub.token = lambda answer: {**answer, "access_token": token}

        await refused(opened, "characters that no header may have")
        assert [path for path, _, _ in opened.stub.asked if path.endswith("/userinfo")] == []


async def test_s102_a_state_is_of_the_provider_that_it_was_made_for(tmp_path: Any) -> None:
    async with open_federation(tmp_path, {"id": "second"}) as opened:
        for upstream in ("partner", "second"):
            await opened.link("ann", upstream=upstream)
        request = await opened.begin()
        code = opened.stub.code(request)

        assert (await opened.arrive(upstream="second", code=code, state=request["state"])).status == 400
        assert (await opened.arrive(code=code, state=request["state"])).status == 303


async def test_an_answer_with_neither_a_code_nor_an_error_signs_nobody_in(tmp_path: Any) -> None:
    async with open_federation(tmp_path) as opened:
        for query in ({}, {"code": "x" * 4097}):
            request = await opened.begin()
            assert (await opened.arrive(state=request["state"], **query)).status == 502
        assert opened.stub.asked == []
