"""Authorization: Negotiate at /authorize and at the sign-in page (RFC 4559): the session that it makes is used at once."""

import pytest

from greatseal.api.directory import AccountState
from greatseal.testing.distributions import install
from greatseal_idp import tables as t

SPNEGO = '''
from greatseal import hookimpl
from greatseal.api.identity import Authenticated, Authenticator, Continue, Denied, NegotiateHeader, NotMine
from greatseal.api.kerberos import NegotiateRefused


class Spnego(Authenticator[NegotiateHeader]):
    """The token is the name."""

    name = "spnego"
    credential = NegotiateHeader

    async def attempt(self, credential, context):
        token = credential.call.headers["Authorization"].partition(" ")[2]
        match token:
            case "half":
                return Continue(headers=(("WWW-Authenticate", "Negotiate more"),))
            case "refused":
                raise NegotiateRefused("the token does not authenticate")
            case "denied":
                raise Denied("no")
            case "absent":
                return NotMine()
        return Authenticated(username=token, realm="LOCALHOST", amr=("kerberos",), headers=(("WWW-Authenticate", "Negotiate done"),))


class Plugin:
    @hookimpl
    def authenticators(self, host):
        return [Spnego()]
'''
PAGE = "/ui/auth/login?return_to=%2Fauthorize%3Fx%3D1"


def negotiate(token):
    return {"Authorization": f"Negotiate {token}", "Accept": "text/html"}


@pytest.fixture
async def desk(open_idp, tmp_path):
    return await open_idp(install(tmp_path / "installed", "greatseal-negotiates", SPNEGO))


@pytest.fixture
async def trusted(desk, register_app):
    """An application that needs no consent."""
    return await register_app(desk, consent="implicit")


async def test_idp_200_the_flow_goes_on_in_the_same_request(desk, trusted):
    answer = await trusted.ask(headers=negotiate("alice"))

    assert "code" in trusted.told(answer)
    assert answer.headers["WWW-Authenticate"] == "Negotiate done"
    me = await desk.get("/api/auth/me", cookie=answer.cookie)
    assert (me.json["sub"], me.json["amr"]) == ("alice@LOCALHOST", ["kerberos"])


async def test_the_consent_of_a_person_who_came_so_is_theirs(desk, app):
    asked = await app.ask(headers=negotiate("bob"))

    assert asked.location.startswith("/api/auth/consent?")
    assert "<strong>bob</strong>" in (await desk.get(asked.location, cookie=asked.cookie, headers={"Accept": "text/html"})).text


@pytest.mark.parametrize("scheme", ["Negotiate", "negotiate"])
async def test_idp_224_the_sign_in_page_sets_the_cookie_and_returns(desk, scheme):
    answer = await desk.get(PAGE, headers={"Authorization": f"{scheme} alice"})

    assert (answer.status, answer.location) == (302, "/authorize?x=1")
    assert answer.headers["WWW-Authenticate"] == "Negotiate done"
    assert (await desk.get("/api/auth/me", cookie=answer.cookie)).json["sub"] == "alice@LOCALHOST"


async def test_idp_201_idp_225_another_leg_is_401(desk, app):
    for answer in (await app.ask(headers=negotiate("half")), await desk.get(PAGE, headers=negotiate("half"))):
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Negotiate more")
        assert not answer.cookies


@pytest.mark.parametrize("headers", [{}, negotiate("refused"), negotiate("denied"), negotiate("absent"), {"Authorization": "Basic YTpi"}])
async def test_idp_226_a_header_that_proves_nobody_is_the_page(desk, app, cookie, headers):
    page = await desk.get(PAGE, headers=headers)
    stranger = await app.ask(headers=headers)
    known = await app.ask(cookie, headers=headers)

    assert (page.status, '<form id="login-form"' in page.text) == (200, True)
    assert stranger.location.startswith("/ui/auth/login?")
    assert known.location.startswith("/api/auth/consent?")


async def test_idp_207_a_refusal_has_the_cookie_of_the_session_too(desk):
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    page = await desk.post("/authorize", data=b"", headers=negotiate("alice") | form)
    program = await desk.post("/authorize", data=b"", headers={"Authorization": "Negotiate alice"} | form)

    for answer in (page, program):
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (400, "Negotiate done")
    assert (await desk.get("/api/auth/me", cookie=program.cookie)).status == 200
    assert program.json == {"error": "invalid_request", "error_description": "client_id required"}


async def test_an_account_that_may_not_sign_in_gets_no_session(desk, app):
    desk.people.change("alice", state=AccountState(disabled=True))

    for answer in (await app.ask(headers=negotiate("alice")), await desk.get(PAGE, headers=negotiate("alice"))):
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (403, "Negotiate done")
    assert await desk.rows(t.session) == []


async def test_where_more_is_wanted_the_page_is_shown(desk):
    desk.people.change("alice", authentication_types=("otp",))

    answer = await desk.get(PAGE, headers=negotiate("alice"))

    assert (answer.status, answer.headers["WWW-Authenticate"]) == (200, "Negotiate done")
    assert await desk.rows(t.session) == []


async def test_an_expired_password_leads_to_its_change(desk):
    desk.people.change("alice", state=AccountState(password_expired=True))

    answer = await desk.get(PAGE, headers=negotiate("alice"))

    assert (answer.status, answer.location.partition("?")[0]) == (303, "/login/change-password")
    assert answer.headers["WWW-Authenticate"] == "Negotiate done"


async def test_without_anybody_who_reads_the_header_it_is_not_looked_at(open_idp):
    desk = await open_idp()

    answer = await desk.get(PAGE, headers=negotiate("alice"))

    assert (answer.status, answer.cookies[0].partition("=")[0]) == (200, "greatseal_form")
