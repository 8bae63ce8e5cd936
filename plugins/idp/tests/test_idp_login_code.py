"""Sign-in with a one-time code by the API, and policies that want more than a password."""

import pytest

from greatseal.api.factors import FactorPolicy
from greatseal.testing.distributions import install
from greatseal_idp import tables as t

POLICY = """
from greatseal import hookimpl
from greatseal.api.factors import FactorPolicy
from greatseal.api.problems import Unavailable


class Codes(FactorPolicy):
    name = "codes"
    down = False

    async def missing(self, authenticated, user, call):
        if self.down:
            raise Unavailable("the tokens cannot be read")
        return () if "mfa" in authenticated.amr or user.username != "alice" else ("PasswordAndCode", "passkey")


class Plugin:
    @hookimpl
    def components(self):
        return [Codes()]
"""


@pytest.fixture
def policy(tmp_path):
    """A feature that wants a code of alice."""

    def make():
        return install(tmp_path / "installed", "greatseal-wants-codes", POLICY)

    return make


async def send(desk, *, username="alice", password="wonderland", code="123456", **more):
    return await desk.post("/api/auth/otp", json={"username": username, "password": password, "otp_code": code}, **more)


async def test_idp_240_idp_349_a_password_and_a_code_give_a_session_to_whoever_has_none(open_idp):
    desk = await open_idp()

    answer = await send(desk, code=" 123 456 ")

    assert answer.status == 200
    assert (answer.json["sub"], answer.json["amr"], answer.json["return_to"]) == ("alice@LOCALHOST", ["pwd", "otp", "mfa"], "/account")
    me = await desk.get("/api/auth/me", cookie=answer.cookie)
    assert me.json["sub"] == "alice@LOCALHOST"


async def test_s078_an_unknown_name_a_wrong_password_and_a_wrong_code_are_told_alike(open_idp):
    desk = await open_idp()

    answers = [await send(desk, **wrong) for wrong in ({"username": "nobody"}, {"password": "wrong"}, {"code": "000000"})]

    assert {(one.status, one.body) for one in answers} == {(401, answers[0].body)}
    assert answers[0].json == {"error": "invalid_credentials", "error_description": "the name, the password or the code is wrong"}
    assert await desk.rows(t.session) == []


async def test_idp_241_five_wrong_codes_are_enough(open_idp):
    desk = await open_idp()
    for _ in range(5):
        assert (await send(desk, code="000000")).status == 401

    answer = await send(desk)

    assert answer.outcome == (429, "rate_limited")
    assert int(answer.headers["Retry-After"]) > 0
    assert desk.people.codes["alice"] == {"123456"}


async def test_idp_241_an_address_tries_so_often_whatever_names_it_gives(open_idp):
    desk = await open_idp(server={"auth_rate_limit": 3})
    for number in range(3):
        assert (await send(desk, username=f"user{number}")).status == 401

    assert (await send(desk)).status == 429
    assert (await desk.login("bob")).status == 429


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null"])
async def test_s066_a_page_of_somebody_else_signs_nobody_in(open_idp, origin):
    desk = await open_idp()

    assert (await send(desk, headers={"Origin": origin})).outcome == (403, "csrf")
    assert desk.people.codes["alice"] == {"123456"}


@pytest.mark.parametrize("body", [{}, {"username": "alice", "password": "wonderland"}, {"username": "a", "password": "b", "otp_code": 1}])
async def test_a_body_without_the_three_is_400(open_idp, body):
    desk = await open_idp()

    assert (await desk.post("/api/auth/otp", json=body)).outcome == (400, "invalid_request")


async def test_where_nobody_reads_codes_the_endpoint_is_not_there(start_service):
    service = await start_service("idp")

    assert "/api/auth/otp" not in {route.path for route in service.kernel.routes}


async def test_a_policy_says_what_is_missing_to_pages_and_programs(open_idp, policy):
    desk = await open_idp(policy())

    answer = await desk.login()

    assert answer.outcome == (403, "factor_required")
    assert answer.json["credentials"] == ["PasswordAndCode", "passkey"]
    assert await desk.rows(t.session) == []
    assert (await desk.login("bob")).status == 200
    assert (await send(desk)).status == 200


async def test_what_the_directory_allows_is_asked_for_before_policies(open_idp, policy):
    desk = await open_idp(policy())
    desk.people.change("alice", authentication_types=("pkinit",))

    assert (await desk.login()).json["credentials"] == ["NegotiateHeader"]


async def test_a_policy_that_cannot_tell_lets_nobody_in(open_idp, policy, monkeypatch):
    desk = await open_idp(policy())
    (codes,) = desk.service.host("idp").components(FactorPolicy).values()
    monkeypatch.setattr(codes, "down", True)

    assert (await desk.login()).status == 503
    assert await desk.rows(t.session) == []
