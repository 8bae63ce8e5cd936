"""Who must have a second factor, which browsers go without it for a while, and what ends that."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyotp
import pytest
from rig.softkeys import SoftKey
from security.idp_desk import BROWSER, PARALLEL, PASSWORD, Desk
from security.idp_federation import open_federation
from security.idp_otp import App, app_of, open_codes, secret_of
from security.idp_passkeys import Passkeys

from greatseal.api.declarations import Secret
from greatseal.testing.desk import Answer, hidden_fields, told
from greatseal_otp import tables as t
from greatseal_otp.wrong import MOST
from greatseal_users_file.edit import change_password

ENROL = "/login/enrol/codes"
DEVICES = "/api/me/otp-devices"
LOCK = "/api/admin/users/ann/otp-lock"
STEP = 30
DAY = 86_400


@pytest.fixture
async def desk(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    otp = {"required_groups": ["staff"], "remember_days": 30}
    async with open_codes(tmp_path, otp=otp, groups={"ben": ("staff",)}, database={"url": database_url}) as desk:
        yield desk


def jar(*answers: Answer, before: str = "") -> str:
    """The cookies that a browser has after these answers."""
    kept = dict(pair.split("=", 1) for pair in before.split("; ") if pair)
    for answer in answers:
        for one in answer.cookies:
            name, _, value = one.partition(";")[0].partition("=")
            kept[name] = value
            if not value:
                del kept[name]
    return "; ".join(f"{name}={value}" for name, value in kept.items())


async def typed(
    desk: Desk, username: str, *, cookie: str = "", return_to: str = "/account", password: str = PASSWORD
) -> tuple[Answer, str]:
    """The answer to name and password at the page, and the cookies after it."""
    page = await desk.get(f"/ui/auth/login?return_to={return_to}", cookie=cookie, headers=BROWSER)
    cookie = jar(page, before=cookie)
    form = {**hidden_fields(page, "login-form"), "username": username, "password": PASSWORD}
    answer = await desk.post("/login", data=form, cookie=cookie, headers=BROWSER)
    return answer, jar(answer, before=cookie)


async def enrolled(desk: Desk, cookie: str) -> tuple[Answer, Answer, str]:
    """The page with the QR code, the answer to its first code, and the key."""
    page = await desk.get(ENROL, cookie=cookie, headers=BROWSER)
    assert page.status == 200, page.text
    cookie = jar(page, before=cookie)
    made = await desk.post(f"{ENROL}/add", data={**hidden_fields(page, "add-form"), "label": "Phone"}, cookie=cookie, headers=BROWSER)
    assert made.status == 200, made.text
    uri = made.text.partition('id="open" href="')[2].partition('"')[0].replace("&amp;", "&")
    code = pyotp.parse_uri(uri).generate_otp(desk.clock.now() // 1_000_000 // STEP)
    form = {**hidden_fields(made, "confirm-form"), "code": code}
    return made, await desk.post(f"{ENROL}/confirm", data=form, cookie=cookie, headers=BROWSER), uri


async def remembered(desk: Desk, app: App) -> str:
    """The cookie of a device on which ann gave a code and does not want to be asked again."""
    answer = await app.sign_in(remember=True)
    assert answer.status == 200, answer.text
    desk.clock.step(STEP)
    (device,) = [one.partition(";")[0] for one in answer.cookies if "greatseal_device=" in one]
    return device


# ---- enrolment


async def test_who_must_have_a_second_factor_gets_one_before_there_is_a_session(desk: Desk) -> None:
    first, cookie = await typed(desk, "ben", return_to="/account/codes")
    assert (first.status, first.location) == (303, ENROL)
    assert "greatseal_session" not in " ".join(first.cookies)
    assert (await desk.get("/api/auth/me", cookie=cookie)).status == 401

    made, done, uri = await enrolled(desk, cookie)

    assert secret_of(uri) in made.text.replace(" ", "")
    assert (done.status, done.text.count("<li>")) == (200, 10)
    assert 'href="/account/codes"' in done.text
    me = (await desk.get("/api/auth/me", cookie=done.cookie)).json
    assert (me["sub"], me["amr"]) == ("ben@LOCALHOST", ["pwd", "otp", "mfa"])
    again, _ = await typed(desk, "ben")
    assert "Enter your code" in again.text


async def test_an_application_waits_while_an_app_is_added(desk: Desk) -> None:
    asked = await desk.authorize()
    back = asked.location.partition("return_to=")[2]
    first, cookie = await typed(desk, "ben", return_to=back)

    _, done, _ = await enrolled(desk, cookie)

    leads = done.text.partition('id="done" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert first.location == ENROL
    assert told(await desk.get(leads, cookie=done.cookie))["code"]


async def test_programs_are_told_where_a_second_factor_is_had(desk: Desk) -> None:
    answer = await desk.login("ben", PASSWORD)

    assert answer.outcome == (403, "factor_required")
    assert (answer.json["credentials"], answer.json["enrol"]) == (["PasswordAndCode"], ENROL)
    assert (await desk.login("ann", PASSWORD)).status == 200, "ann is in no such group"


async def test_s103_an_enrolment_needs_the_password_and_is_over_with_the_first_token(desk: Desk) -> None:
    assert (await desk.get(ENROL, headers=BROWSER)).location.startswith("/ui/auth/login")
    _, cookie = await typed(desk, "ben")
    _, done, _ = await enrolled(desk, cookie)
    assert done.status == 200

    for answer in (
        await desk.get(ENROL, cookie=cookie, headers=BROWSER),
        await desk.post(f"{ENROL}/add", data={"label": "Mine"}, cookie=cookie, headers=BROWSER),
        await desk.post(f"{ENROL}/confirm", data={"code": "1"}, cookie=cookie, headers=BROWSER),
    ):
        assert answer.location.startswith("/ui/auth/login"), "the ticket of the same minutes adds no second app"
    assert len(await desk.rows(t.token)) == 1


async def test_an_enrolment_ends_with_the_password_that_began_it(desk: Desk) -> None:
    _, cookie = await typed(desk, "ben")
    change_password(desk.folder / "users.toml", "ben", "another battery staple", desk.clock.now)
    desk.clock.step(5)

    answer = await desk.get(ENROL, cookie=cookie, headers=BROWSER)

    assert answer.location.startswith("/ui/auth/login")


async def test_s066_forms_of_an_enrolment_come_from_its_pages(desk: Desk) -> None:
    _, cookie = await typed(desk, "ben")

    for path, form in (("add", {"label": "x"}), ("confirm", {"token_id": "x", "code": "1"})):
        answer = await desk.post(f"{ENROL}/{path}", data={**form, "form_token": "made up"}, cookie=cookie, headers=BROWSER)
        assert answer.status == 403
    assert await desk.rows(t.token) == []


async def test_what_is_typed_wrong_is_said_and_can_be_mended(desk: Desk) -> None:
    _, cookie = await typed(desk, "ben")
    page = await desk.get(ENROL, cookie=cookie, headers=BROWSER)
    fields = hidden_fields(page, "add-form")

    nameless = await desk.post(f"{ENROL}/add", data={**fields, "label": " "}, cookie=cookie, headers=BROWSER)
    made = await desk.post(f"{ENROL}/add", data={**fields, "label": "Phone"}, cookie=cookie, headers=BROWSER)
    confirm = hidden_fields(made, "confirm-form")
    wrong = await desk.post(f"{ENROL}/confirm", data={**confirm, "code": "000000"}, cookie=cookie, headers=BROWSER)
    gone = await desk.post(f"{ENROL}/confirm", data={**confirm, "token_id": "x", "code": "1"}, cookie=cookie, headers=BROWSER)

    assert (nameless.status, "No app was added" in nameless.text) == (400, True)
    assert (wrong.status, "not in use yet" in wrong.text, "otpauth" in wrong.text) == (400, True, False)
    assert (gone.status, 'id="add-form"' in gone.text) == (200, True)


async def test_who_has_a_passkey_uses_it_and_enrols_in_nothing(tmp_path: Path) -> None:
    otp = {"required_groups": ["staff"]}
    async with open_codes(tmp_path, "passkey", passkey={"rp_id": "localhost"}) as desk:
        keys, key = Passkeys(desk), SoftKey()
        await keys.register(await desk.cookie("ann"), key)
    async with open_codes(tmp_path, "passkey", otp=otp, passkey={"rp_id": "localhost"}, groups={"ann": ("staff",)}) as desk:
        answer = await desk.login("ann", PASSWORD)
        page, _ = await typed(desk, "ann")

        assert (answer.outcome, answer.json["credentials"], "enrol" in answer.json) == ((403, "factor_required"), ["passkey"], False)
        assert (page.status, "Sign in with a passkey" in page.text) == (403, True)
        assert (await Passkeys(desk).sign_in(key)).status == 200


# ---- devices


async def test_a_remembered_device_is_asked_for_the_password_alone_and_says_so(desk: Desk) -> None:
    app = await app_of(desk)
    device = await remembered(desk, app)

    answer = await desk.login("ann", PASSWORD, cookie=device)

    assert (answer.status, answer.json["amr"]) == (200, ["pwd"]), "what was not proven is not claimed"
    assert (await desk.login("ann", PASSWORD)).outcome == (403, "factor_required")
    assert (await desk.login("ann", "wrong", cookie=device)).status == 401
    (row,) = await desk.rows(t.device)
    assert device.partition("=")[2].encode() not in bytes(row.digest) + bytes(row.sealed)
    (listed,) = (await desk.get(DEVICES, cookie=answer.cookie)).json
    assert listed.keys() == {"device_id", "label", "created_at", "last_used_at", "expires_at"}
    assert listed["expires_at"] == listed["created_at"] + 30 * DAY
    assert "Devices without a code" in (await desk.get("/account", cookie=answer.cookie, headers=BROWSER)).text


async def test_the_page_of_the_code_offers_it_and_only_who_asks_is_remembered(desk: Desk) -> None:
    app = await app_of(desk)
    page, cookie = await typed(desk, "ann")

    assert "Do not ask for a code on this device for 30 days" in page.text
    form = {**hidden_fields(page, "code-form"), "code": app.code(), "remember": "yes"}
    done = await desk.post("/login", data=form, cookie=cookie, headers=BROWSER)
    desk.clock.step(STEP)

    assert done.status == 303
    again, _ = await typed(desk, "ann", cookie=jar(done, before=cookie).replace("greatseal_session", "gone"))
    assert again.location == "/account"
    assert not any("greatseal_device" in one for one in (await app.sign_in()).cookies)


async def test_s103_a_device_is_one_person_s_and_a_recovery_code_makes_none(desk: Desk) -> None:
    ann = await app_of(desk)
    device = await remembered(desk, ann)
    codes = await ann.recovery_codes()

    answer = await ann.sign_in(codes[0], remember=True)
    assert (answer.status, [one for one in answer.cookies if "device" in one]) == (200, [])
    _, cookie = await typed(desk, "ben")
    _, done, _ = await enrolled(desk, cookie)
    assert done.status == 200
    assert (await desk.login("ben", PASSWORD, cookie=device)).outcome == (403, "factor_required")
    assert (await desk.login("ann", PASSWORD, cookie=device)).status == 200, "whoever else tries it does not end it"


@pytest.mark.parametrize("ended_by", ["password", "token", "deleted", "person", "administrator", "days", "forged"])
async def test_what_ends_a_remembered_device(desk: Desk, ended_by: str) -> None:
    app = await app_of(desk)
    device = await remembered(desk, app)
    (row,) = await desk.rows(t.device)
    password = PASSWORD
    whole = (await app.sign_in()).cookie
    desk.clock.step(STEP)
    match ended_by:
        case "password":
            password = "another battery staple"
            change_password(desk.folder / "users.toml", "ann", password, desk.clock.now)
            desk.clock.step(5)
        case "token":
            other = App(desk, "ann", whole)
            await other.scan("Tablet")
            assert (await other.confirm()).status == 204
        case "deleted":
            other = App(desk, "ann", whole)
            await other.scan("Tablet")
            assert (await other.confirm()).status == 204
            device = await remembered(desk, other)
            assert (await other.delete()).status == 204
        case "person":
            assert (await desk.ask("DELETE", f"{DEVICES}/{row.device_id}", cookie=whole)).status == 204
        case "administrator":
            assert (await desk.ask("DELETE", "/api/admin/users/ann/otp-tokens", cookie=desk.admin)).status == 200
            await app_of(desk)
        case "days":
            desk.clock.step(30 * DAY)
        case "forged":
            sealed = {"sealed": bytes(row.sealed)[:-1] + bytes([bytes(row.sealed)[-1] ^ 1])}
            await desk.service.kernel.store.write(lambda tx: tx.put(t.DEVICE, row.device_id, **sealed))

    answer = await desk.login("ann", password, cookie=device)

    assert answer.status in ({403, 500, 503} if ended_by == "forged" else {403}), answer.text
    if ended_by not in {"days", "forged"}:
        assert device not in str(await desk.rows(t.device))
        assert (await desk.events("otp_device_forgotten"))[-1].sub == "ann@LOCALHOST"


async def test_s070_a_device_of_somebody_else_is_not_there(desk: Desk) -> None:
    ann = await app_of(desk)
    await remembered(desk, ann)
    (row,) = await desk.rows(t.device)

    answer = await desk.ask("DELETE", f"{DEVICES}/{row.device_id}", cookie=desk.admin)

    assert answer.outcome == (404, "not_found")
    assert (await desk.get(DEVICES, cookie=desk.admin)).json == []
    assert len(await desk.rows(t.device)) == 1


async def test_fifty_sign_ins_of_one_device_all_succeed_and_none_after_it_was_taken_back(desk: Desk) -> None:
    app = await app_of(desk)
    device = await remembered(desk, app)
    whole = (await app.sign_in()).cookie
    (row,) = await desk.rows(t.device)

    good = await asyncio.gather(*(desk.login("ann", PASSWORD, cookie=device) for _ in range(PARALLEL // 5)))
    assert (await desk.ask("DELETE", f"{DEVICES}/{row.device_id}", cookie=whole)).status == 204
    after = await asyncio.gather(*(desk.login("ann", PASSWORD, cookie=device) for _ in range(PARALLEL // 5)))

    assert {answer.status for answer in good} == {200}
    assert {answer.status for answer in after} == {403}


async def test_ten_devices_are_the_most_and_the_days_of_others_end(desk: Desk) -> None:
    app = await app_of(desk)
    devices = [await remembered(desk, app) for _ in range(11)]

    assert (await desk.login("ann", PASSWORD, cookie=devices[0])).status == 403
    assert (await desk.login("ann", PASSWORD, cookie=devices[1])).status == 200
    desk.clock.step(31 * DAY)
    parts: Any = desk.service.kernel.hooks.instances["otp"]
    desk.clock.passed = desk.clock.now  # type: ignore[method-assign]
    await parts.parts(desk.service.host("otp")).sweep()
    assert await desk.rows(t.device) == []


async def test_a_session_without_the_code_changes_no_factor(desk: Desk) -> None:
    app = await app_of(desk)
    device = await remembered(desk, app)
    plain = (await desk.login("ann", PASSWORD, cookie=device)).cookie

    page = await desk.get("/account/codes", cookie=plain, headers=BROWSER)
    answers = [
        await desk.post("/api/me/otp-tokens", json={"label": "Mine"}, cookie=plain),
        await desk.ask("DELETE", f"/api/me/otp-tokens/{app.token_id}", cookie=plain),
        await desk.post("/api/me/recovery-codes", cookie=plain),
    ]

    assert [answer.outcome for answer in answers] == [(401, "login_required")] * 3
    assert ('id="prove"' in page.text, 'id="add"' in page.text) == (True, False)
    form = {**hidden_fields(await desk.get("/account", cookie=plain, headers=BROWSER), "logout-form"), "label": "x"}
    refused = await desk.post("/account/codes/add", data=form, cookie=plain, headers=BROWSER)
    assert refused.location == "/ui/auth/step-up?return_to=%2Faccount%2Fcodes"
    prove = await desk.get(refused.location, cookie=plain, headers=BROWSER)
    form = {**hidden_fields(prove, "login-form"), "code": app.code()}
    stepped = await desk.post("/login/step-up", data=form, cookie=plain, headers=BROWSER)
    assert stepped.location == "/account/codes"
    assert (await desk.post("/api/me/otp-tokens", json={"label": "Mine"}, cookie=stepped.cookie)).status == 201


async def test_s103_a_session_without_the_code_makes_no_passkey_and_deletes_none(tmp_path: Path) -> None:
    """A passkey would be worth more than the code that was not given."""
    async with open_codes(tmp_path, "passkey", otp={"remember_days": 30}) as desk:
        passkeys, own = Passkeys(desk), SoftKey()
        app = await app_of(desk)
        made = await passkeys.register(app.cookie, own)
        device = await remembered(desk, app)
        plain = (await desk.login("ann", PASSWORD, cookie=device)).cookie

        answers = [
            await desk.post("/api/auth/passkey/register/begin", cookie=plain, json={}),
            await passkeys.send(plain, SoftKey().make(await passkeys.offer(app.cookie), desk.url)),
            await desk.ask("DELETE", f"/api/auth/passkeys/{made['id']}", cookie=plain),
        ]
        page = await desk.get("/account/passkeys", cookie=plain, headers=BROWSER)

        assert [answer.outcome for answer in answers] == [(401, "login_required")] * 3
        assert page.location == "/ui/auth/step-up?return_to=%2Faccount%2Fpasskeys"
        prove = await desk.get(page.location, cookie=plain, headers=BROWSER)
        form = {**hidden_fields(prove, "login-form"), "code": app.code()}
        stepped = await desk.post("/login/step-up", data=form, cookie=plain, headers=BROWSER)
        assert (await desk.get("/account/passkeys", cookie=stepped.cookie, headers=BROWSER)).status == 200
        await passkeys.register(stepped.cookie, SoftKey())


async def test_s103_a_session_without_the_code_links_no_account_elsewhere_and_unlinks_none(tmp_path: Path) -> None:
    otp = {"remember_days": 30}
    async with open_federation(tmp_path, features=("otp",), table={"self_service": True}, otp=otp) as federation:
        desk = federation.desk
        linked = await federation.link()
        app = await app_of(desk)
        device = await remembered(desk, app)
        plain = (await desk.login("ann", PASSWORD, cookie=device)).cookie

        page = await desk.get("/account/connections", cookie=plain, headers=BROWSER)
        form = hidden_fields(await desk.get("/account", cookie=plain, headers=BROWSER), "logout-form")
        answers = [
            await desk.post("/account/connections/link", data={**form, "upstream": "partner"}, cookie=plain, headers=BROWSER),
            await desk.post("/account/connections", data={**form, "id": linked["id"]}, cookie=plain, headers=BROWSER),
        ]

        assert [one.location for one in (page, *answers)] == ["/ui/auth/step-up?return_to=%2Faccount%2Fconnections"] * 3
        left = (await desk.get("/api/admin/federated-accounts", cookie=desk.admin)).json
        assert [one["id"] for one in left] == [linked["id"]]


# ---- wrong codes, for however long


async def test_s102_a_hundred_wrong_codes_in_a_row_end_all_guessing(desk: Desk) -> None:
    app = await app_of(desk)
    recovery = await app.recovery_codes()
    codes = desk.service.kernel.hooks.instances["otp"].parts(desk.service.host("otp")).codes
    holder = await codes.holder("ann@LOCALHOST")
    await asyncio.gather(*(codes.use(holder, None, Secret("x")) for _ in range(MOST)))

    locked = await app.sign_in()
    assert (locked.status, "recovery code" in locked.text) == (403, True)
    assert len(await desk.events("otp_locked")) == 1
    assert (await app.sign_in(recovery[0])).status == 200
    assert (await app.sign_in()).status == 200
    assert await desk.rows(t.wrong) == []


async def test_an_administrator_takes_codes_again(desk: Desk) -> None:
    app = await app_of(desk)
    assert (await app.sign_in("000000")).status == 401

    assert (await desk.ask("DELETE", LOCK, cookie=app.cookie)).outcome == (403, "forbidden")
    assert (await desk.ask("DELETE", LOCK, cookie=desk.admin)).status == 204
    assert (await desk.ask("DELETE", LOCK, cookie=desk.admin)).outcome == (404, "not_found")
    assert await desk.rows(t.wrong) == []


# ---- clients


async def test_a_client_may_need_a_second_factor_of_everybody(desk: Desk) -> None:
    two = "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified"
    client = await desk.registered(required_acr_values=[two])
    assert client["required_acr_values"] == [two]
    other = await desk.registered(required_acr_values=["urn:example:nobody"])
    cookie = await desk.cookie("ann")

    assert told(await desk.authorize(cookie, client_id=client["client_id"]))["code"]
    refused = told(await desk.authorize(cookie, client_id=other["client_id"], prompt="none"))
    assert refused["error"] == "unmet_authentication_requirements"
