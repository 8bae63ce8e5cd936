"""Sessions that prove more with a code or a passkey, under attack."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from rig.softkeys import SoftKey
from security.idp_desk import BROWSER, PARALLEL, Desk
from security.idp_otp import app_of, open_codes
from security.idp_passkeys import Passkeys

from greatseal.testing.desk import Answer, hidden_fields, told

ONE, TWO = "urn:example:password", "urn:example:two-factors"
LADDER = [{"value": ONE, "level": 1, "satisfied_by": ["pwd"]}, {"value": TWO, "level": 2, "satisfied_by": ["mfa"]}]
PAGE = "/ui/auth/step-up"


@pytest.fixture
async def desk(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_codes(tmp_path, acr=LADDER, database={"url": database_url}) as desk:
        yield desk


async def form_of(desk: Desk, cookie: str, **asked: str) -> dict[str, str]:
    """The hidden fields of the page to which a request for two factors leads."""
    answer = await desk.authorize(cookie, **{"acr_values": TWO, **asked})
    assert urlsplit(answer.location).path == PAGE, answer.location
    page = await desk.get(answer.location, cookie=cookie, headers=BROWSER)
    return hidden_fields(page, "login-form")


async def send(desk: Desk, cookie: str, fields: dict[str, str], code: str) -> Answer:
    return await desk.post("/login/step-up", data={**fields, "code": code}, cookie=cookie, headers=BROWSER)


async def test_s104_a_code_makes_a_session_of_a_password_one_of_two_factors(desk: Desk) -> None:
    app = await app_of(desk)
    fields = await form_of(desk, app.weak)

    stepped = await send(desk, app.weak, fields, app.code())

    assert stepped.status == 303
    tokens = (await desk.redeem(told(await desk.get(stepped.location, cookie=stepped.cookie))["code"])).json
    assert {name: (await desk.introspect(tokens["access_token"]))[name] for name in ("acr", "amr")} == {
        "acr": TWO, "amr": ["pwd", "otp", "mfa"],
    }  # fmt: skip
    assert (await desk.get("/api/auth/me", cookie=app.weak)).status == 401


@pytest.mark.parametrize("many", [2, PARALLEL])
async def test_s102_i3_one_code_at_once_steps_one_session_up(desk: Desk, many: int) -> None:
    app = await app_of(desk)
    fields, code = await form_of(desk, app.weak), app.code()

    answers = await asyncio.gather(*(send(desk, app.weak, fields, code) for _ in range(many)))

    assert [answer.status for answer in answers].count(303) == 1, [answer.status for answer in answers]
    assert {answer.status for answer in answers} <= {303, 401, 403, 429}


async def test_s102_guesses_count_together_at_every_door(desk: Desk) -> None:
    app = await app_of(desk)
    fields = await form_of(desk, app.weak)
    good = app.code()
    wrong = [code for code in ("000000", "000001", "000002", "000003") if code != good][:3]

    first = [(await send(desk, app.weak, fields, code)).status for code in wrong]
    then = [(await app.sign_in(code, headers={"Cookie": app.weak})).status for code in wrong]

    assert (first, then) == ([401] * 3, [401, 401, 429])
    assert (await send(desk, app.weak, fields, good)).status == 429


async def test_s103_codes_of_others_and_used_ones_step_nothing_up(desk: Desk) -> None:
    ann, ben = await app_of(desk), await app_of(desk, "ben")
    fields = await form_of(desk, ann.weak)
    recovery = (await ann.recovery_codes())[0]

    assert (await send(desk, ann.weak, fields, ben.code())).status == 401
    stepped = await send(desk, ann.weak, fields, recovery)
    assert stepped.status == 303
    assert (await send(desk, ben.weak, await form_of(desk, ben.weak), recovery)).status == 401


async def test_the_session_of_another_tab_does_not_go_on_with_the_old_cookie(desk: Desk) -> None:
    app = await app_of(desk)
    fields = await form_of(desk, app.weak)
    stepped = await send(desk, app.weak, fields, app.code())
    desk.clock.step(30)

    again = await send(desk, app.weak, fields, app.code())

    assert again.status in {303, 403}
    assert "greatseal_session" not in " ".join(again.cookies)
    assert (await desk.get("/api/auth/me", cookie=stepped.cookie)).json["acr"] == TWO


async def test_a_passkey_is_a_way_too_and_the_session_keeps_its_id(tmp_path: Path) -> None:
    async with open_codes(tmp_path, "passkey", acr=LADDER, passkey={"rp_id": "localhost"}) as desk:
        keys, cookie, key = Passkeys(desk), await desk.cookie("ann"), SoftKey()
        await keys.register(cookie, key)
        asked = await desk.authorize(cookie, acr_values=TWO)
        page = await desk.get(asked.location, cookie=cookie, headers=BROWSER)
        back = parse_qs(urlsplit(asked.location).query)["return_to"][0]

        done = await keys.complete(
            {**key.answer(await keys.begin("ann@LOCALHOST"), desk.url), "return_to": back}, headers={"Cookie": cookie}
        )

        assert 'id="use-passkey"' in page.text
        assert 'name="code"' not in page.text
        assert (done.status, done.json["return_to"], done.json["acr"]) == (200, back, TWO)
        assert told(await desk.get(back, cookie=done.cookie))["code"]
