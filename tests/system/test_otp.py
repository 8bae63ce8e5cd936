"""One-time codes from the first token to the lost phone, on both databases."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from rig import warm
from security.idp_desk import BROWSER, PASSWORD, Desk
from security.idp_otp import ADMIN, MINE, RECOVERY, STEP, App, app_of, open_codes, secret_of

from greatseal.testing.desk import Answer, hidden_fields
from greatseal_otp import tables as t
from greatseal_otp.recovery import DIGITS, MANY
from greatseal_otp.tokens import MOST

MINUTE = 60


@pytest.fixture
async def desk(database_url: str, tmp_path: Any) -> AsyncIterator[Desk]:
    async with open_codes(tmp_path, database={"url": database_url}) as desk:
        yield desk


@pytest.fixture
async def plain(tmp_path: Any) -> AsyncIterator[Desk]:
    """Where the database makes no difference."""
    async with open_codes(tmp_path) as desk:
        yield desk


async def kinds(desk: Desk) -> list[tuple[str, str]]:
    """The audit events of codes, with whose they are."""
    names = (
        "otp_token_created", "otp_token_confirmed", "otp_token_deleted", "otp_recovery_codes_created", "otp_recovery_code_used",
    )  # fmt: skip
    return [(one.event_type, one.sub) for one in await desk.events(*names)]


async def test_idp_259_idp_260_idp_110_a_token_is_made_and_its_key_is_given_once(desk: Desk) -> None:
    app = App(desk, "ann", await desk.cookie("ann"))

    answer = await desk.post(MINE, json={"label": "  My   phone "}, cookie=app.cookie)

    assert (answer.status, answer.headers["Cache-Control"]) == (201, "no-store")
    assert answer.json.keys() == {"token_id", "otpauth_uri"}
    uri, secret = answer.json["otpauth_uri"], secret_of(answer.json["otpauth_uri"])
    assert uri == f"otpauth://totp/localhost:ann?secret={secret}&issuer=localhost&algorithm=SHA1&digits=6&period=30"
    assert len(secret) == 32
    (row,) = await desk.rows(t.token)
    assert secret.encode() not in bytes(row.secret)
    listed = await desk.get(MINE, cookie=app.cookie)
    assert secret not in listed.text
    assert "otpauth" not in listed.text
    assert await kinds(desk) == [("otp_token_created", "ann@LOCALHOST")]


async def test_idp_258_the_list_has_what_may_be_seen_of_each_token(desk: Desk) -> None:
    app = await app_of(desk)
    await app.scan("Tablet")
    at = desk.clock.now() // 1_000_000

    first, second = await app.tokens()

    assert first == {
        "token_id": first["token_id"],
        "label": "My phone",
        "type": "totp",
        "algorithm": "sha1",
        "digits": 6,
        "period": 30,
        "created_at": at - STEP,
        "confirmed": True,
        "enabled": True,
        "last_used_at": at - STEP,
        "source": "local",
    }
    assert (second["label"], second["confirmed"], second["last_used_at"], second["token_id"]) == ("Tablet", False, None, app.token_id)


async def test_idp_005_idp_240_who_has_a_token_signs_in_with_password_and_code(desk: Desk) -> None:
    app = await app_of(desk)

    alone = await desk.login("ann", PASSWORD)
    both = await app.sign_in()

    assert (alone.status, alone.json["error"], alone.json["credentials"]) == (403, "factor_required", ["PasswordAndCode"])
    assert (both.status, both.json["sub"], both.json["amr"]) == (200, "ann@LOCALHOST", ["pwd", "otp", "mfa"])
    assert (await desk.login("ben", PASSWORD)).status == 200
    claims = (await desk.get("/api/auth/info")).json["features"]
    assert claims["otp"] is True


async def test_a_token_counts_when_a_code_of_it_was_given(desk: Desk) -> None:
    app = await app_of(desk, confirmed=False)

    assert (await desk.login("ann", PASSWORD)).status == 200
    assert (await app.confirm("000000")).outcome == (400, "invalid_request")
    assert (await desk.login("ann", PASSWORD)).status == 200
    assert (await app.confirm()).status == 204
    assert (await desk.login("ann", PASSWORD)).status == 403
    assert await kinds(desk) == [("otp_token_created", "ann@LOCALHOST"), ("otp_token_confirmed", "ann@LOCALHOST")]


async def test_the_first_sign_in_with_a_code_confirms_its_token(desk: Desk) -> None:
    app = await app_of(desk, confirmed=False)

    assert (await app.sign_in()).status == 200

    assert [one["confirmed"] for one in await app.tokens()] == [True]
    assert (await desk.login("ann", PASSWORD)).status == 403


async def test_the_code_that_confirmed_is_used(desk: Desk) -> None:
    app = await app_of(desk, confirmed=False)
    code = app.code()

    assert (await app.confirm(code)).status == 204

    assert (await app.sign_in(code)).status == 401
    assert (await app.confirm(code)).outcome == (400, "invalid_request")


async def test_without_days_no_device_is_remembered(plain: Desk) -> None:
    app = await app_of(plain)

    answer = await app.sign_in(remember=True)

    assert [one for one in answer.cookies if "device" in one] == []
    assert await plain.rows(t.device) == []


async def test_idp_261_a_token_is_deleted_and_the_password_is_enough_again(desk: Desk) -> None:
    app = await app_of(desk)

    assert (await app.delete()).status == 204

    assert await app.tokens() == []
    assert (await desk.login("ann", PASSWORD)).status == 200
    assert (await app.delete()).outcome == (404, "not_found")
    assert await desk.rows(t.step) == []
    assert (await kinds(desk))[-1] == ("otp_token_deleted", "ann@LOCALHOST")


async def test_with_two_tokens_either_is_good(desk: Desk) -> None:
    phone = await app_of(desk)
    tablet = App(desk, "ann", phone.cookie)
    await tablet.scan("Tablet")
    assert (await tablet.confirm()).status == 204
    phone.cookie = tablet.cookie

    assert (await phone.sign_in()).status == 200
    assert (await tablet.sign_in()).status == 200
    assert (await phone.delete()).status == 204
    assert (await desk.login("ann", PASSWORD)).status == 403


async def test_recovery_codes_are_good_once_each_and_new_ones_replace_them(desk: Desk) -> None:
    app = await app_of(desk)
    assert (await desk.get(RECOVERY, cookie=app.cookie)).json == {"remaining": 0, "created_at": None}

    codes = await app.recovery_codes()

    assert len(set(codes)) == MANY
    assert all(len(code.replace("-", "")) == DIGITS for code in codes)
    assert (await app.sign_in(codes[0])).json["amr"] == ["pwd", "otp", "mfa"]
    assert (await app.sign_in(codes[0])).status == 401
    assert (await app.sign_in(codes[1].replace("-", " "))).status == 200
    state = (await desk.get(RECOVERY, cookie=app.cookie)).json
    assert state == {"remaining": MANY - 2, "created_at": desk.clock.now() // 1_000_000}
    (used, _) = await desk.events("otp_recovery_code_used")
    assert used.detail == "9 left"
    again = await app.recovery_codes()
    assert (await app.sign_in(codes[2])).status == 401
    assert (await app.sign_in(again[0])).status == 200
    assert not any(code.replace("-", "").encode() in bytes(row.digest) for row in await desk.rows(t.recovery_code) for code in again)


async def test_recovery_codes_go_with_the_last_token(desk: Desk) -> None:
    app = await app_of(desk)
    await app.recovery_codes()

    assert (await app.delete()).status == 204

    assert (await desk.rows(t.recovery), await desk.rows(t.recovery_code)) == ([], [])
    assert (await desk.post(RECOVERY, cookie=app.cookie)).outcome == (409, "conflict")


async def test_a_person_has_ten_tokens_at_most(desk: Desk) -> None:
    app = await app_of(desk)
    for number in range(MOST - 1):
        await app.scan(f"Phone {number}")

    answer = await desk.post(MINE, json={"label": "One more"}, cookie=app.cookie)

    assert answer.outcome == (409, "conflict")
    assert len(await app.tokens()) == MOST


async def test_a_token_that_is_never_confirmed_goes_after_an_hour(desk: Desk) -> None:
    app = await app_of(desk)
    confirmed = app.token_id
    await app.scan("Never scanned")
    local = desk.service.kernel.hooks.instances["otp"].parts(desk.service.host("otp")).local
    for minutes in (60, 30):
        desk.clock.advance(minutes * MINUTE)
        await local.sweep()
        assert len(await desk.rows(t.token)) == 2  # nobody knows yet that the clock did not jump

    desk.clock.advance(31 * MINUTE)
    await local.sweep()

    assert [row.token_id for row in await desk.rows(t.token)] == [confirmed]
    assert [row.token_id for row in await desk.rows(t.step)] == [confirmed]


@pytest.mark.parametrize("label", ["", "   ", "x" * 65, "a\u202eb", "a\x07b"])
async def test_a_label_is_a_short_word(plain: Desk, label: str) -> None:
    cookie = await plain.cookie("ann")

    assert (await plain.post(MINE, json={"label": label}, cookie=cookie)).outcome == (400, "invalid_request")
    assert await plain.rows(t.token) == []


async def test_new_tokens_are_as_the_configuration_says(tmp_path: Any) -> None:
    look = {"display_name": "Example: sign-in"}
    async with open_codes(tmp_path, otp={"algorithm": "sha256", "digits": 8}, webui=look) as desk:
        app = await app_of(desk)

        assert "algorithm=SHA256&digits=8" in app.uri
        assert app.uri.startswith("otpauth://totp/Example%20%20sign-in:ann?")
        assert len(secret_of(app.uri)) == 52
        assert len(app.code()) == 8
        assert (await app.sign_in()).status == 200


@pytest.mark.parametrize("session", ["later", "early"])
async def test_a_sign_in_of_a_while_ago_changes_nothing(plain: Desk, session: str) -> None:
    app = await app_of(plain)
    plain.clock.step(15 * MINUTE if session == "later" else -2 * MINUTE)

    refused = [
        await plain.post(MINE, json={"label": "Another"}, cookie=app.cookie),
        await app.delete(),
        await plain.post(RECOVERY, cookie=app.cookie),
    ]

    assert [answer.outcome for answer in refused] == [(401, "login_required")] * 3
    assert len(await app.tokens()) == 1


async def test_an_administrator_helps_who_lost_the_phone(desk: Desk) -> None:
    app = await app_of(desk)
    await app.recovery_codes()
    path = ADMIN.format("ann")

    listed = await desk.get(path, cookie=desk.admin)
    assert [one["token_id"] for one in listed.json] == [app.token_id]
    assert (await desk.ask("DELETE", f"{path}/{'0' * 36}", cookie=desk.admin)).status == 404
    deleted = await desk.ask("DELETE", path, cookie=desk.admin)

    assert (deleted.status, deleted.json) == (200, {"deleted": 1})
    assert (await desk.rows(t.token), await desk.rows(t.recovery_code)) == ([], [])
    assert (await desk.login("ann", PASSWORD)).status == 200
    (event,) = await desk.events("otp_token_deleted")
    assert (event.sub, event.principal) == ("ann@LOCALHOST", "admin@LOCALHOST")


async def test_an_administrator_deletes_one_token_and_what_a_person_who_is_gone_left(plain: Desk) -> None:
    app = await app_of(plain)

    assert (await plain.ask("DELETE", f"{ADMIN.format('ann')}/{app.token_id}", cookie=plain.admin)).status == 204
    assert (await plain.get(ADMIN.format("nobody"), cookie=plain.admin)).status == 404
    assert (await plain.get(ADMIN.format("gone@LOCALHOST"), cookie=plain.admin)).json == []
    assert (await plain.ask("DELETE", ADMIN.format("ann"), cookie=app.cookie)).outcome == (403, "forbidden")


async def test_the_account_page_shows_the_apps(plain: Desk) -> None:
    app = App(plain, "ann", await plain.cookie("ann"))
    nothing = await plain.get("/account", cookie=app.cookie, headers=BROWSER)
    await app.scan("Tablet")
    waiting = await plain.get("/account", cookie=app.cookie, headers=BROWSER)
    await app.confirm()
    used = await plain.get("/account", cookie=app.cookie, headers=BROWSER)

    assert "You have no authenticator app." in nothing.text
    assert 'href="/account/codes"' in nothing.text
    assert "<dt>Tablet</dt><dd>Not in use: no code of it was given yet</dd>" in waiting.text
    assert "<dt>Tablet</dt><dd>Last used " in used.text


async def test_a_form_gives_what_the_api_gives(plain: Desk) -> None:
    cookie = await plain.cookie("ann")

    async def send(path: str, form: str, **typed: str) -> Answer:
        page = await plain.get("/account/codes", cookie=cookie, headers=BROWSER)
        fields = {**hidden_fields(page, form), **typed}
        return await plain.post(f"/account/codes/{path}", data=fields, cookie=cookie, headers=BROWSER)

    wrong = await send("add", "add-form", label="x" * 65)
    assert (wrong.status, "Nothing was changed" in wrong.text) == (400, True)
    made = await send("add", "add-form", label="Phone")
    token_id = hidden_fields(made, "confirm-form")["token_id"]
    (row,) = await plain.rows(t.token)
    assert row.token_id == token_id
    assert (await send("confirm", "add-form", token_id="0" * 36, code="1")).location == "/account/codes"
    assert (await send("delete", "add-form", token_id="0" * 36)).status == 303
    assert (await send("recovery", "add-form")).status == 409
    assert (await send("delete", "add-form", token_id=token_id)).status == 303
    assert await plain.rows(t.token) == []


@pytest.mark.parametrize("path", ["", "/add", "/confirm", "/delete", "/recovery"])
async def test_who_is_not_signed_in_is_led_to_the_sign_in(plain: Desk, path: str) -> None:
    answer = await plain.ask("POST" if path else "GET", f"/account/codes{path}", **({"data": {"label": "x"}} if path else {}))

    assert (answer.status, answer.location) == (303, "/ui/auth/login?return_to=%2Faccount%2Fcodes")


async def test_a_form_after_a_while_leads_to_the_sign_in(plain: Desk) -> None:
    cookie = await plain.cookie("ann")
    page = await plain.get("/account/codes", cookie=cookie, headers=BROWSER)
    plain.clock.step(16 * MINUTE)

    form = {**hidden_fields(page, "add-form"), "label": "Phone"}
    answer = await plain.post("/account/codes/add", data=form, cookie=cookie, headers=BROWSER)

    assert (answer.status, answer.location) == (303, "/ui/auth/login?return_to=%2Faccount%2Fcodes")
    assert await plain.rows(t.token) == []


async def test_ctl_lists_and_deletes_the_apps_of_a_person(plain: Desk) -> None:
    app = await app_of(plain)
    session = plain.folder / "session.json"
    environ = {**os.environ, "GREATSEAL_SESSION": str(session), "GREATSEAL_SERVER": plain.url}

    async def ctl(*arguments: str, given: str = "") -> str:
        result = await asyncio.to_thread(warm.run, "ctl", *arguments, given=given, env=environ)
        assert result.returncode == 0, result.stderr
        return str(result.stdout)

    await ctl("login", "admin", "--password-file", "-", given=PASSWORD)
    (listed,) = json.loads(await ctl("--json", "otp", "list", "ann"))
    assert (listed["token_id"], listed["label"]) == (app.token_id, "My phone")
    assert json.loads(await ctl("--json", "otp", "list", "ben")) == []
    assert f"token {app.token_id} is deleted" in await ctl("otp", "delete", "ann", app.token_id, "--yes")
    await app.scan()
    assert "ann has no tokens and no recovery codes any more; tokens that were deleted: 1" in await ctl("otp", "delete", "ann", "--yes")
    assert await app.tokens() == []
