"""CIBA from the first question of a client to its refresh token, by poll and by ping, on both databases."""

import asyncio
from typing import Any

import pytest
from security.idp_ciba import (
    API,
    DENIED,
    ENDPOINT,
    EXPIRED,
    GRANT,
    INVALID,
    MINE,
    PAGE,
    PENDING,
    SLOW,
    caller_of,
    notified,
    open_callers,
    registration,
)
from security.idp_desk import BROWSER, open_desk

from greatseal.testing.desk import hidden_fields
from greatseal_ciba.tables import request as table

MINUTE = 60
OWN = {"allow_private_notification_hosts": True}


@pytest.fixture
async def flow(database_url: str, tmp_path: Any) -> Any:
    async with open_callers(tmp_path, database={"url": database_url}) as (desk, caller, ann):
        yield desk, caller, ann


@pytest.fixture
async def plain(tmp_path: Any) -> Any:
    """Where the database makes no difference."""
    async with open_callers(tmp_path, "resource-indicators") as (desk, caller, ann):
        yield desk, caller, ann


def plugin_of(desk: Any) -> Any:
    return desk.service.host("ciba")._plugin


async def test_a_client_gets_its_auth_req_id(plain: Any) -> None:
    _, caller, _ = plain

    answer = await caller.ask()

    assert (answer.status, answer.headers["Cache-Control"], answer.headers["Pragma"]) == (200, "no-store", "no-cache")
    assert set(answer.json) == {"auth_req_id", "expires_in", "interval"}
    assert (answer.json["expires_in"], answer.json["interval"]) == (300, 5)
    assert len(answer.json["auth_req_id"]) >= 43
    assert (await caller.ask(requested_expiry="60")).json["expires_in"] == 60
    assert (await caller.ask(requested_expiry="999999")).json["expires_in"] == 300


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({"login_hint": None}, "invalid_request"),
        ({"id_token_hint": "x"}, "invalid_request"),
        ({"login_hint_token": "x"}, "invalid_request"),
        ({"login_hint": None, "login_hint_token": "x"}, "invalid_request"),
        ({"login_hint": None, "id_token_hint": "x"}, "invalid_request"),
        ({"login_hint": ("ann", "ben")}, "invalid_request"),
        ({"login_hint": "nobody"}, "unknown_user_id"),
        ({"login_hint": "ann@ELSEWHERE"}, "unknown_user_id"),
        ({"login_hint": "a" * 257}, "unknown_user_id"),
        ({"login_hint": "ann\u0000"}, "unknown_user_id"),
        ({"scope": "profile"}, "invalid_scope"),
        ({"scope": None}, "invalid_scope"),
        ({"scope": "made-up"}, "invalid_scope"),
        ({"binding_message": "x" * 101}, "invalid_binding_message"),
        ({"binding_message": "a\nb"}, "invalid_binding_message"),
        ({"binding_message": "\u202eW4SCT"}, "invalid_binding_message"),
        ({"requested_expiry": "0"}, "invalid_request"),
        ({"requested_expiry": "-1"}, "invalid_request"),
        ({"requested_expiry": "soon"}, "invalid_request"),
        ({"requested_expiry": "1" * 20}, "invalid_request"),
        ({"max_age": "soon"}, "invalid_request"),
    ],
)
async def test_what_is_wrong_with_a_request_is_said(plain: Any, form: dict[str, Any], error: str) -> None:
    desk, caller, _ = plain
    sent = {"scope": "openid", "login_hint": "ann", **form}
    pairs = [(name, one) for name, value in sent.items() for one in (value if isinstance(value, tuple) else (value,))]

    answer = await desk.form(ENDPOINT, pairs, by=caller.client)

    assert answer.outcome == (400, error)
    assert await desk.rows(table) == []


async def test_who_may_not_ask_is_told_so(plain: Any) -> None:
    desk, caller, _ = plain
    without = await caller_of(desk, grant_types=["refresh_token"])

    assert (await without.ask()).outcome == (400, "unauthorized_client")
    assert (await desk.ask("POST", ENDPOINT, data={"scope": "openid", "login_hint": "ann"})).outcome == (401, "invalid_client")
    forged = {"client_id": caller.client["client_id"], "scope": "openid", "login_hint": "ann"}
    assert (await desk.ask("POST", ENDPOINT, data=forged)).outcome == (401, "invalid_client")
    assert (await desk.ask("GET", ENDPOINT)).status == 405


async def test_a_person_sees_who_waits_and_allows_it(flow: Any) -> None:
    desk, caller, ann = flow
    await caller.begin(binding_message="W4SCT")
    assert (await caller.poll()).outcome == PENDING
    ben = await desk.cookie("ben")

    listed = await desk.ask("GET", PAGE, cookie=ann, headers=BROWSER)
    (waiting,) = await caller.waiting(ann)
    place = f"{PAGE}/{waiting['id']}"
    assert f'href="{place}">The bank</a><small>W4SCT</small>' in listed.text
    assert 'id="nothing"' in (await desk.ask("GET", PAGE, cookie=ben, headers=BROWSER)).text
    shown = await desk.ask("GET", place, cookie=ann, headers=BROWSER)
    assert '<p class="code" id="binding-message">W4SCT</p>' in shown.text
    assert "See your name and profile" in shown.text
    desk.clock.advance(5)
    assert (await caller.poll()).outcome == PENDING, "seeing it allows nothing"
    done = await desk.ask("POST", place, cookie=ann, headers=BROWSER, data={**hidden_fields(shown), "decision": "approve"})
    assert (done.status, "You allowed it" in done.text) == (200, True)

    tokens = (await caller.poll()).json
    assert tokens["scope"] == "openid profile offline_access"
    claims = desk.provider.signing.identity(tokens["id_token"])
    assert (claims["sub"].partition("@")[0], claims["aud"]) == ("ann", caller.client["client_id"])
    assert (await desk.userinfo(tokens["access_token"])).json["sub"] == claims["sub"]
    assert (await desk.refresh(tokens["refresh_token"], by=caller.client)).status == 200
    assert (await caller.poll()).outcome == INVALID
    assert [row.sub.partition("@")[0] for row in await desk.events("ciba_approved", "consent_granted")] == ["ann"] * 2


async def test_who_denies_gives_nothing(flow: Any) -> None:
    desk, caller, ann = flow
    await caller.begin()
    (waiting,) = await caller.waiting(ann)
    place = f"{PAGE}/{waiting['id']}"

    page = await desk.ask("GET", place, cookie=ann, headers=BROWSER)
    assert "binding-message" not in page.text
    done = await desk.ask("POST", place, cookie=ann, headers=BROWSER, data={**hidden_fields(page), "decision": "deny"})

    assert "You denied it" in done.text
    assert (await caller.poll()).outcome == DENIED
    again = await desk.ask("POST", place, cookie=ann, headers=BROWSER, data={**hidden_fields(page), "decision": "approve"})
    assert (again.status, "was answered before" in again.text) == (409, True)
    assert (await desk.ask("GET", place, cookie=ann, headers=BROWSER)).status == 409
    assert await desk.events("consent_granted") == []
    (event,) = await desk.events("ciba_denied")
    assert (event.outcome, event.client_id) == ("failure", caller.client["client_id"])


async def test_the_same_in_json(flow: Any) -> None:
    desk, caller, ann = flow
    await caller.begin(binding_message="1")
    desk.clock.advance(1)
    await caller.begin()

    second, first = await caller.waiting(ann)
    assert (first["binding_message"], second["binding_message"]) == ("1", None)
    assert (second["client_id"], second["client_name"]) == (caller.client["client_id"], "The bank")
    assert second["expires_at"] == desk.clock.now() // 1_000_000 + 300
    place = f"{API}/{second['id']}"
    found = (await desk.ask("GET", place, cookie=ann)).json
    assert found == {**second, "details": [], "scopes": found["scopes"]}
    assert [scope["name"] for scope in found["scopes"]] == ["openid", "profile", "offline_access"]
    assert [(await desk.ask("GET", one)).status for one in (API, place)] == [401, 401]
    assert (await desk.ask("GET", f"{API}/x", cookie=ann)).outcome == (404, "not_found")
    assert (await caller.decide(ann, "maybe")).status == 400
    assert (await caller.decide(ann, id=second["id"])).json == {"status": "approved"}
    assert (await caller.decide(ann, id=second["id"])).outcome == (409, "conflict")
    assert (await caller.poll()).status == 200
    assert (await caller.decide(ann, "deny")).json == {"status": "denied"}
    assert await caller.waiting(ann) == []


async def test_an_id_token_names_the_person_also_when_it_has_expired(flow: Any) -> None:
    desk, caller, ann = flow
    id_token = (await caller.tokens(ann))["id_token"]
    another = await caller_of(desk)
    desk.clock.advance(2 * 3600)

    assert (await another.ask(login_hint=None, id_token_hint=id_token)).outcome == (400, "invalid_request")
    await caller.begin(login_hint=None, id_token_hint=id_token)
    assert len(await caller.waiting(await desk.cookie("ann"))) == 1


async def test_a_client_that_polls_too_fast_is_slowed_down_and_after_the_decision_it_is_not(flow: Any) -> None:
    desk, caller, ann = flow
    await caller.begin()
    outcomes = []
    for pause in (0, 4, 10, 1):
        desk.clock.advance(pause)
        outcomes.append((await caller.poll()).outcome)
    assert outcomes == [PENDING, SLOW, PENDING, SLOW]
    desk.clock.step(-3600)
    assert (await caller.poll()).outcome == SLOW, "a clock that was set back helps nobody"
    await caller.decide(ann)
    assert (await caller.poll()).status == 200


async def test_requests_expire_for_client_and_person(flow: Any) -> None:
    desk, caller, ann = flow
    await caller.begin()
    approved = caller.asked["auth_req_id"]
    await caller.decide(ann)
    await caller.begin()
    (waiting,) = await caller.waiting(ann)
    place = f"{PAGE}/{waiting['id']}"
    page = await desk.ask("GET", place, cookie=ann, headers=BROWSER)

    desk.clock.advance(5 * MINUTE)

    late = await desk.ask("POST", place, cookie=ann, headers=BROWSER, data={**hidden_fields(page), "decision": "approve"})
    assert (late.status, "may have expired" in late.text) == (404, True)
    assert await caller.waiting(ann) == []
    assert [(await caller.poll()).outcome, (await caller.poll(approved)).outcome] == [EXPIRED] * 2
    sweep = plugin_of(desk).requests(desk.service.host("ciba")).sweep
    await sweep()
    assert len(await desk.rows(table)) == 2, "the client still learns that it is too late"
    desk.clock.advance(2 * 3600)
    await sweep()
    assert await desk.rows(table) == []
    assert (await caller.poll()).outcome == INVALID


async def test_who_is_not_signed_in_comes_back_to_the_request(plain: Any) -> None:
    desk, caller, ann = plain
    await caller.begin()
    (waiting,) = await caller.waiting(ann)
    place = f"{PAGE}/{waiting['id']}"

    for method in ("GET", "POST"):
        led = await desk.ask(method, place, headers=BROWSER, **({"data": {"decision": "approve"}} if method == "POST" else {}))
        assert (led.status, led.location) == (303, f"/ui/auth/login?return_to=%2Fciba%2F{waiting['id']}")
    assert (await desk.ask("GET", PAGE, headers=BROWSER)).location == "/ui/auth/login?return_to=%2Fciba"
    assert (
        await desk.ask("GET", f"{PAGE}/a%2F..%2F%2Fevil", headers=BROWSER)
    ).location == "/ui/auth/login?return_to=%2Fciba%2Fa%252F..%252F%252Fevil"
    desk.clock.advance(1)
    await caller.begin(max_age="30")
    desk.clock.advance(MINUTE)
    (newest, _) = await caller.waiting(ann)
    place = f"{PAGE}/{newest['id']}"
    assert (await desk.ask("GET", place, cookie=ann, headers=BROWSER)).location.startswith("/ui/auth/login")
    assert (await caller.decide(ann)).outcome == (401, "login_required")
    again = await desk.cookie("ann")
    shown = await desk.ask("GET", place, cookie=again, headers=BROWSER)
    assert shown.status == 200
    desk.clock.advance(MINUTE)
    page = {**hidden_fields(shown), "decision": "approve"}
    late = await desk.ask("POST", place, cookie=again, headers=BROWSER, data=page)
    assert "You allowed it" in late.text, "somebody signed in after the client had asked"


async def test_rfc_8707_and_claims_go_with_the_request(plain: Any) -> None:
    desk, _, ann = plain
    caller = await caller_of(desk, resources=["https://api.example/"])

    assert (await caller.ask(resource="https://other.example/")).outcome == (400, "invalid_target")
    tokens = await caller.tokens(ann, resource="https://api.example/", scope="openid", claims='{"userinfo":{"name":null}}')
    claims = desk.provider.signing.verify(tokens["access_token"], typ=frozenset({"at+jwt"}))
    assert claims["aud"] == "https://api.example/"


async def test_a_client_that_is_gone_waits_for_nobody(plain: Any) -> None:
    desk, caller, ann = plain
    await caller.begin()
    (waiting,) = await caller.waiting(ann)
    await desk.ask("DELETE", f"/api/admin/clients/{caller.client['client_id']}", cookie=desk.admin)

    assert await caller.waiting(ann) == []
    assert (await caller.decide(ann, id=waiting["id"])).outcome == (404, "not_found")


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings go out when the test says so."""
    monkeypatch.setattr("greatseal_ciba.pings.Pings.begin", lambda _self: None)


async def test_a_ping_goes_out_by_itself(tmp_path: Any) -> None:
    async with notified() as endpoint, open_callers(tmp_path, oauth=OWN) as (desk, _, ann):
        ping = {"backchannel_token_delivery_mode": "ping", "backchannel_client_notification_endpoint": endpoint.url}
        caller = await caller_of(desk, **ping)
        handle = await caller.begin()
        await caller.decide(ann)

        async with asyncio.timeout(30):
            await endpoint.came.wait()
        assert endpoint.pings == [(f"Bearer {MINE}", {"auth_req_id": handle})]


@pytest.mark.usefixtures("by_hand")
async def test_a_client_is_pinged_when_its_person_has_decided(database_url: str, tmp_path: Any) -> None:
    async with notified() as endpoint, open_callers(tmp_path, database={"url": database_url}, oauth=OWN) as (desk, _, ann):
        ping = {"backchannel_token_delivery_mode": "ping", "backchannel_client_notification_endpoint": endpoint.url}
        caller, deliver = await caller_of(desk, **ping), plugin_of(desk).pings(desk.service.host("ciba")).deliver
        assert (await caller.ask(client_notification_token=None)).outcome == (400, "invalid_request")
        assert (await caller.ask(client_notification_token="a b")).outcome == (400, "invalid_request")
        assert (await caller.ask(client_notification_token="a" * 1025)).outcome == (400, "invalid_request")
        handle = await caller.begin()
        assert (await caller.poll()).outcome == PENDING
        await deliver()
        assert endpoint.pings == []
        (row,) = await desk.rows(table)
        assert MINE.encode() not in bytes(row.notification)
        assert handle.encode() not in bytes(row.notification)

        endpoint.statuses = [500, 302, 204]
        await caller.decide(ann)
        for pause in (0, 5, 20, 100):
            desk.clock.advance(pause)
            await deliver()

        assert endpoint.pings == [(f"Bearer {MINE}", {"auth_req_id": handle})] * 3
        (row,) = await desk.rows(table)
        assert (row.notification, row.due_at) == (None, None)
        assert [event.outcome for event in await desk.events("ciba_ping")] == ["failure", "failure", "success"]
        assert (await caller.poll(handle)).status == 200
        await caller.begin()
        await caller.decide(ann, "deny")
        await deliver()
        assert len(endpoint.pings) == 4
        endpoint.statuses = [500]
        await caller.begin()
        await caller.decide(ann)
        for pause in (0, 5, 20, 60, 100):
            desk.clock.advance(pause)
            await deliver()
        assert len(endpoint.pings) == 8, "four attempts, and then the client polls"
        assert [row.due_at for row in await desk.rows(table)] == [None] * 3


@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize(("status", "attempts"), [(401, 1), (404, 1), (408, 4), (429, 4), (503, 4)])
async def test_a_client_that_refuses_a_ping_is_left_alone(tmp_path: Any, status: int, attempts: int) -> None:
    async with notified() as endpoint, open_callers(tmp_path, oauth=OWN) as (desk, _, ann):
        ping = {"backchannel_token_delivery_mode": "ping", "backchannel_client_notification_endpoint": endpoint.url}
        caller, deliver = await caller_of(desk, **ping), plugin_of(desk).pings(desk.service.host("ciba")).deliver
        endpoint.statuses = [status]
        await caller.begin()
        await caller.decide(ann)
        for pause in (0, 5, 20, 60, 100):
            desk.clock.advance(pause)
            await deliver()

        assert len(endpoint.pings) == attempts
        assert {event.outcome for event in await desk.events("ciba_ping")} == {"failure"}
        (row,) = await desk.rows(table)
        assert (row.notification, row.due_at) == (None, None)


@pytest.mark.usefixtures("by_hand")
async def test_a_ping_is_sent_once_by_two_who_deliver(tmp_path: Any) -> None:
    async with notified() as endpoint, open_callers(tmp_path, oauth=OWN) as (desk, _, ann):
        ping = {"backchannel_token_delivery_mode": "ping", "backchannel_client_notification_endpoint": endpoint.url}
        caller, pings = await caller_of(desk, **ping), plugin_of(desk).pings(desk.service.host("ciba"))
        await caller.begin()
        await caller.decide(ann)
        (row,) = await desk.rows(table)

        await asyncio.gather(*(pings._deliver_one(row.id) for _ in range(5)))

        assert len(endpoint.pings) == 1


@pytest.mark.usefixtures("by_hand")
async def test_a_ping_goes_to_no_private_address_and_to_no_client_that_is_gone(tmp_path: Any) -> None:
    async with notified() as endpoint, open_callers(tmp_path) as (desk, _, ann):
        ping = {"backchannel_token_delivery_mode": "ping", "backchannel_client_notification_endpoint": endpoint.url}
        caller, deliver = await caller_of(desk, **ping), plugin_of(desk).pings(desk.service.host("ciba")).deliver
        await caller.begin()
        await caller.decide(ann)
        await deliver()

        assert endpoint.pings == []
        (event,) = await desk.events("ciba_ping")
        assert "not public" in event.detail
        await desk.ask("DELETE", f"/api/admin/clients/{caller.client['client_id']}", cookie=desk.admin)
        desk.clock.advance(5)
        await deliver()
        assert [row.due_at for row in await desk.rows(table)] == [None]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"backchannel_token_delivery_mode": None}, "backchannel_token_delivery_mode"),
        ({"backchannel_token_delivery_mode": "push"}, "backchannel_token_delivery_mode"),
        ({"backchannel_token_delivery_mode": "ping"}, "backchannel_client_notification_endpoint"),
        ({"backchannel_client_notification_endpoint": "http://rp.example/cb"}, "backchannel_client_notification_endpoint"),
        ({"backchannel_client_notification_endpoint": "https://rp.example/#cb"}, "backchannel_client_notification_endpoint"),
        ({"backchannel_client_notification_endpoint": "https://[::1"}, "backchannel_client_notification_endpoint"),
        ({"backchannel_client_notification_endpoint": "https:///x"}, "backchannel_client_notification_endpoint"),
        ({"backchannel_client_notification_endpoint": "x" * 3000}, "backchannel_client_notification_endpoint"),
        ({"backchannel_user_code_parameter": True}, "backchannel_user_code_parameter"),
        ({"token_endpoint_auth_method": "none"}, "token_endpoint_auth_method"),
    ],
)
async def test_what_a_client_registers_is_checked(plain: Any, changes: dict[str, Any], field: str) -> None:
    desk, caller, _ = plain

    answer = await desk.register(**registration(**changes))

    assert answer.outcome == (400, "invalid_client_metadata")
    assert answer.json["error_description"].startswith(field)
    if field != "token_endpoint_auth_method":
        assert (await desk.put(caller.client, **changes)).outcome == (400, "invalid_client_metadata")


async def test_without_the_plugin_nothing_says_ciba(tmp_path: Any) -> None:
    documents = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    async with open_desk(tmp_path / "without") as desk:
        before = [(await desk.get(document)).json for document in documents]
        assert (await desk.form("/token", {"grant_type": GRANT, "auth_req_id": "x"})).outcome == (400, "unsupported_grant_type")
        assert (await desk.register(grant_types=[GRANT])).outcome == (400, "invalid_client_metadata")
        for path in (ENDPOINT, PAGE, API):
            assert (await desk.get(path)).status == 404
        assert PAGE not in (await desk.ask("GET", "/", headers=BROWSER)).text
    async with open_desk(tmp_path / "with", "ciba") as desk:
        after = [(await desk.get(document)).json for document in documents]
        assert f'{PAGE}"' in (await desk.ask("GET", "/", headers=BROWSER)).text
    added = {
        "backchannel_authentication_endpoint": "/bc-authorize",
        "backchannel_token_delivery_modes_supported": ["poll", "ping"],
        "backchannel_user_code_parameter_supported": False,
    }
    for one, other in zip(before, after, strict=True):
        assert other["backchannel_authentication_endpoint"] == f"{other['issuer']}{ENDPOINT}"
        assert {name: other[name] for name in added if name != "backchannel_authentication_endpoint"} == {
            name: value for name, value in added.items() if name != "backchannel_authentication_endpoint"
        }
        assert set(other) - set(one) == set(added)
        assert set(other["grant_types_supported"]) - set(one["grant_types_supported"]) == {GRANT}


async def test_what_is_forgotten_leaves_in_bites(plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, caller, _ = plain
    monkeypatch.setattr("greatseal.polling.BITE", 1)
    for _ in range(3):
        await caller.begin()
    desk.clock.advance(2 * 3600)
    await plugin_of(desk).requests(desk.service.host("ciba")).sweep()

    assert await desk.rows(table) == []
