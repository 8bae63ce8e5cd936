"""Pushed authorization requests (RFC 9126)."""

import asyncio
import json
from urllib.parse import quote, unquote

import pytest

from greatseal.testing import FakeClock
from greatseal.testing.desk import hidden_fields
from greatseal_idp import tables as t

URN = "urn:ietf:params:oauth:request_uri:"


async def test_idp_195_a_pushed_request_is_used_at_authorize(desk, app, cookie):
    pushed = await app.push()

    assert pushed.status == 201
    assert pushed.headers["Cache-Control"] == "no-store"
    assert pushed.json.keys() == {"request_uri", "expires_in"}
    assert pushed.json["request_uri"].startswith(URN)
    assert pushed.json["expires_in"] == 60
    await app.allowed(cookie)
    answer = await present(desk, app, pushed, cookie)
    assert app.told(answer)["code"]
    assert app.told(answer)["state"] == "st/a+te"


async def present(desk, app, pushed, cookie="", more=""):
    where = f"/authorize?client_id={app.client_id}&request_uri={quote(pushed.json['request_uri'])}{more}"
    return await desk.get(where, cookie=cookie)


async def test_s020_what_was_pushed_wins(desk, app, cookie):
    pushed = await app.push(scope="openid")
    await app.allowed(cookie, scope="openid profile email")

    answer = await present(desk, app, pushed, cookie, "&scope=email&state=other&redirect_uri=https://evil.example/&response_type=token")

    assert app.told(answer)["state"] == "st/a+te"
    assert (await app.redeem(app.told(answer)["code"])).json["scope"] == "openid"


async def test_s008_a_parameter_given_twice_is_refused(desk, app):
    twice = [*app.parameters().items(), ("x", "1"), ("x", "2")]

    answer = await desk.post("/par", data=twice, headers=app.credentials)

    assert (answer.status, answer.json["error"]) == (400, "invalid_request")


async def test_s020_it_is_used_up_by_the_code(desk, app, cookie):
    pushed = await app.push()
    await app.allowed(cookie)
    assert app.told(await present(desk, app, pushed, cookie))["code"]

    again = await present(desk, app, pushed, cookie)

    assert (again.status, again.json["error"]) == (400, "invalid_request_uri")


async def test_reloads_before_the_sign_in_work(desk, app, cookie):
    pushed = await app.push()
    await app.allowed(cookie)
    first, second = await present(desk, app, pushed), await present(desk, app, pushed)
    assert first.location.startswith("/ui/auth/login")
    assert second.location.startswith("/ui/auth/login")

    answers = [await desk.get(unquote(one.location.partition("return_to=")[2]), cookie=cookie) for one in (second, first)]

    assert app.told(answers[0])["code"]
    assert (answers[1].status, answers[1].json["error"]) == (400, "invalid_request_uri")


async def test_s020_fifty_at_once_give_one_code(open_idp, register_app, database_url):
    desk = await open_idp(database={"url": database_url})
    app, cookie = await register_app(desk), await desk.cookie("alice")
    await app.allowed(cookie)
    pushed = await app.push()

    answers = await asyncio.gather(*(present(desk, app, pushed, cookie) for _ in range(50)))

    assert sorted(answer.status for answer in answers) == [302] + [400] * 49
    assert len(await desk.rows(t.code)) == 2  # with that of allowed()


async def test_s020_another_client_cannot_use_it(desk, app, register_app, cookie):
    pushed = await app.push()
    other = await register_app(desk)

    answer = await present(desk, other, pushed, cookie)

    assert (answer.status, answer.json["error"]) == (400, "invalid_request_uri")
    assert (await present(desk, app, pushed)).status == 303


async def test_s020_it_expires_but_a_sign_in_that_began_in_time_may_take_longer(open_idp, register_app):
    clock = FakeClock(1_800_000_000_000_000)
    desk = await open_idp(clock=clock)
    app = await register_app(desk, consent="implicit")
    early, late = await app.push(), await app.push()
    asked = await present(desk, app, early)
    clock.advance(61)

    expired = await present(desk, app, late)
    cookie = await desk.cookie("alice")
    answer = await desk.get(unquote(asked.location.partition("return_to=")[2]), cookie=cookie)

    assert (expired.status, expired.json["error"]) == (400, "invalid_request_uri")
    assert app.told(answer)["code"]


@pytest.mark.parametrize("request_uri", [URN + "x", URN, URN + "ru_n1_" + "x" * 43, URN + "si_n1_" + "x" * 43, URN + "\u00e9"])
async def test_an_unknown_request_uri_is_not_redirected(desk, app, request_uri):
    answer = await desk.get(f"/authorize?client_id={app.client_id}&request_uri={quote(request_uri)}")

    assert (answer.status, answer.json["error"]) == (400, "invalid_request_uri")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"request_uri": URN + "x"}, "invalid_request"),
        ({"redirect_uri": "https://evil.example/"}, "invalid_request"),
        ({"redirect_uri": None}, "invalid_request"),
        ({"claims": json.dumps({"userinfo": {"x" * 16_384: None}})}, "invalid_request"),
        ({"scope": "phone"}, "invalid_scope"),
    ],
)
async def test_everything_is_checked_when_it_is_pushed(desk, app, changes, error):
    answer = await app.push(**changes)

    assert (answer.status, answer.json["error"]) == (400, error)
    assert await desk.rows(t.authorization) == []


async def test_b26_the_client_authenticates(desk, app):
    answer = await desk.post("/par", data=app.parameters())

    assert (answer.status, answer.json["error"]) == (401, "invalid_client")


async def test_a_public_client_names_itself(desk, register_app):
    app = await register_app(desk, token_endpoint_auth_method="none")

    assert (await desk.post("/par", data=app.parameters())).status == 201


async def test_other_methods_and_bodies(desk, app):
    assert (await desk.get("/par")).status == 405
    assert (await desk.post("/par", json=app.parameters())).status == 400


async def test_denial_uses_it_up_too(desk, app, cookie):
    pushed = await app.push()
    asked = await present(desk, app, pushed, cookie)
    page = await desk.get(asked.location, cookie=cookie, headers={"Accept": "text/html"})
    denied = await app.decide(cookie, hidden_fields(page, "consent-form"), "deny")
    assert app.told(denied)["error"] == "access_denied"

    assert (await present(desk, app, pushed, cookie)).status == 400
