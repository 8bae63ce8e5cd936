"""The device flow from the first question of a device to its refresh token, on both databases."""

from typing import Any
from urllib.parse import quote

import pytest
from security.idp_desk import BROWSER, SECRET, open_desk
from security.idp_device import API, DENIED, EXPIRED, GRANT, INVALID, PAGE, PENDING, SLOW, Device, device_of, entered, open_devices

from greatseal.testing.desk import bearer, hidden_fields
from greatseal_device_flow import requests
from greatseal_device_flow.tables import request as table

MINUTE = 60
WITHDRAWN = "/account/withdraw"


@pytest.fixture
async def flow(database_url: str, tmp_path: Any) -> Any:
    async with open_devices(tmp_path, database={"url": database_url}) as (desk, device, ann):
        yield desk, device, ann


@pytest.fixture
async def plain(tmp_path: Any) -> Any:
    """Where the database makes no difference."""
    async with open_devices(tmp_path, "resource-indicators", shown="Ann Example") as (desk, device, ann):
        yield desk, device, ann


async def test_idp_196_idp_209_a_device_gets_its_codes(plain: Any) -> None:
    desk, device, _ = plain

    answer = await device.ask()

    url = f"{desk.url}{PAGE}"
    user_code = answer.json["user_code"]
    assert (answer.status, answer.headers["Cache-Control"], answer.headers["Pragma"]) == (200, "no-store", "no-cache")
    assert set(answer.json) == {"device_code", "user_code", "verification_uri", "verification_uri_complete", "expires_in", "interval"}
    assert (answer.json["expires_in"], answer.json["interval"]) == (600, 5)
    assert (answer.json["verification_uri"], answer.json["verification_uri_complete"]) == (url, f"{url}?user_code={user_code}")
    assert len(user_code) == 9
    assert len(answer.json["device_code"]) >= 43


async def test_idp_209_what_is_asked_is_cut_and_what_cannot_be_had_is_refused(plain: Any) -> None:
    desk, device, _ = plain
    confidential = await device_of(desk, token_endpoint_auth_method="client_secret_post", client_secret=SECRET)
    without = await device_of(desk, grant_types=["refresh_token"])

    async def proven(secret: str) -> Any:
        form = {"client_id": confidential.client["client_id"], "client_secret": secret, "scope": "openid"}
        return await desk.ask("POST", "/device_authorization", data=form)

    assert (await device.ask(scope="openid made-up directory.read")).status == 200
    assert (await device.ask(scope="made-up")).outcome == (400, "invalid_scope")
    assert (await device.ask(scope=None)).outcome == (400, "invalid_scope")
    assert (await device.ask(scope='"')).outcome == (400, "invalid_scope")
    assert (await device.ask(max_age="soon")).outcome == (400, "invalid_request")
    assert (await without.ask()).outcome == (400, "unauthorized_client")
    assert (await proven(SECRET)).status == 200
    assert (await proven("wrong")).outcome == (401, "invalid_client")
    assert (await desk.ask("POST", "/device_authorization", data={"scope": "openid"})).outcome == (401, "invalid_client")
    assert (await desk.ask("GET", "/device_authorization")).status == 405


async def test_idp_188_idp_197_a_person_types_the_code_and_allows_the_device(flow: Any) -> None:
    desk, device, ann = flow
    user_code = await device.begin()
    assert (await device.poll()).outcome == PENDING

    page = await entered(desk, ann, user_code.lower().replace("-", " "))
    assert f'<p class="code" id="code">{user_code}</p>' in page.text
    assert "Connect The TV?" in page.text
    assert "See your name and profile" in page.text
    desk.clock.advance(5)
    assert (await device.poll()).outcome == PENDING, "seeing it allows nothing"
    done = await desk.ask("POST", PAGE, cookie=ann, headers=BROWSER, data={**hidden_fields(page), "decision": "approve"})
    assert (done.status, "The device is connected" in done.text) == (200, True)

    desk.clock.advance(5)
    tokens = (await device.poll()).json
    assert tokens["scope"] == "openid profile offline_access"
    assert (await desk.userinfo(tokens["access_token"])).json["sub"].startswith("ann@")
    assert tokens["id_token"]
    assert (await desk.refresh(tokens["refresh_token"], by=device.client)).status == 200
    assert (await device.poll()).outcome == INVALID
    assert [row.sub.partition("@")[0] for row in await desk.events("device_approved", "consent_granted")] == ["ann"] * 2


async def test_idp_197_who_denies_a_device_gives_it_nothing(flow: Any) -> None:
    desk, device, ann = flow
    user_code = await device.begin()

    page = await desk.ask("GET", f"{PAGE}?user_code={user_code}", cookie=ann, headers=BROWSER)
    done = await desk.ask("POST", PAGE, cookie=ann, headers=BROWSER, data={**hidden_fields(page), "decision": "deny"})

    assert "The device is not connected" in done.text
    assert (await device.poll()).outcome == DENIED
    assert (await device.decide(ann)).outcome == (409, "conflict")
    assert await desk.events("consent_granted") == []
    (event,) = await desk.events("device_denied")
    assert (event.outcome, event.client_id) == ("failure", device.client["client_id"])


async def test_idp_122_idp_255_idp_256_the_same_in_json(flow: Any) -> None:
    desk, device, ann = flow
    user_code = await device.begin()
    place = f"{API}?user_code={quote(user_code.lower())}"

    found = (await desk.ask("GET", place, cookie=ann)).json
    assert {name: found[name] for name in ("user_code", "client_id", "client_name", "status", "details")} == {
        "user_code": user_code, "client_id": device.client["client_id"], "client_name": "The TV", "status": "pending", "details": [],
    }  # fmt: skip
    assert [scope["name"] for scope in found["scopes"]] == ["openid", "profile", "offline_access"]
    assert found["expires_at"] == desk.clock.now() // 1_000_000 + 600
    assert (await desk.ask("GET", place)).status == 401
    assert (await desk.ask("GET", API, cookie=ann)).outcome == (400, "invalid_request")
    assert (await desk.ask("GET", f"{API}?user_code=BBBB-BBBB", cookie=ann)).outcome == (404, "not_found")
    assert (await device.decide(ann, "maybe")).status == 400
    assert (await device.decide(ann)).json == {"status": "approved"}
    assert (await device.decide(ann)).outcome == (409, "conflict")
    assert (await desk.ask("GET", place, cookie=ann)).outcome == (409, "conflict")
    assert (await device.poll()).status == 200
    await device.begin()
    assert (await device.decide(ann, "deny")).json == {"status": "denied"}


async def test_a_device_that_polls_too_fast_is_slowed_down_and_the_first_poll_never_is(flow: Any) -> None:
    desk, device, ann = flow
    await device.begin()
    outcomes = []
    for pause in (0, 4, 9, 14, 15, 15):
        desk.clock.advance(pause)
        outcomes.append((await device.poll()).outcome)
    desk.clock.step(-3600)
    after = await device.poll()

    assert outcomes == [PENDING, SLOW, SLOW, SLOW, SLOW, SLOW]
    assert after.outcome == SLOW, "a clock that was set back helps nobody"
    await device.begin()
    for pause, outcome in ((0, PENDING), (4, SLOW), (10, PENDING), (10, PENDING), (5, SLOW)):
        desk.clock.advance(pause)
        assert (await device.poll()).outcome == outcome
    await device.decide(ann)
    assert (await device.poll()).status == 200, "slow_down is a variant of authorization_pending, which it is no more (RFC 8628 s3.5)"


async def test_codes_expire_for_the_device_and_for_the_person(flow: Any) -> None:
    desk, device, ann = flow
    approved = Device(desk, device.client)
    await approved.begin()
    await approved.decide(ann)
    user_code = await device.begin()
    page = await entered(desk, ann, user_code)

    desk.clock.advance(10 * MINUTE)

    late = await desk.ask("POST", PAGE, cookie=ann, headers=BROWSER, data={**hidden_fields(page), "decision": "approve"})
    assert (late.status, "No device waits with this code" in late.text) == (404, True)
    assert (await device.poll()).outcome == EXPIRED
    assert (await approved.poll()).outcome == EXPIRED
    sweep = desk.service.host("device-flow")._plugin.requests(desk.service.host("device-flow")).sweep
    await sweep()
    assert len(await desk.rows(table)) == 2, "the device still learns that it is too late"
    desk.clock.advance(2 * 3600)
    await sweep()
    assert await desk.rows(table) == []
    assert (await device.poll()).outcome == INVALID


async def test_who_is_not_signed_in_comes_back_with_the_code(plain: Any) -> None:
    desk, device, _ = plain
    user_code = await device.begin()

    for method, sent in (("GET", {}), ("POST", {"data": {"user_code": user_code}})):
        asked = f"{PAGE}?user_code={user_code}" if method == "GET" else PAGE
        led = await desk.ask(method, asked, headers=BROWSER, **sent)
        assert (led.status, led.location) == (303, f"/ui/auth/login?return_to=%2Fdevice%3Fuser_code%3D{user_code}")
    page = await desk.ask("GET", led.location, headers=BROWSER)
    form = {**hidden_fields(page), "username": "ann", "password": "correct horse battery"}
    signed_in = await desk.ask("POST", "/login", headers=BROWSER, cookie=page.cookies[0].partition(";")[0], data=form)
    assert (signed_in.status, signed_in.location) == (303, f"/device?user_code={user_code}")
    shown = await desk.ask("GET", signed_in.location, cookie=signed_in.cookie, headers=BROWSER)
    assert f'id="code">{user_code}</p>' in shown.text
    assert (await desk.ask("GET", PAGE, headers=BROWSER)).location == "/ui/auth/login?return_to=%2Fdevice"


async def test_max_age_and_acr_of_the_request_are_kept(plain: Any) -> None:
    desk, device, ann = plain
    essential = '{"id_token":{"acr":{"essential":true,"values":["urn:strong"]}}}'

    async def page(cookie: str, user_code: str) -> Any:
        return await desk.ask("GET", f"{PAGE}?user_code={user_code}", cookie=cookie, headers=BROWSER)

    desk.clock.advance(MINUTE)
    user_code = await device.begin(max_age="30")
    assert (await page(ann, user_code)).location.startswith("/ui/auth/login")
    assert (await device.decide(ann)).outcome == (401, "login_required")
    desk.clock.advance(40)
    again = await desk.cookie("ann")
    desk.clock.advance(40)
    assert (await page(again, user_code)).status == 200, "somebody signed in after the device had asked"
    desk.clock.advance(1)
    strong = await device.begin(claims=essential)
    assert (await page(again, strong)).location.startswith("/ui/auth/login")
    desk.clock.advance(1)
    again = await desk.cookie("ann")
    refused = await page(again, strong)
    assert (refused.status, "unmet_authentication_requirements" in refused.text) == (400, True)
    assert (await device.decide(again)).outcome == (400, "unmet_authentication_requirements")
    assert (await device.decide(again, "deny")).status == 200
    limited = await device_of(desk, default_max_age=30)
    desk.clock.advance(MINUTE)
    await limited.begin()
    assert (await limited.decide(again)).outcome == (401, "login_required")


async def test_rfc_8707_at_a_device(plain: Any) -> None:
    desk, _, ann = plain
    device = await device_of(desk, resources=["https://api.example/"])

    assert (await device.ask(resource="https://other.example/")).outcome == (400, "invalid_target")
    await device.begin(resource="https://api.example/")
    await device.decide(ann)
    assert (await device.poll(resource="https://other.example/")).outcome == (400, "invalid_target")
    tokens = (await device.poll()).json
    assert (await desk.introspect(tokens["access_token"], by=desk.client)) == {"active": False}, "it is for another resource"
    claims = desk.provider.signing.verify(tokens["access_token"], typ=frozenset({"at+jwt"}))
    assert claims["aud"] == "https://api.example/"


async def test_what_was_allowed_outlives_the_browser_and_ends_when_it_is_taken_back(flow: Any) -> None:
    desk, device, ann = flow
    await device.begin()
    await device.decide(ann)
    await desk.ask("POST", "/api/auth/logout", cookie=ann)

    tokens = (await device.poll()).json
    assert (await desk.userinfo(tokens["access_token"])).status == 200
    ann = await desk.cookie("ann")
    short = await Device(desk, device.client).tokens(ann, scope="openid")
    pending = Device(desk, device.client)
    await pending.begin()
    await pending.decide(ann)
    desk.clock.advance(1)
    account = await desk.ask("GET", "/account", cookie=ann, headers=BROWSER)
    assert "The TV" in account.text
    taken = await desk.ask("POST", WITHDRAWN, cookie=ann, headers=BROWSER, data=hidden_fields(account))

    assert taken.status in {200, 303}, taken.text
    await desk.provider.endings.carry_on()
    for ended in (tokens, short):
        assert (await desk.userinfo(ended["access_token"])).status == 401
    assert (await desk.refresh(tokens["refresh_token"], by=device.client)).outcome == INVALID
    assert (await pending.poll()).outcome == INVALID


async def test_claims_that_were_asked_for_by_name_are_released(plain: Any) -> None:
    desk, device, ann = plain
    tokens = await device.tokens(ann, scope="openid", claims='{"userinfo":{"name":null}}')

    assert tokens["scope"] == "openid"
    assert "name" in (await desk.ask("GET", "/userinfo", headers=bearer(tokens["access_token"]))).json


async def test_without_the_plugin_nothing_says_device(tmp_path: Any) -> None:
    documents = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    async with open_desk(tmp_path / "without") as desk:
        before = [(await desk.get(document)).json for document in documents]
        assert (await desk.form("/token", {"grant_type": GRANT, "device_code": "x"})).outcome == (400, "unsupported_grant_type")
        assert (await desk.register(grant_types=[GRANT])).outcome == (400, "invalid_client_metadata")
        for path in ("/device_authorization", PAGE, API):
            assert (await desk.get(path)).status == 404
        assert (await desk.get("/api/auth/info")).json["features"]["device_flow"] is False
    async with open_desk(tmp_path / "with", "device-flow") as desk:
        after = [(await desk.get(document)).json for document in documents]
        assert (await desk.get("/api/auth/info")).json["features"]["device_flow"] is True
    for one, other in zip(before, after, strict=True):
        assert other["device_authorization_endpoint"] == f"{other['issuer']}/device_authorization"
        assert GRANT in other["grant_types_supported"]
        assert set(other) - set(one) == {"device_authorization_endpoint"}
        assert set(other["grant_types_supported"]) - set(one["grant_types_supported"]) == {GRANT}


async def test_a_user_code_that_is_taken_is_not_given_twice(plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, device, _ = plain
    codes = iter(["BBBB-BBBB", "BBBB-BBBB", "CCCC-CCCC", *["BBBB-BBBB"] * requests.TRIES])
    monkeypatch.setattr("greatseal_device_flow.user_codes.make", lambda: next(codes))

    assert [await device.begin(), await device.begin()] == ["BBBB-BBBB", "CCCC-CCCC"]
    assert (await device.ask()).status == 503
