"""POST /api/auth/login and what it refuses (reference 17.2, 17.3, 17.7)."""

import pytest

from greatseal.api.directory import AccountState
from greatseal.testing import FakeClock
from greatseal_idp import tables as t

START = 1_800_000_000_000_000


@pytest.fixture
async def idp(open_idp):
    return await open_idp()


async def test_idp_239_login_answers_with_the_session_and_its_cookie(idp):
    answer = await idp.login(body={"return_to": "/authorize?x=1"})

    assert answer.status == 200
    assert answer.json == {
        "username": "alice",
        "sub": "alice@LOCALHOST",
        "display_name": "Alice",
        "groups": ["staff"],
        "acr": "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified",
        "amr": ["pwd"],
        "auth_time": answer.json["auth_time"],
        "expires_at": answer.json["auth_time"] + 28800,
        "return_to": "/authorize?x=1",
    }
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Set-Cookie"].endswith("; Path=/; Max-Age=28800; HttpOnly; SameSite=Lax")
    me = await idp.get("/api/auth/me", cookie=answer.cookie)
    assert me.json["sub"] == "alice@LOCALHOST"


async def test_idp_352_login_success_has_the_subject_and_nothing_else(idp):
    await idp.login()

    (event,) = await idp.events("login_success")
    assert (event.sub, event.client_id, event.detail, event.outcome) == ("alice@LOCALHOST", None, None, "success")


async def test_a_failed_login_is_told_to_the_operator_without_names_nobody_knows(idp):
    await idp.login("alice", "wrong")
    await idp.login("my-secret-password", "alice")

    known, unknown = await idp.events("login_failure")
    assert (known.sub, known.outcome, known.detail) == ("alice", "failure", "wrong credential address=127.0.0.1")
    assert (unknown.sub, unknown.detail) == (None, "unknown user address=127.0.0.1")


async def test_sign_ins_are_counted_by_their_outcome(open_idp):
    idp = await open_idp(admin={"listen": "127.0.0.1:0"})
    for password in ("wonderland", "wrong", "wrong too"):
        await idp.login("alice", password)

    async with idp.http.get(f"http://{idp.service.addresses['admin']}/metrics") as answer:
        counted = [line for line in (await answer.text()).splitlines() if line.startswith("greatseal_idp_sign_ins_total")]
    assert counted == [
        'greatseal_idp_sign_ins_total{outcome="failure"} 2.0',
        'greatseal_idp_sign_ins_total{outcome="success"} 1.0',
    ]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (AccountState(disabled=True), "disabled"),
        (AccountState(locked=True), "locked"),
        (AccountState(expired=True), "expired"),
    ],
)
async def test_an_account_that_may_not_sign_in_gets_no_session(idp, state, says):
    idp.people.change("alice", state=state)

    answer = await idp.login()

    assert (answer.status, answer.json["error"]) == (403, "access_denied")
    assert says in answer.json["error_description"]
    assert "Set-Cookie" not in answer.headers
    assert len(await idp.events("login_failure")) == 1


async def test_an_expired_password_leads_to_its_change_with_a_ticket(idp):
    alice = idp.people.users["alice"]
    idp.people.change("alice", state=AccountState(password_expired=True))

    answer = await idp.login(body={"return_to": "/authorize?a=b"})

    assert (answer.status, answer.json["error"]) == (403, "password_expired")
    assert answer.json["change_password_url"] == "/login/change-password?username=alice&next=%2Fauthorize%3Fa%3Db"
    ticket = answer.headers["Set-Cookie"]
    assert ticket.startswith("greatseal_change=")
    assert await idp.rows(t.session) == []
    idp.people.users["alice"] = alice
    done = await idp.login(cookie=ticket.partition(";")[0])
    assert done.status == 200
    assert any(one.startswith("greatseal_change=;") for one in done.headers.getall("Set-Cookie"))


async def test_an_expired_password_that_nobody_can_change_is_refused(idp):
    idp.people.change("alice", source="elsewhere", state=AccountState(password_expired=True))

    answer = await idp.login()

    assert (answer.status, answer.json["error"]) == (403, "access_denied")
    assert "Set-Cookie" not in answer.headers
    assert [event.detail for event in await idp.events("login_failure")] == ["password expired address=127.0.0.1"]


async def test_an_account_that_its_directory_does_not_know_any_more_gets_no_session(idp):
    del idp.people.users["alice"]

    assert (await idp.login()).status == 403


async def test_a_directory_that_cannot_be_reached_is_503_and_no_session(idp):
    idp.people.down = True

    answer = await idp.login()

    assert (answer.status, answer.json["error"]) == (503, "unavailable")
    assert answer.headers["Retry-After"] == "5"


async def test_a_grant_check_of_the_phase_login_refuses(idp):
    idp.people.shut = "login"
    idp.people.headers = (("WWW-Authenticate", "Negotiate abc"),)

    answer = await idp.login()

    assert (answer.status, answer.json["error"]) == (403, "access_denied")
    assert answer.headers["WWW-Authenticate"] == "Negotiate abc"


async def test_a_directory_that_wants_a_code_is_asked_for_it(idp):
    idp.people.change("alice", authentication_types=("otp", "idp"), upstream="ipa-other")

    answer = await idp.login()

    assert (answer.status, answer.json["error"]) == (403, "factor_required")
    assert answer.json["credentials"] == ["PasswordAndCode", "ipa-other"]

    idp.people.amr = ("pwd", "otp", "mfa")
    assert (await idp.login()).status == 200


async def test_a_ticket_shows_a_password_and_no_other_type(idp):
    idp.people.amr = ("kerberos",)
    for types, status in ((("password",), 200), (("otp",), 403), (("hardened",), 403), (("otp", "password"), 200)):
        idp.people.change("alice", authentication_types=types)
        assert (await idp.login()).status == status, types


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"username":"alice"}',
        b'{"username":"alice","password":7}',
        b'{"username":"a","username":"b","password":"c"}',
        b"{",
    ],
)
async def test_a_body_that_does_not_fit_is_400_and_no_attempt(idp, body):
    answer = await idp.post("/api/auth/login", data=body, headers={"Content-Type": "application/json"})

    assert (answer.status, answer.json["error"]) == (400, "invalid_request")
    assert idp.people.attempts == 0


async def test_s078_the_sixth_failure_of_a_user_waits_whether_or_not_the_user_exists(open_idp):
    idp = await open_idp(clock=FakeClock(START))
    for username in ("alice", "nobody"):
        for _ in range(5):
            assert (await idp.login(username, "wrong")).status == 401
        attempts = idp.people.attempts

        answer = await idp.login(username, "wonderland")

        assert (answer.status, answer.json["error"]) == (429, "rate_limited")
        assert 0 < int(answer.headers["Retry-After"]) <= 300
        assert idp.people.attempts == attempts
        assert (await idp.login(f" {username.upper()}@LOCALHOST", "wonderland")).status == 429
    assert len(await idp.events("rate_limited")) == 2


async def test_a_success_makes_no_room_for_more_guesses_and_time_does(open_idp):
    """The counts are by name: whoever has that name in one realm does not guess on in another by signing in."""
    clock = FakeClock(START)
    idp = await open_idp(clock=clock)
    assert (await idp.login()).status == 200  # from now on nobody here is a stranger
    for _ in range(5):
        assert (await idp.login()).status == 200
        assert (await idp.login("alice", "wrong")).status == 401
    assert (await idp.login()).status == 429

    clock.advance(301)

    assert (await idp.login()).status == 200


async def test_parallel_guesses_are_counted_and_parallel_sign_ins_of_one_person_succeed(idp):
    from asyncio import gather

    right = await gather(*(idp.login() for _ in range(12)))
    wrong = await gather(*(idp.login("alice", f"guess{number}") for number in range(12)))

    assert [answer.status for answer in right] == [200] * 12
    assert sorted(answer.status for answer in wrong) == [401] * 5 + [429] * 7


async def test_the_thirty_first_attempt_of_an_address_waits(open_idp):
    idp = await open_idp(clock=FakeClock(START))
    for number in range(30):
        assert (await idp.login(f"user{number}", "x")).status == 401

    answer = await idp.login()

    assert (answer.status, answer.json["error"]) == (429, "rate_limited")
    assert answer.headers["Retry-After"] == "300"


async def test_r104_zero_switches_the_limit_of_addresses_off(open_idp):
    idp = await open_idp(server={"auth_rate_limit": 0})
    for number in range(40):
        assert (await idp.login(f"user{number}", "x")).status == 401
    assert (await idp.login()).status == 200
