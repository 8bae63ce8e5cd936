"""One-time codes under attack (section G of the checks, and what it takes from others)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from security.idp_desk import BROWSER, PARALLEL, PASSWORD, Desk
from security.idp_otp import ADMIN, DEVICES, MINE, RECOVERY, SIGN_IN, STEP, App, app_of, open_codes, secret_of

from greatseal.api.otp import Holder
from greatseal.testing.desk import Answer, bearer, hidden_fields, told
from greatseal_otp import tables as t
from greatseal_otp.recovery import MANY

ROUNDS = 4
PAGE = "/account/codes"


@pytest.fixture
async def desk(database_url: str, tmp_path: Any) -> AsyncIterator[Desk]:
    async with open_codes(tmp_path, database={"url": database_url}) as desk:
        yield desk


@pytest.fixture
async def plain(tmp_path: Any) -> AsyncIterator[Desk]:
    async with open_codes(tmp_path) as desk:
        yield desk


def successes(answers: list[Answer]) -> list[Answer]:
    assert {answer.status for answer in answers} <= {200, 401, 429}, [answer.text for answer in answers]
    return [answer for answer in answers if answer.status == 200]


async def test_s102_a_code_is_good_once(desk: Desk) -> None:
    app = await app_of(desk)
    code = app.code()

    assert [(await app.sign_in(code)).status for _ in range(2)] == [200, 401]
    desk.clock.step(STEP)
    assert (await app.sign_in(code)).status == 401


async def test_s102_the_step_before_one_that_was_used_is_not_good(desk: Desk) -> None:
    app = await app_of(desk)
    before, now, after = (app.code(steps) for steps in (-1, 0, 1))

    assert (await app.sign_in(after)).status == 200
    assert [(await app.sign_in(code)).status for code in (now, before)] == [401, 401]


@pytest.mark.parametrize(("steps", "status"), [(-2, 401), (-1, 200), (1, 200), (2, 401)])
async def test_s102_one_step_before_and_one_after_are_good(plain: Desk, steps: int, status: int) -> None:
    app = await app_of(plain)
    plain.clock.step(5 * STEP)

    assert (await app.sign_in(app.code(steps))).status == status


@pytest.mark.parametrize("many", [2, PARALLEL])
async def test_s102_i3_one_code_at_once_gives_one_session(desk: Desk, many: int) -> None:
    """At the store: sign-ins of one name take their turns."""
    app = await app_of(desk)
    codes = desk.service.kernel.hooks.instances["otp"].parts(desk.service.host("otp")).codes
    holder = await codes.holder("ann@LOCALHOST")
    for _ in range(ROUNDS):
        code = app.code()
        good = await asyncio.gather(*(codes.confirm(holder, app.token_id, code) for _ in range(many)))
        assert sum(good) == 1
        desk.clock.step(STEP)


async def test_s102_i3_one_code_at_once_through_the_door_gives_one_session(desk: Desk) -> None:
    app = await app_of(desk)
    code = app.code()

    answers = await asyncio.gather(*(app.sign_in(code) for _ in range(5)))

    assert len(successes(answers)) == 1


@pytest.mark.parametrize("many", [2, PARALLEL])
async def test_i3_one_recovery_code_at_once_is_good_once(desk: Desk, many: int) -> None:
    app = await app_of(desk)
    recovery = desk.service.kernel.hooks.instances["otp"].parts(desk.service.host("otp")).recovery
    typed = [code.replace("-", "") for code in await app.recovery_codes()]
    ann = Holder(subject="ann@LOCALHOST", user=None)
    for code in typed[:ROUNDS]:
        assert sum(await asyncio.gather(*(recovery.use(ann, code) for _ in range(many)))) == 1

    state = await recovery.state("ann@LOCALHOST")
    assert state.remaining == MANY - ROUNDS == len(await desk.rows(t.recovery_code))
    assert len(await desk.events("otp_recovery_code_used")) == ROUNDS


async def test_ten_tokens_are_the_most_however_many_are_asked_for_at_once(desk: Desk) -> None:
    app = App(desk, "ann", await desk.cookie("ann"))

    answers = await asyncio.gather(*(desk.post(MINE, json={"label": "x"}, cookie=app.cookie) for _ in range(15)))

    assert sorted(answer.status for answer in answers) == [201] * 10 + [409] * 5
    assert len(await app.tokens()) == 10


async def test_s102_a_thousand_guesses_get_five_tries(plain: Desk) -> None:
    """The limit is that of the person: 200 of the thousand are enough to see it."""
    app = await app_of(plain)
    good = app.code()
    guesses = [code for code in (f"{number:06}" for number in range(201)) if code != good][:200]

    answers = [await app.sign_in(code) for code in guesses]

    assert [answer.status for answer in answers] == [401] * 5 + [429] * 195
    assert (await app.sign_in(good)).status == 429


async def test_s103_the_password_is_asked_for_as_well(plain: Desk) -> None:
    app = await app_of(plain)

    assert (await app.sign_in(password="wrong")).status == 401
    assert (await app.sign_in(password="")).status == 401
    assert (await plain.post(SIGN_IN, json={"username": "ann", "otp_code": app.code()})).status == 400
    assert (await app.sign_in()).status == 200  # a wrong password used up no code


async def test_s103_a_code_of_somebody_else_is_not_good(desk: Desk) -> None:
    ann, ben = await app_of(desk), await app_of(desk, "ben")
    codes = await ben.recovery_codes()

    assert (await ann.sign_in(ben.code())).status == 401
    assert (await ann.sign_in(codes[0])).status == 401
    assert (await ben.sign_in(codes[0])).status == 200
    assert (await ben.sign_in()).status == 200


async def test_s103_who_has_no_token_cannot_sign_in_with_a_code(plain: Desk) -> None:
    body = {"username": "ben", "password": PASSWORD, "otp_code": "123456"}

    assert (await plain.post(SIGN_IN, json=body)).outcome == (401, "invalid_credentials")


async def test_s103_the_uri_cannot_be_had_later(plain: Desk) -> None:
    app = await app_of(plain)
    secret = secret_of(app.uri)

    places = [MINE, f"{MINE}/{app.token_id}", RECOVERY, PAGE, "/account", "/api/auth/me", "/api/auth/profile"]
    said = [(await plain.get(path, cookie=app.cookie, headers=BROWSER)).text for path in places]
    said += [(await plain.get(path, cookie=plain.admin)).text for path in (ADMIN.format("ann"), "/api/admin/audit")]

    assert not any(secret in text or secret.lower() in text.lower() for text in said)


async def test_s070_idp_257_idp_261_a_token_of_somebody_else_is_not_there(desk: Desk) -> None:
    ann, ben = await app_of(desk), App(desk, "ben", await desk.cookie("ben"))

    unknown = await ben.delete("0" * 36)
    deleted = await ben.delete(ann.token_id)
    confirm = await desk.post(f"{MINE}/{ann.token_id}/confirm", json={"otp_code": ann.code()}, cookie=ben.cookie)

    assert (deleted.status, deleted.body) == (unknown.status, unknown.body) == (404, unknown.body)
    assert confirm.status == 404
    assert await ben.tokens() == []
    assert len(await ann.tokens()) == 1
    assert (await ann.sign_in()).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", MINE),
        ("POST", MINE),
        ("DELETE", f"{MINE}/x"),
        ("POST", f"{MINE}/x/confirm"),
        ("GET", RECOVERY),
        ("POST", RECOVERY),
        ("GET", DEVICES),
        ("DELETE", f"{DEVICES}/x"),
    ],
)
async def test_idp_257_who_is_not_signed_in_has_nothing(plain: Desk, method: str, path: str) -> None:
    answer = await plain.ask(method, path, **({"json": {"label": "x", "otp_code": "1"}} if method == "POST" else {}))

    assert answer.outcome == (401, "unauthenticated")
    assert "WWW-Authenticate" not in answer.headers


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_s069_who_may_not_administer_users_sees_and_deletes_no_tokens(plain: Desk, method: str) -> None:
    app = await app_of(plain)

    assert (await plain.ask(method, ADMIN.format("ann"), cookie=app.cookie)).outcome == (403, "forbidden")
    assert (await plain.ask(method, ADMIN.format("ann"))).status == 401
    assert len(await app.tokens()) == 1


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Content-Type": "text/plain"}])
@pytest.mark.parametrize("what", ["create", "confirm", "delete", "recovery", "administer"])
async def test_s066_other_sites_change_nothing(plain: Desk, headers: dict[str, str], what: str) -> None:
    app = await app_of(plain)
    method, path, cookie, body = {
        "create": ("POST", MINE, app.cookie, '{"label":"x"}'),
        "confirm": ("POST", f"{MINE}/{app.token_id}/confirm", app.cookie, f'{{"otp_code":"{app.code()}"}}'),
        "delete": ("DELETE", f"{MINE}/{app.token_id}", app.cookie, "{}"),
        "recovery": ("POST", RECOVERY, app.cookie, "{}"),
        "administer": ("DELETE", ADMIN.format("ann"), plain.admin, "{}"),
    }[what]

    answer = await plain.ask(method, path, cookie=cookie, data=body, headers={"Content-Type": "application/json", **headers})

    assert answer.outcome == (403, "csrf")
    assert len(await app.tokens()) == 1
    assert await plain.rows(t.recovery) == []
    assert (await app.sign_in()).status == 200


@pytest.mark.parametrize("path", ["add", "confirm", "delete", "recovery"])
async def test_s066_a_form_of_no_page_of_ours_changes_nothing(plain: Desk, path: str) -> None:
    app = await app_of(plain)
    form = {"label": "x", "token_id": app.token_id, "code": app.code(), "form_token": "made up"}

    answer = await plain.post(f"{PAGE}/{path}", data=form, cookie=app.cookie, headers=BROWSER)

    assert answer.status == 403
    assert len(await app.tokens()) == 1
    assert await plain.rows(t.recovery) == []
    assert (await app.sign_in()).status == 200


async def test_s078_unknown_name_wrong_password_and_wrong_code_are_told_alike(plain: Desk) -> None:
    app = await app_of(plain)
    nobody = App(plain, "nobody", "")
    nobody.uri = app.uri

    answers = [await nobody.sign_in(), await app.sign_in(password="wrong"), await app.sign_in("000000")]

    assert len({(one.status, one.body, one.headers["Content-Type"]) for one in answers}) == 1
    assert answers[0].status == 401


async def test_s104_a_token_says_two_factors_for_who_proved_two_and_one_for_who_proved_one(plain: Desk) -> None:
    app = await app_of(plain)
    before = await plain.introspect((await plain.tokens(app.weak))["access_token"])
    signed_in = await app.sign_in()

    tokens = await plain.tokens(signed_in.cookie)
    refreshed = await plain.refresh(tokens["refresh_token"])

    assert "otp" not in before.get("amr", ["pwd"])
    for token in (tokens["access_token"], refreshed.json["access_token"]):
        assert (await plain.introspect(token)).get("amr", ["pwd", "otp", "mfa"]) == ["pwd", "otp", "mfa"]
    assert (await plain.get("/api/auth/me", cookie=signed_in.cookie)).json["amr"] == ["pwd", "otp", "mfa"]


async def test_s072_what_a_person_calls_a_token_is_text(plain: Desk) -> None:
    app = App(plain, "ann", await plain.cookie("ann"))
    await app.scan("<b>{{7*7}}</b>")

    page = await plain.get(PAGE, cookie=app.cookie, headers=BROWSER)

    assert "&lt;b&gt;{{7*7}}&lt;/b&gt;" in page.text
    assert "<b>" not in page.text


@pytest.mark.parametrize("code", ["", "0", "x" * 10_000, "١٢٣٤٥٦", "12345\n6", "9" * 20, "0" * 64])
async def test_whatever_is_typed_as_a_code_is_refused_and_nothing_breaks(plain: Desk, code: str) -> None:
    app = await app_of(plain)

    assert (await app.sign_in(code)).status == 401


async def test_a_cookie_or_token_of_an_application_opens_none_of_it(plain: Desk) -> None:
    app = await app_of(plain)
    token = (await plain.tokens(app.weak))["access_token"]

    assert (await plain.get(MINE, headers=bearer(token))).status == 401


async def test_what_a_form_made_is_on_no_other_page(plain: Desk) -> None:
    cookie = await plain.cookie("ann")
    page = await plain.get(PAGE, cookie=cookie, headers=BROWSER)

    made = await plain.post(f"{PAGE}/add", data={**hidden_fields(page, "add-form"), "label": "Phone"}, cookie=cookie, headers=BROWSER)

    assert "<svg" in made.text
    assert made.headers["Cache-Control"] == "no-store"
    assert "otpauth" in made.text
    again = await plain.get(PAGE, cookie=cookie, headers=BROWSER)
    assert 'id="qr"' not in again.text
    assert "otpauth" not in again.text


async def test_an_application_waits_while_the_code_is_asked_for(plain: Desk) -> None:
    app = await app_of(plain)
    asked = await plain.authorize()
    page = await plain.get(asked.location, headers=BROWSER)
    cookie = page.cookies[0].partition(";")[0]

    first = await plain.post(
        "/login", data={**hidden_fields(page), "username": "ann", "password": PASSWORD}, cookie=cookie, headers=BROWSER
    )
    assert "Enter your code" in first.text
    assert "recovery codes" in first.text
    done = await plain.post("/login", data={**hidden_fields(first), "code": app.code()}, cookie=cookie, headers=BROWSER)

    assert done.status == 303
    assert told(await plain.get(done.location, cookie=done.cookie))["code"]


async def test_s103_an_app_that_was_planted_before_the_person_has_one_is_no_second_factor(desk: Desk) -> None:
    """Who has the password alone makes an app and keeps it to themselves until the person has chosen one."""
    planted = await app_of(desk, confirmed=False)
    desk.clock.step(20 * 60)
    await app_of(desk)

    assert (await planted.sign_in()).status == 401
    assert (await planted.confirm()).outcome == (401, "login_required")
    assert (await planted.sign_in()).status == 401
    assert [one["confirmed"] for one in await planted.tokens()] == [False, True]


async def test_s103_a_session_of_a_moment_before_the_first_app_changes_none_and_the_one_that_confirmed_it_goes_on(desk: Desk) -> None:
    """Who has the password alone signed in a minute before the person enrols."""
    thief = await desk.cookie("ann")
    desk.clock.step(60)
    app = await app_of(desk, confirmed=False)
    before = app.cookie
    assert (await app.confirm()).status == 204

    answers = [
        await desk.post(MINE, json={"label": "Mine"}, cookie=thief),
        await desk.ask("DELETE", f"{MINE}/{app.token_id}", cookie=thief),
        await desk.post(RECOVERY, cookie=thief),
    ]

    assert [answer.outcome for answer in answers] == [(401, "login_required")] * 3
    assert (await desk.get("/api/auth/me", cookie=before)).status == 401
    assert (await desk.get("/api/auth/me", cookie=app.cookie)).json["amr"] == ["pwd", "otp", "mfa"]
    assert len(await app.recovery_codes()) == 10


async def test_s102_nobody_guesses_codes_where_apps_are_confirmed(plain: Desk) -> None:
    """A session may be one of before the app, and no limit counts there."""
    app = await app_of(plain)

    assert (await app.confirm()).outcome == (400, "invalid_request")
    assert (await app.sign_in(app.code(-1))).status == 200
