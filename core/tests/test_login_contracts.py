"""The contracts of those who prove people, driven by the people of the testing kit; and the LOGIN of unit tests."""

import msgspec
import pytest

from greatseal.api.declarations import Secret
from greatseal.api.identity import (
    AccountRefused,
    Authenticated,
    LoggedIn,
    LoginOption,
    LoginOptions,
    NotMine,
    Password,
    PasswordAndCode,
    PasswordExpired,
)
from greatseal.testing.calls import FakeCall
from greatseal.testing.logins import AuthenticatorContract, DirectoryContract, FakeLogin, LoginOptionsContract, PasswordChangerContract
from greatseal.testing.people import Plugin


class TestPeople(AuthenticatorContract):
    username, password, realm = "alice", "wonderland", "LOCALHOST"

    def authenticator(self):
        return Plugin().authenticators(None)[0]


class TestChanger(PasswordChangerContract):
    username, old, refused = "alice", "wonderland", "short"

    @pytest.fixture(autouse=True)
    def _people(self):
        self.made = Plugin().password_changers(None)[0]

    def changer(self):
        return self.made


class TestDirectory(DirectoryContract):
    username = "alice"

    def directory(self):
        return Plugin().directories(None)[0]


class TestOptions(LoginOptionsContract):
    hinted = "olga"

    def login_options(self):
        return Plugin().login_options(None)[0]


ELSEWHERE = LoginOption(id="other", display_name="Other place", url="/auth/external/other")


@pytest.mark.parametrize(
    ("options", "hints", "promise"),
    [
        (None, {}, "each_option_is_a_link_with_a_name_and_an_id_of_its_own"),
        ([], {}, "each_option_is_a_link_with_a_name_and_an_id_of_its_own"),
        ([ELSEWHERE, ELSEWHERE], {}, "each_option_is_a_link_with_a_name_and_an_id_of_its_own"),
        ([msgspec.structs.replace(ELSEWHERE, url="javascript:x")], {}, "each_option_is_a_link_with_a_name_and_an_id_of_its_own"),
        ([msgspec.structs.replace(ELSEWHERE, url="//evil.example")], {}, "each_option_is_a_link_with_a_name_and_an_id_of_its_own"),
        ([ELSEWHERE], {}, "who_has_to_take_an_option_is_told_which_and_nobody_else"),
        ([ELSEWHERE], {"olga": "gone"}, "who_has_to_take_an_option_is_told_which_and_nobody_else"),
        ([ELSEWHERE], {"olga": "other", "nobody-of-that-name": "other"}, "who_has_to_take_an_option_is_told_which_and_nobody_else"),
    ],
)
async def test_the_contract_notices_login_options_that_break_a_promise(options, hints, promise):
    class Wrong(LoginOptions):
        name = "wrong"

        async def options(self, context):
            return options

        async def hint(self, username):
            return hints.get(username)

    contract = TestOptions()
    contract.login_options = Wrong

    with pytest.raises(AssertionError):
        await getattr(contract, f"test_{promise}")()


async def test_the_contract_notices_login_options_that_change():
    names = iter("abc")

    class Wrong(LoginOptions):
        name = "wrong"

        async def options(self, context):
            return [msgspec.structs.replace(ELSEWHERE, id=next(names))]

    contract = TestOptions()
    contract.login_options = Wrong

    with pytest.raises(AssertionError):
        await contract.test_the_options_are_the_same_each_time()


@pytest.fixture
def login():
    return FakeLogin(*Plugin().authenticators(None), changers=("people",))


def typed(password="wonderland", username="alice"):
    return Password(username=username, password=Secret(password))


async def test_the_fake_login_asks_the_authenticators_and_makes_sessions(login):
    call = FakeCall("POST")
    assert isinstance(await login.attempt(call, typed(username="nobody")), NotMine)
    assert await login.session(call) is None

    done = await login.complete(call, await login.attempt(call, typed()), "/somewhere")

    assert isinstance(done, LoggedIn)
    assert (done.return_to, done.session.subject) == ("/somewhere", "alice@LOCALHOST")
    assert await login.session(call) == done.session
    assert [await login.end(done.session.id) for _ in range(2)] == [True, False]
    assert await login.session(call) is None


async def test_the_fake_login_has_the_password_checked_within_an_attempt(login):
    credential = PasswordAndCode(username="alice", password=Secret("wonderland"), code=Secret("123456"))

    done = await login.attempt(FakeCall("POST"), credential)

    assert isinstance(done, Authenticated)
    assert done.amr == ("pwd", "otp", "mfa")


async def test_the_fake_login_leads_to_the_change_of_a_password(login):
    call, expired = FakeCall("POST"), PasswordExpired(username="alice", realm="LOCALHOST", changer="people")

    reply = await login.expired(call, expired, "/somewhere")

    assert reply.status == 303
    ticket = await login.ticket(call)
    assert (ticket.username, ticket.changer, ticket.return_to) == ("alice", "people", "/somewhere")
    assert await login.ticket(FakeCall()) is None
    with pytest.raises(AccountRefused):
        await login.expired(call, PasswordExpired(username="alice", realm="LOCALHOST"), None)
