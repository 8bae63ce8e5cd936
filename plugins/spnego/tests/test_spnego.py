"""Who signs in by a ticket, and what it says of how they proved themselves. With a real KDC: tests/system/test_spnego.py."""

import pytest
import structlog

from greatseal.api.directory import AccountState
from greatseal.api.kerberos import NotConfigured, Ready, Unusable
from greatseal.testing.desk import hidden_fields
from greatseal.testing.distributions import install

TICKETS = """
from greatseal import hookimpl
from greatseal.api.services import NEGOTIATE
from greatseal.testing.negotiate import FakeNegotiator

NAMES = ["alice", "Alice", "bob", "al\\uff49ce", "host/web1.localhost", "nobody", "smith"]


class Plugin:
    def __init__(self):
        names = [*(f"{name}@LOCALHOST" for name in NAMES), "alice@localhost", "alice@ELSEWHERE", "carol@ELSEWHERE"]
        self.negotiator = FakeNegotiator(*names, legs=["leg@LOCALHOST"])

    @hookimpl
    def services(self, host):
        return {NEGOTIATE: lambda: self.negotiator}
"""
PAGE = "/ui/auth/login"


class Counter:
    def __init__(self, desk):
        self.desk = desk
        self.people = desk.people
        self.negotiator = desk.service.kernel.hooks.instances["tickets"].negotiator

    async def come(self, principal, path=PAGE):
        return await self.desk.get(path, headers={"Authorization": f"Negotiate {principal}", "Accept": "text/html"})

    async def me(self, principal):
        answer = await self.come(principal)
        assert answer.status == 302, answer.text
        return (await self.desk.get("/api/auth/me", cookie=answer.cookie)).json


@pytest.fixture
async def counter_of(open_people, tmp_path):
    async def start(**sections):
        feature = install(tmp_path / "installed", "greatseal-tickets", TICKETS)
        return Counter(await open_people("idp", "spnego", feature, **sections))

    return start


@pytest.fixture
async def counter(counter_of):
    return await counter_of()


async def test_idp_007_idp_224_a_ticket_signs_its_owner_in(counter):
    answer = await counter.come("alice@LOCALHOST", f"{PAGE}?return_to=%2Faccount%3Fx%3D1")

    assert (answer.status, answer.location, answer.headers["WWW-Authenticate"]) == (302, "/account?x=1", "Negotiate done")
    me = (await counter.desk.get("/api/auth/me", cookie=answer.cookie)).json
    assert (me["sub"], me["username"], me["amr"]) == ("alice@LOCALHOST", "alice", ["kerberos"])


AMR = [
    ((), ["kerberos"]),
    (("hardened",), ["kerberos", "pwd"]),
    (("otp",), ["kerberos", "pwd", "otp", "mfa"]),
    (("radius",), ["kerberos", "otp"]),
    (("pkinit",), ["kerberos", "sc"]),
    (("passkey",), ["kerberos", "hwk", "user"]),
    (("idp",), ["kerberos", "fed"]),
    (("hardened", "otp"), ["kerberos", "pwd", "otp", "mfa"]),
    (("unheard-of",), ["kerberos"]),
]


@pytest.mark.parametrize(("indicators", "amr"), AMR)
async def test_r74_the_indicators_of_a_ticket_say_what_was_proven(counter, indicators, amr):
    counter.negotiator.indicators = indicators

    assert (await counter.me("alice@LOCALHOST"))["amr"] == amr


@pytest.mark.parametrize("principal", ["alice@ELSEWHERE", "alice@localhost", "carol@ELSEWHERE"])
async def test_s084_a_ticket_of_another_realm_signs_nobody_in(counter, principal):
    answer = await counter.come(principal)

    assert (answer.status, answer.cookies[0].partition("=")[0]) == (200, "greatseal_form")


async def test_s084_a_realm_that_is_configured_signs_its_people_in_under_their_own_names(counter_of):
    counter = await counter_of(spnego={"realms": ["ELSEWHERE"]})

    assert (await counter.me("alice@ELSEWHERE"))["sub"] == "alice@ELSEWHERE"
    assert (await counter.me("alice@ELSEWHERE"))["groups"] == []
    assert (await counter.me("alice@LOCALHOST"))["groups"] == ["staff"]


async def test_s086_a_realm_that_differs_by_case_signs_nobody_in_as_one_of_ours(counter_of):
    counter = await counter_of(spnego={"realms": ["localhost"]})

    assert (await counter.come("alice@localhost")).status == 200


@pytest.mark.parametrize("principal", ["Alice@LOCALHOST", "al\uff49ce@LOCALHOST"])
async def test_s086_a_name_that_the_directory_alone_takes_for_anothers_signs_nobody_in(counter, principal):
    users = counter.people.users
    for name in ("Alice", "al\uff49ce"):
        users[name] = users["alice"]

    with structlog.testing.capture_logs() as lines:
        answer = await counter.come(principal)

    assert (answer.status, [one for one in answer.cookies if one.startswith("greatseal_session")]) == (200, [])
    (refused,) = [line for line in lines if line["event"] == "a ticket signs nobody in"]
    assert (refused["principal"], refused["reason"]) == (principal, "the directory has alice, and to Kerberos these are two")


async def test_another_name_of_a_person_in_the_directory_is_theirs(counter):
    counter.people.users["smith"] = counter.people.users["alice"]

    assert (await counter.me("smith@LOCALHOST"))["sub"] == "alice@LOCALHOST"


async def test_idp_213_a_service_gets_a_session_of_its_own(counter):
    me = await counter.me("host/web1.localhost@LOCALHOST")

    assert (me["sub"], me["groups"], me["amr"]) == ("host/web1.localhost@LOCALHOST", [], ["kerberos"])


@pytest.mark.parametrize("path", [PAGE, "/authorize"])
async def test_a_person_whom_the_directory_does_not_know_gets_no_session_and_the_log_says_who_came(counter, path):
    with structlog.testing.capture_logs() as lines:
        answer = await counter.come("nobody@LOCALHOST", path)

    assert (answer.status, [one for one in answer.cookies if one.startswith("greatseal_session")]) == (403, [])
    assert "does not know this account" in answer.text
    assert "nobody" not in f"{answer.text}{answer.headers}"
    (line,) = [line for line in lines if line["event"] == "request"]
    assert (line["status"], line["cause"]) == (403, "no directory has nobody@LOCALHOST")
    (event,) = await counter.desk.events("login_failure")
    assert (event.sub, event.detail) == ("nobody@LOCALHOST", "no directory has nobody@LOCALHOST address=127.0.0.1")


async def test_the_state_of_the_account_counts(counter):
    counter.people.change("alice", state=AccountState(locked=True))

    assert (await counter.come("alice@LOCALHOST")).status == 403


@pytest.mark.parametrize(
    ("types", "indicators", "enters"),
    [
        (("password",), (), True),
        (("password", "otp"), (), True),
        (("otp",), (), False),
        (("otp",), ("otp",), True),
        (("hardened",), (), False),
        (("hardened",), ("hardened",), True),
        (("pkinit",), (), False),
        (("pkinit",), ("pkinit",), True),
        (("passkey",), ("passkey",), True),
        (("idp",), ("idp",), True),
        ((), (), True),
    ],
)
async def test_what_the_directory_allows_a_person_holds_for_tickets(counter, types, indicators, enters):
    counter.people.change("alice", authentication_types=types)
    counter.negotiator.indicators = indicators

    answer = await counter.come("alice@LOCALHOST")

    assert answer.status == (302 if enters else 200)


async def test_refused_tickets_are_audited_without_a_name_and_limited_by_address(counter_of):
    counter = await counter_of(server={"auth_rate_limit": 3})

    refused = [(await counter.come(token)).status for token in ("garbage", "alice@ELSEWHERE", "x" * 50_000, "garbage")]

    assert refused == [200, 200, 200, 429]
    events = await counter.desk.events("login_failure")
    assert [(event.sub, event.detail) for event in events] == [(None, "refused ticket address=127.0.0.1")] * 3


async def test_accepted_tickets_count_for_their_owner_and_not_for_the_address(counter_of):
    counter = await counter_of(server={"auth_rate_limit": 2})

    of_alice = [(await counter.come("alice@LOCALHOST")).status for _ in range(3)]
    of_others = [(await counter.come(name)).status for name in ("bob@LOCALHOST", "garbage", "host/web1.localhost@LOCALHOST")]

    assert (of_alice, of_others) == ([302, 302, 429], [302, 200, 302])
    assert [event.detail for event in await counter.desk.events("rate_limited")] == ["auth-ticket: alice@LOCALHOST address=127.0.0.1"]


async def test_tickets_come_in_as_long_as_guesses_from_their_address_are_few(counter_of):
    counter = await counter_of(server={"auth_rate_limit": 2})

    refused = [(await counter.come("garbage")).status for _ in range(2)]

    assert refused == [200, 200]
    assert (await counter.come("alice@LOCALHOST")).status == 429


async def test_idp_225_another_leg_is_asked_for(counter):
    assert (await counter.come("leg@LOCALHOST")).headers["WWW-Authenticate"] == "Negotiate more"


async def test_idp_226_what_proves_nobody_is_the_page(counter):
    for token in ("garbage", "x" * 50_000):
        answer = await counter.come(token)
        assert (answer.status, "WWW-Authenticate" in answer.headers) == (200, False)
        assert '<form id="login-form"' in answer.text


async def test_a_credential_that_cannot_be_used_leaves_the_page(counter):
    counter.negotiator.state = Unusable(reason="no keytab")

    answer = await counter.come("alice@LOCALHOST")

    assert (answer.status, "option-kerberos" in answer.text) == (200, False)
    counter.negotiator.state = Ready()
    assert await counter.me("alice@LOCALHOST")


# ---- Asking browsers


async def test_browsers_are_asked_after_a_press_of_the_button(counter):
    page = await counter.desk.get(f"{PAGE}?return_to=%2Faccount%3Fx%3D1")

    assert (page.status, "WWW-Authenticate" in page.headers) == (200, False)
    link = f"{counter.desk.url}{PAGE}?negotiate=1&amp;return_to=%2Faccount%3Fx%3D1"
    assert f'id="option-kerberos" href="{link}"' in page.text

    asked = await counter.desk.get(f"{PAGE}?negotiate=1&return_to=%2Faccount%3Fx%3D1")

    assert (asked.status, asked.headers["WWW-Authenticate"]) == (401, "Negotiate")
    assert '<form id="login-form"' in asked.text
    come = await counter.come("alice@LOCALHOST", f"{PAGE}?negotiate=1&return_to=%2Faccount%3Fx%3D1")
    assert (come.status, come.location) == (302, "/account?x=1")


async def test_after_a_wrong_password_the_button_leads_to_the_same_errand(counter):
    page = await counter.desk.get(f"{PAGE}?return_to=%2Faccount%3Fx%3D1")
    form = {**hidden_fields(page), "username": "alice", "password": "wrong"}

    again = await counter.desk.post("/login", data=form, cookie=page.cookies[0].partition(";")[0])

    link = f"{counter.desk.url}{PAGE}?negotiate=1&amp;return_to=%2Faccount%3Fx%3D1"
    assert (again.status, f'id="option-kerberos" href="{link}"' in again.text) == (401, True)


async def test_browsers_whose_ticket_is_refused_are_not_asked_again(counter):
    answer = await counter.come("garbage", f"{PAGE}?negotiate=1")

    assert (answer.status, "WWW-Authenticate" in answer.headers) == (200, False)


async def test_with_the_challenge_every_browser_is_asked_at_once(counter_of):
    counter = await counter_of(spnego={"challenge": True})

    page = await counter.desk.get(PAGE)
    assert (page.status, page.headers["WWW-Authenticate"]) == (401, "Negotiate")

    counter.negotiator.state = Unusable(reason="no keytab")
    page = await counter.desk.get(PAGE)
    assert (page.status, "WWW-Authenticate" in page.headers) == (200, False)


async def test_the_providers_tell_the_button(counter):
    listed = (await counter.desk.get("/api/auth/providers")).json

    assert [one["display_name"] for one in listed if one["id"] == "kerberos"] == ["Sign in with Kerberos"]
    assert (await counter.desk.get("/api/auth/info")).json["features"]["kerberos"] is True


# ---- Alone


async def test_without_an_acceptor_it_contributes_nothing_and_says_so(open_people):
    desk = await open_people("idp", "spnego")

    assert (await desk.get("/api/auth/info")).json["features"]["kerberos"] is False
    assert (await desk.get(PAGE, headers={"Authorization": "Negotiate x"})).status == 200
    (note,) = desk.service.kernel.hooks.instances["spnego"].notes(desk.service.host("spnego"))
    assert "install greatseal-gssapi" in note


async def test_where_nothing_is_configured_it_says_so_too(counter):
    spnego, host = counter.desk.service.kernel.hooks.instances["spnego"], counter.desk.service.host("spnego")

    assert spnego.notes(host) == []
    counter.negotiator.state = NotConfigured()
    assert len(spnego.notes(host)) == 1
