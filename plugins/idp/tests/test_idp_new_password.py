"""A new password ends the sessions of before, and nobody who signs in with it is thrown out."""

from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from greatseal.api.directory import AccountState, Directory
from greatseal.api.identity import Authenticator
from greatseal.testing import FakeClock
from greatseal_idp import tables as t

START = 1_800_000_000_000_000
ME = "/api/auth/me"


@pytest.fixture
def clock():
    return FakeClock(START)


@pytest.fixture
async def idp(open_idp, clock):
    return await open_idp(clock=clock)


def change(idp, moment, **state):
    """The directory says that alice's password was set then."""
    idp.people.change("alice", password_changed_at=moment, state=AccountState(**state))


@pytest.mark.parametrize("path", [ME, "/api/auth/profile", "/api/admin/clients"])
async def test_s064_a_session_of_before_is_ended_wherever_it_comes(idp, clock, path):
    cookie = await idp.cookie()
    clock.advance(1)
    change(idp, clock.now())

    answer = await idp.get(path, cookie=cookie)

    assert (answer.status, answer.json["error"]) == (401, "unauthenticated")
    assert await idp.rows(t.session) == []
    (event,) = await idp.events("session_revoked")
    assert event.sub == "alice@LOCALHOST"


async def test_s064_a_session_that_began_ahead_of_time_does_not_outlive_the_password(idp, clock):
    clock.step(3600)
    cookie = await idp.cookie()
    clock.step(-3600)
    clock.advance(60)
    change(idp, clock.now())

    assert (await idp.get(ME, cookie=cookie)).status == 401


async def test_a_clock_that_is_set_back_a_little_ends_no_session(idp, clock):
    change(idp, clock.now() - 1)
    cookie = await idp.cookie()
    clock.step(-90)

    assert (await idp.get(ME, cookie=cookie)).status == 200


async def test_the_account_page_leads_to_the_sign_in(idp, clock):
    cookie = await idp.cookie()
    clock.advance(1)
    change(idp, clock.now())

    answer = await idp.get("/account", cookie=cookie)

    assert answer.status == 302
    assert answer.location.startswith("/ui/auth/login?")


async def test_the_sessions_of_others_and_those_of_afterwards_go_on(idp, clock):
    bob = await idp.cookie("bob")
    old = await idp.cookie()
    clock.advance(0.000_001)
    change(idp, clock.now())
    new = await idp.cookie()  # at the same microsecond
    clock.advance(0.000_001)
    later = await idp.cookie()

    assert [(await idp.get(ME, cookie=one)).status for one in (bob, old, new, later)] == [200, 401, 200, 200]


async def test_signing_in_again_in_the_browser_of_an_old_session_makes_a_new_one(idp, clock):
    old = await idp.cookie()
    (before,) = await idp.rows(t.session)
    clock.advance(1)
    change(idp, clock.now())

    new = (await idp.login(cookie=old)).cookie

    (row,) = await idp.rows(t.session)
    assert row.id != before.id
    assert [(await idp.get(ME, cookie=one)).status for one in (old, new)] == [401, 200]


@pytest.mark.parametrize("ahead", [2, 299])
async def test_who_changed_an_expired_password_stays_also_where_the_clock_of_the_directory_is_ahead(idp, clock, ahead):
    change(idp, None, password_expired=True)
    ticket = (await idp.login()).headers["Set-Cookie"].partition(";")[0]

    change(idp, clock.now() + ahead * 1_000_000)
    done = await idp.login(cookie=ticket)

    assert done.status == 200
    for _ in range(3):
        assert (await idp.get(ME, cookie=done.cookie)).status == 200
        clock.advance(ahead)


async def test_a_clock_that_is_ahead_makes_no_sign_in_of_later(idp, clock):
    app = {"client_name": "App", "redirect_uris": ["https://app.example/cb"], "token_endpoint_auth_method": "none", "consent": "implicit"}
    client = (await idp.provider.clients.register_body({**app, "scopes": ["openid"]}, open=False, by="test")).client
    change(idp, clock.now() + 299 * 1_000_000)
    cookie = await idp.cookie()
    clock.advance(120)
    request = f"/authorize?client_id={client.client_id}&response_type=code&scope=openid&prompt=login&code_challenge={'a' * 43}"
    request += "&code_challenge_method=S256&redirect_uri=https%3A%2F%2Fapp.example%2Fcb"

    asked = await idp.get(request, cookie=cookie)
    back = parse_qs(urlsplit(asked.location).query)["return_to"][0]

    assert (await idp.get(back, cookie=cookie)).location.startswith("/ui/auth/login?")


async def test_a_password_that_was_replaced_since_it_was_checked_signs_nobody_in(idp, clock):
    change(idp, clock.now())
    service = idp.service.host("idp")
    authenticator = service.components(Authenticator)["people"]
    real = authenticator.attempt

    async def overtaken(credential, context):
        done = msgspec.structs.replace(await real(credential, context), password_changed_at=clock.now())
        clock.advance(1)
        change(idp, clock.now())
        return done

    authenticator.attempt = overtaken

    answer = await idp.login()
    assert (answer.status, answer.json["error"]) == (401, "invalid_credentials")
    assert "meanwhile" not in answer.text
    assert await idp.rows(t.session) == []
    (event,) = await idp.events("login_failure")
    assert (event.sub, "changed meanwhile" in event.detail) == ("alice@LOCALHOST", True)


async def test_s064_a_password_that_is_replaced_while_its_session_is_made_ends_that(idp, clock):
    change(idp, clock.now())
    directory = idp.service.host("idp").components(Directory)["people"]
    real, asked = directory.user, []

    async def overtaken(username):
        found = await real(username)
        asked.append(username)
        if len(asked) == 2:  # the last question before the session is stored
            clock.advance(1)
            change(idp, clock.now())
        return found

    directory.user = overtaken

    signed_in = await idp.login()

    assert signed_in.status == 200
    assert (await idp.get(ME, cookie=signed_in.cookie)).status == 401


async def test_a_moment_far_in_the_future_makes_no_session_that_ends_at_once(idp, clock):
    change(idp, clock.now() + 301 * 1_000_000)

    answer = await idp.login()

    assert (answer.status, answer.json["error"]) == (403, "access_denied")
    assert await idp.rows(t.session) == []
    (event,) = await idp.events("login_failure")
    assert "password was changed after this sign-in" in event.detail


async def test_a_directory_that_is_down_ends_no_session_and_gives_it_nothing(idp, clock):
    cookie = await idp.cookie()
    idp.people.down = True
    change(idp, clock.now() + 1)

    assert [(await idp.get(path, cookie=cookie)).status for path in (ME, "/api/auth/profile")] == [503, 503]
    assert len(await idp.rows(t.session)) == 1
    assert (await idp.post("/api/auth/logout", cookie=cookie)).status == 204
    assert await idp.rows(t.session) == []


@pytest.mark.parametrize("path", [ME, "/api/auth/profile"])
async def test_the_session_of_a_disabled_account_is_refused(idp, path):
    cookie = await idp.cookie()
    change(idp, None, disabled=True)

    answer = await idp.get(path, cookie=cookie)

    assert (answer.status, answer.json["error"]) == (403, "access_denied")
