"""The `[[acr]]` ladder: what a sign-in is worth, what applications ask for, and how a session becomes worth more (RFC 9470)."""

import re
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from greatseal.api.directory import AccountState
from greatseal.api.factors import Factor
from greatseal.api.problems import StartProblem
from greatseal.testing import FakeClock
from greatseal.testing.desk import hidden_fields
from greatseal.testing.distributions import install
from greatseal_idp import tables as t

ONE, TWO, THREE, OTHER = (f"urn:example:{word}" for word in ("one", "two", "three", "other"))
LADDER = [
    {"value": ONE, "level": 1, "satisfied_by": ["pwd"]},
    {"value": TWO, "level": 2, "satisfied_by": ["pwd+otp", "mfa"]},
    {"value": THREE, "level": 3, "satisfied_by": ["hwk+user"]},
]
PAGE = "/ui/auth/step-up"
HTML = {"Accept": "text/html"}
MINUTE = 60
ESSENTIAL = '{"id_token": {"acr": {"essential": true, "values": ["%s"]}}}'

FACTOR = """
from greatseal import hookimpl
from greatseal.api.factors import Factor


class Codes(Factor):
    name = "codes"
    amr = ("otp", "mfa")
    page = "/account/codes"
    words = "Add an app"
    meanwhile = None

    def __init__(self):
        self.holders = {"alice"}
        self.codes = {"111111", "222222"}

    async def held(self, subject, user):
        return user.username in self.holders

    async def prove(self, subject, user, code):
        if self.meanwhile is not None:
            await self.meanwhile()
        if user.username not in self.holders or code.value not in self.codes:
            return False
        self.codes.remove(code.value)
        return True


class Plugin:
    @hookimpl
    def components(self):
        return [Codes()]
"""


@pytest.fixture
def clock():
    return FakeClock(1_800_000_000_000_000)


@pytest.fixture
async def desk(open_idp, tmp_path, clock):
    rbac = {"role": [{"name": "root", "permissions": ["*"], "users": ["alice"]}]}
    return await open_idp(install(tmp_path / "installed", "greatseal-codes", FACTOR), clock=clock, acr=LADDER, rbac=rbac)


@pytest.fixture
async def app(desk, register_app):
    return await register_app(desk, consent="implicit")


def codes_of(desk):
    (codes,) = desk.service.host("idp").components(Factor).values()
    return codes


def return_to(answer):
    """The path and where it leads back to, of a redirect to a page of ours."""
    parts = urlsplit(answer.location)
    return parts.path, parse_qs(parts.query)["return_to"][0]


async def prove(desk, cookie, back, code="111111", **changes):
    """Open the page and give a code there."""
    page = await desk.get(f"{PAGE}?return_to={back.replace('?', '%3F').replace('=', '%3D')}", cookie=cookie, headers=HTML)
    assert page.status == 200, page.text
    form = {**hidden_fields(page, "login-form"), "code": code, **changes}
    return await desk.post("/login/step-up", data=form, cookie=cookie, headers=HTML)


async def introspected(app, code):
    token = (await app.redeem(code)).json["access_token"]
    return (await app.desk.post("/introspect", data={"token": token}, headers=app.credentials)).json


async def me(desk, cookie):
    return (await desk.get("/api/auth/me", cookie=cookie)).json


async def test_a_session_has_the_strongest_rung_that_its_methods_reach(desk):
    assert (await me(desk, await desk.cookie("alice")))["acr"] == ONE
    desk.people.amr = ("hwk", "user", "mfa")
    assert (await me(desk, await desk.cookie("alice")))["acr"] == THREE
    desk.people.amr = ("kerberos",)
    assert (await me(desk, await desk.cookie("alice")))["acr"].endswith(":unspecified")


async def test_the_values_are_in_the_metadata(desk, open_idp):
    document = (await desk.get("/.well-known/openid-configuration")).json

    assert document["acr_values_supported"] == [THREE, TWO, ONE, "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified"]
    assert "acr_values_supported" not in (await (await open_idp()).get("/.well-known/openid-configuration")).json


async def test_s064_s104_a_session_steps_up_with_what_it_lacks_alone_and_keeps_its_name(desk, app, clock):
    cookie = await desk.cookie("alice")
    (before,) = await desk.rows(t.session)
    clock.advance(10 * MINUTE)

    asked = await app.ask(cookie, acr_values=TWO)
    page, back = return_to(asked)
    stepped = await prove(desk, cookie, back)

    assert page == PAGE
    assert (stepped.status, stepped.location) == (303, back)
    (row,) = await desk.rows(t.session)
    assert (row.id, row.acr, row.digest == before.digest) == (before.id, TWO, False)
    assert row.auth_time == before.auth_time + 10 * MINUTE * 1_000_000
    assert (await desk.get("/api/auth/me", cookie=cookie)).status == 401
    token = await introspected(app, app.told(await desk.get(back, cookie=stepped.cookie))["code"])
    assert (token["acr"], token["amr"], token["auth_time"]) == (TWO, ["pwd", "otp", "mfa"], row.auth_time // 1_000_000)
    assert app.told(await app.ask(stepped.cookie, acr_values=TWO, prompt="none"))["code"]


async def test_the_page_asks_for_a_code_and_no_password(desk, app):
    cookie = await desk.cookie("alice")

    page = await desk.get((await app.ask(cookie, acr_values=TWO)).location, cookie=cookie, headers=HTML)

    assert 'name="code"' in page.text
    assert "password" not in page.text.replace("password alone", "")
    assert "The shop" in page.text


@pytest.mark.parametrize("asked", [{"acr_values": f"{OTHER} {TWO}"}, {"claims": ESSENTIAL.replace('"essential": true, ', "") % TWO}])
async def test_a_wish_is_granted_where_it_can_be(desk, app, asked):
    cookie, bob = await desk.cookie("alice"), await desk.cookie("bob")

    assert return_to(await app.ask(cookie, **asked))[0] == PAGE
    assert app.told(await app.ask(cookie, prompt="none", **asked))["code"], "nobody may be asked, and a wish is no condition"
    assert app.told(await app.ask(bob, **asked))["code"], "bob has nothing more to prove"


async def test_default_acr_values_are_a_wish_of_the_registration(desk, register_app):
    app = await register_app(desk, consent="implicit", default_acr_values=[TWO])
    cookie = await desk.cookie("alice")

    assert return_to(await app.ask(cookie))[0] == PAGE
    assert app.told(await app.ask(cookie, acr_values=ONE))["code"], "what the request says comes first"


async def test_an_essential_value_is_a_condition(desk, app):
    cookie, bob = await desk.cookie("alice"), await desk.cookie("bob")

    assert app.told(await app.ask(cookie, claims=ESSENTIAL % TWO, prompt="none"))["error"] == "login_required"
    assert app.told(await app.ask(cookie, claims=ESSENTIAL % OTHER, prompt="none"))["error"] == "unmet_authentication_requirements"
    page, back = return_to(await app.ask(bob, claims=ESSENTIAL % TWO))
    shown = await desk.get(f"{PAGE}?return_to={back.replace('?', '%3F').replace('=', '%3D')}", cookie=bob, headers=HTML)
    assert (page, 'id="add-codes"' in shown.text, 'name="code"' in shown.text) == (PAGE, True, False)
    codes_of(desk).holders.add("bob")
    stepped = await prove(desk, bob, back)
    assert (await introspected(app, app.told(await desk.get(back, cookie=stepped.cookie))["code"]))["acr"] == TWO


async def test_what_no_way_reaches_is_refused_after_a_sign_in(desk, app):
    asked = await app.ask(claims=ESSENTIAL % THREE)
    back = unquote(asked.location.partition("return_to=")[2])

    assert app.told(await desk.get(back, cookie=await desk.cookie("alice")))["error"] == "unmet_authentication_requirements"


async def test_a_client_is_told_the_value_that_it_asked_for_though_the_session_is_worth_more(desk, app):
    desk.people.amr = ("hwk", "user", "mfa")
    cookie = await desk.cookie("alice")

    for asked, told in (({}, THREE), ({"acr_values": f"{TWO} {ONE}"}, TWO), ({"claims": ESSENTIAL % ONE, "acr_values": TWO}, ONE)):
        assert (await introspected(app, app.told(await app.ask(cookie, **asked))["code"]))["acr"] == told


async def test_max_age_comes_first_and_then_the_code(desk, app, clock):
    cookie = await desk.cookie("alice")
    clock.advance(5 * MINUTE)

    asked = await app.ask(cookie, acr_values=TWO, max_age="60")
    page, back = return_to(asked)
    assert page == "/ui/auth/login"
    again = (await desk.login("alice", cookie=cookie)).cookie
    page, back = return_to(await desk.get(back, cookie=again))
    assert page == PAGE
    clock.advance(2 * MINUTE)
    stepped = await prove(desk, again, back)

    assert (await introspected(app, app.told(await desk.get(back, cookie=stepped.cookie))["code"]))["acr"] == TWO


async def test_wishes_are_short(desk, app):
    asked = await app.ask(await desk.cookie("alice"), acr_values=f"{ONE} " * 80)

    assert app.told(asked)["error"] == "invalid_request"


async def test_who_turns_back_without_a_code_has_gained_nothing(desk, app):
    cookie = await desk.cookie("alice")
    page, back = return_to(await app.ask(cookie, claims=ESSENTIAL % TWO))

    assert return_to(await desk.get(back, cookie=cookie))[0] == page == PAGE


async def test_s102_wrong_codes_count_with_wrong_passwords(desk, app):
    cookie = await desk.cookie("alice")
    _, back = return_to(await app.ask(cookie, acr_values=TWO))
    for number in range(5):
        assert (await prove(desk, cookie, back, code=f"00000{number}")).status == 401

    assert (await prove(desk, cookie, back)).status == 429
    assert (await desk.login("alice", cookie=cookie)).status == 429
    assert codes_of(desk).codes == {"111111", "222222"}
    assert len(await desk.events("login_failure")) == 5


async def test_a_session_that_ended_meanwhile_stays_ended(desk, app):
    cookie = await desk.cookie("alice")
    _, back = return_to(await app.ask(cookie, acr_values=TWO))
    (row,) = await desk.rows(t.session)

    async def end():
        await desk.provider.login.end(row.id)

    codes_of(desk).meanwhile = end

    answer = await prove(desk, cookie, back)

    assert answer.status in {303, 401}
    assert "greatseal_session" not in " ".join(answer.cookies)
    assert await desk.rows(t.session) == []


async def test_an_account_that_may_not_sign_in_steps_nowhere(desk, app):
    cookie = await desk.cookie("alice")
    asked = await app.ask(cookie, acr_values=TWO)
    form = {**hidden_fields(await desk.get(asked.location, cookie=cookie, headers=HTML), "login-form"), "code": "111111"}
    desk.people.change("alice", state=AccountState(disabled=True))

    assert (await desk.get(asked.location, cookie=cookie, headers=HTML)).status == 403
    assert (await desk.post("/login/step-up", data=form, cookie=cookie, headers=HTML)).status == 403
    assert codes_of(desk).codes == {"111111", "222222"}


@pytest.mark.parametrize(
    ("changes", "status"), [({"form_token": "made up"}, 403), ({"factor": "passkey"}, 400), ({"factor": ""}, 400), ({"code": ""}, 400)]
)
async def test_s066_a_form_that_is_not_of_the_page_proves_nothing(desk, app, changes, status):
    cookie = await desk.cookie("alice")
    _, back = return_to(await app.ask(cookie, acr_values=TWO))

    assert (await prove(desk, cookie, back, **{"code": "111111", **changes})).status == status
    assert (await me(desk, cookie))["acr"] == ONE


async def test_who_is_not_signed_in_is_led_to_the_sign_in_page(desk):
    for answer in (await desk.get(f"{PAGE}?return_to=%2Faccount"), await desk.post("/login/step-up", data={"return_to": "/account"})):
        assert (answer.status, answer.location) == (303, "/ui/auth/login?return_to=%2Faccount")


async def test_who_asks_for_the_page_proves_what_they_can_and_is_led_back(desk):
    cookie = await desk.cookie("alice")

    assert (await me(desk, (await prove(desk, cookie, "/account")).cookie))["acr"] == TWO
    cookie = await desk.cookie("bob")

    for asked, back in (("/account", "/account"), ("https://elsewhere.example/", "/account")):
        assert (await desk.get(f"{PAGE}?return_to={asked}", cookie=cookie)).location == back


# ---- the admin API


@pytest.fixture
async def strict(open_idp, tmp_path, clock):
    rbac = {"role": [{"name": "root", "permissions": ["*"], "users": ["alice"]}], "admin_acr_values": [TWO]}
    return await open_idp(install(tmp_path / "installed", "greatseal-codes", FACTOR), clock=clock, acr=LADDER, rbac=rbac)


async def test_the_admin_api_wants_a_stronger_sign_in_and_says_how(strict):
    desk, cookie = strict, await strict.cookie("alice")

    refused = await desk.get("/api/admin/clients", cookie=cookie)

    assert refused.outcome == (401, "insufficient_user_authentication")
    assert 'Bearer error="insufficient_user_authentication"' in refused.headers["WWW-Authenticate"]
    assert f'acr_values="{TWO}"' in refused.headers["WWW-Authenticate"]
    assert refused.json["acr_values"] == [TWO]
    assert refused.json["step_up_url"] == f"{desk.url}{PAGE}?return_to=%2Faccount"
    stepped = await prove(desk, cookie, "/account")
    assert (stepped.location, (await desk.get("/api/admin/clients", cookie=stepped.cookie)).status) == ("/account", 200)


async def test_who_has_no_role_is_not_told_of_a_stronger_sign_in(strict):
    assert (await strict.get("/api/admin/clients", cookie=await strict.cookie("bob"))).outcome == (403, "forbidden")


async def test_a_stronger_sign_in_than_wanted_will_do(strict):
    strict.people.amr = ("hwk", "user", "mfa")

    assert (await strict.get("/api/admin/clients", cookie=await strict.cookie("alice"))).status == 200


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"acr": [LADDER[0], {**LADDER[1], "level": 1}]}, "[[acr]] level: 1 stands there 2 times"),
        ({"acr": [LADDER[0], {**LADDER[1], "value": ONE}]}, f"[[acr]] value: {ONE} stands there 2 times"),
        ({"acr": [{**LADDER[0], "satisfied_by": ["pwd+mfaa"]}]}, "did you mean 'mfa'?"),
        ({"acr": [{**LADDER[0], "satisfied_by": ["pwd otp x"]}]}, "no method is called 'pwd otp x'"),
        ({"acr": LADDER, "rbac": {"admin_acr_values": ["urn:example:tow"]}}, "[rbac] admin_acr_values: 'urn:example:tow'"),
    ],
)
async def test_a_ladder_that_cannot_stand_stops_the_start(open_idp, sections, said):
    with pytest.raises(StartProblem, match=re.escape(said)):
        await open_idp(**sections)
