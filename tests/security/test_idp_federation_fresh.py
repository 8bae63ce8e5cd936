"""How old a sign-in through another provider is: what the provider says counts, and what nobody says is not recent."""

from pathlib import Path

import pytest
from rig.upstream import request_of
from security.idp_federation import BROWSER, open_federation
from security.idp_otp import app_of

from greatseal.testing.desk import hidden_fields, told

HOUR = 3600


async def test_prompt_login_needs_a_sign_in_there_of_this_moment(tmp_path: Path) -> None:
    async with open_federation(tmp_path) as opened:
        await opened.link("ann")
        waiting = request_of((await opened.desk.authorize(prompt="login")).location)["return_to"]
        now = opened.desk.clock.now() // 1_000_000
        for auth_time, status in ((now - 1000, 502), (None, 403)):
            opened.stub.claims = {"auth_time": auth_time}
            assert (await opened.sign_in(waiting)).status == status
        opened.stub.claims = {}
        assert (await opened.sign_in(waiting)).location == waiting
        request = await opened.begin(waiting)
        assert (request["prompt"], request["max_age"]) == ("login", "0")


@pytest.mark.parametrize("asked", [{"max_age": "300"}, {"prompt": "login"}])
@pytest.mark.parametrize("ago", [3 * HOUR, None], ids=["an old session there", "nobody says"])
async def test_an_open_session_there_is_no_recent_sign_in_for_an_application(
    tmp_path: Path, asked: dict[str, str], ago: int | None
) -> None:
    """Not even where the sign-in was for something else, while the application waits."""
    async with open_federation(tmp_path) as opened:
        await opened.link("ann")
        waiting = request_of((await opened.desk.authorize(**asked)).location)["return_to"]
        now = opened.desk.clock.now() // 1_000_000
        opened.stub.claims = {"auth_time": None if ago is None else now - ago}
        cookie = (await opened.sign_in("/account")).cookie

        for where in (await opened.desk.get(waiting, cookie=cookie), await opened.desk.authorize(cookie, **asked)):
            assert where.location.startswith("/ui/auth/login?"), where.location
        assert (await opened.desk.get("/api/auth/me", cookie=cookie)).json["auth_time"] == (now if ago is None else now - ago)
        opened.stub.claims = {"auth_time": now}
        again = await opened.sign_in(waiting, cookie=cookie)
        assert told(await opened.desk.get(again.location, cookie=again.cookie))["code"]


@pytest.mark.parametrize("ago", [3 * HOUR, None], ids=["an old session there", "nobody says"])
async def test_an_open_session_there_is_no_recent_sign_in_for_the_account(tmp_path: Path, ago: int | None) -> None:
    """A computer that was left open, on which the other provider lets anybody in again."""
    passkey = {"rp_id": "localhost"}
    async with open_federation(tmp_path, table={"self_service": True}, features=("passkey", "otp"), passkey=passkey) as opened:
        await opened.link("ann")
        opened.stub.claims = {"auth_time": None if ago is None else opened.desk.clock.now() // 1_000_000 - ago}
        cookie = (await opened.sign_in("/account")).cookie

        assert (await opened.desk.post("/api/auth/passkey/register/begin", json={}, cookie=cookie)).status == 403
        assert (await opened.desk.post("/api/me/otp-tokens", json={"label": "x"}, cookie=cookie)).outcome == (401, "login_required")
        for page in ("passkeys", "codes", "connections"):
            text = (await opened.desk.get(f"/account/{page}", cookie=cookie, headers=BROWSER)).text
            assert ('id="undated"' in text, "gain</a>" in text) == (ago is None, True), page
        opened.stub.claims = {}
        cookie = (await opened.sign_in("/account", cookie=cookie)).cookie
        assert (await opened.desk.post("/api/auth/passkey/register/begin", json={}, cookie=cookie)).status == 200


async def test_a_second_step_here_is_a_sign_in_of_this_moment(tmp_path: Path) -> None:
    async with open_federation(tmp_path, features=("otp",)) as opened:
        await opened.link("ann")
        app = await app_of(opened.desk)
        cookie = (await opened.sign_in("/account")).cookie
        assert (await opened.desk.post("/api/me/otp-tokens", json={"label": "x"}, cookie=cookie)).outcome == (401, "login_required")

        page = await opened.desk.get("/ui/auth/step-up?return_to=/account/codes", cookie=cookie, headers=BROWSER)
        form = {**hidden_fields(page, "login-form"), "code": app.code()}
        cookie = (await opened.desk.post("/login/step-up", data=form, cookie=cookie, headers=BROWSER)).cookie

        assert (await opened.desk.post("/api/me/otp-tokens", json={"label": "x"}, cookie=cookie)).status == 201


async def test_a_provider_that_names_no_moment_may_count_as_asked_now(tmp_path: Path) -> None:
    """By a switch of its own; a moment that it names counts as before."""
    switch = {"assume_auth_time": True}
    async with open_federation(tmp_path, {"id": "other"}, table=switch, features=("passkey",), passkey={"rp_id": "localhost"}) as opened:
        await opened.link("ann")
        await opened.link("ann", upstream="other")
        now = opened.desk.clock.now() // 1_000_000
        begun = {}
        for upstream, auth_time in (
            ("partner", None),
            ("partner", now - 3 * HOUR),
            ("partner", "now"),
            ("partner", now + HOUR),
            ("other", None),
        ):
            opened.stub.claims = {"auth_time": auth_time}
            cookie = (await opened.sign_in("/account", upstream=upstream)).cookie
            begun[upstream, auth_time] = (await opened.desk.post("/api/auth/passkey/register/begin", json={}, cookie=cookie)).status
        assert list(begun.values()) == [200, 403, 403, 403, 403], begun


@pytest.mark.parametrize("asked", [{"max_age": "300"}, {"prompt": "login"}])
async def test_an_application_that_asks_for_a_recent_sign_in_gets_one_of_a_provider_that_names_no_moment(
    tmp_path: Path, asked: dict[str, str]
) -> None:
    async with open_federation(tmp_path, table={"assume_auth_time": True}) as opened:
        await opened.link("ann")
        waiting = request_of((await opened.desk.authorize(**asked)).location)["return_to"]
        opened.stub.claims = {"auth_time": opened.desk.clock.now() // 1_000_000 - HOUR}
        assert (await opened.sign_in(waiting)).status == 502, "one that is named counts"

        opened.stub.claims = {"auth_time": None}
        request = await opened.begin(waiting)
        answer = await opened.sign_in(waiting)

        assert (request["prompt"], request["max_age"]) == ("login", asked.get("max_age", "0"))
        assert told(await opened.desk.get(answer.location, cookie=answer.cookie))["code"]


async def test_the_moment_is_that_of_the_answer_and_not_of_the_next_visit(tmp_path: Path) -> None:
    async with open_federation(tmp_path, table={"assume_auth_time": True}, features=("passkey",), passkey={"rp_id": "localhost"}) as opened:
        await opened.link("ann")
        opened.stub.claims = {"auth_time": None}
        cookie = (await opened.sign_in("/account")).cookie
        opened.desk.clock.advance(660)

        assert (await opened.desk.post("/api/auth/passkey/register/begin", json={}, cookie=cookie)).status == 403
        assert (await opened.desk.authorize(cookie, max_age="300")).location.startswith("/ui/auth/login?")
