"""What PAM says, and what becomes of it: sign-in and change of a password, with real modules."""

import os
import pwd

import msgspec
import pytest

from greatseal.api.declarations import Secret
from greatseal.api.identity import AccountRefused, Authenticated, ChangeRefused, Denied, NotMine, Password, PasswordExpired
from greatseal.api.messages import Message
from greatseal.api.problems import Problem, Unavailable
from greatseal.testing.logins import AuthenticatorContract, PasswordChangerContract, context_of
from greatseal_pam.password import PamChanger, PamPassword

ME = pwd.getpwuid(os.getuid()).pw_name


async def attempt(asked, username="ann", password="wonderland"):
    return await PamPassword(asked).attempt(Password(username=username, password=Secret(password)), context_of())


async def change(asked, old="wonderland", new="a-new-password", username="ann"):
    return await PamChanger(asked).change(username, Secret(old), Secret(new), context_of())


class TestPassword(AuthenticatorContract):
    username, password, realm = "ann", "wonderland", "EXAMPLE.ORG"

    @pytest.fixture(autouse=True)
    def _made(self, ask, stack):
        known = f"[success=1 default=ignore] pam_localuser.so file={stack.folder}/passwd"
        stack.say(auth=[known, "requisite pam_debug.so auth=user_unknown", f"required {stack.matrix}"])
        (stack.folder / "passwd").write_text("ann:x:1:1::/:/bin/sh\n")
        self._asked = ask()

    def authenticator(self):
        return PamPassword(self._asked)


class TestChange(PasswordChangerContract):
    username, old = "ann", "wonderland"

    @pytest.fixture(autouse=True)
    def _made(self, ask):
        self._asked = ask()

    def changer(self):
        return PamChanger(self._asked)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (("auth_err", "success"), Denied),
        (("maxtries", "success"), Denied),
        (("perm_denied", "success"), Denied),
        (("acct_expired", "success"), Denied),  # pam_krb5 says so before anything is proven
        (("user_unknown", "success"), NotMine),
        (("authinfo_unavail", "success"), Unavailable),
        (("service_err", "success"), Unavailable),
        (("cred_insufficient", "success"), Unavailable),
        (("success", "new_authtok_reqd"), PasswordExpired),
        (("success", "acct_expired"), AccountRefused),
        (("success", "perm_denied"), AccountRefused),
        (("success", "auth_err"), AccountRefused),
        (("success", "user_unknown"), AccountRefused),
        (("success", "authinfo_unavail"), Unavailable),
        (("success", "success"), Authenticated),
    ],
)
async def test_each_code_has_its_outcome(stack, ask, codes, expected):
    auth, account = codes
    stack.say(auth=[stack.debug("auth", auth)], account=[stack.debug("acct", account)])

    if not issubclass(expected, Problem):
        assert type(await attempt(ask())) is expected
        return
    with pytest.raises(expected) as refused:
        await attempt(ask())
    told, shown = (refused.value.detail, "") if expected is Denied else (refused.value.cause, refused.value.detail)
    assert "PAM_" in told
    assert "PAM" not in shown


async def test_idp_228_an_expired_password_is_to_be_changed_here(stack, ask):
    stack.say(account=[stack.debug("acct", "new_authtok_reqd")])

    assert await attempt(ask()) == PasswordExpired(username="ann", realm="EXAMPLE.ORG", changer="pam")
    with pytest.raises(Denied):
        await attempt(ask(), password="wrong")


async def test_a_stack_that_asks_more_than_the_password_gets_no_second_answer(stack, ask):
    stack.say(auth=["optional pam_unix.so nodelay", f"required {stack.matrix}"])

    with pytest.raises(Denied) as denied:
        await attempt(ask())

    assert "which nobody can answer" in denied.value.detail


@pytest.mark.parametrize("password", ["", "wonder\0land", "wonderland\0", "x" * 512, "\ud800"])
async def test_s089_a_password_that_pam_cannot_be_given_is_wrong_also_for_a_stack_that_lets_everybody_in(stack, ask, password):
    stack.say(auth=["required pam_permit.so"], account=["required pam_permit.so"])

    assert isinstance(await attempt(ask()), Authenticated)
    with pytest.raises(Denied):
        await attempt(ask(), password=password)


async def test_a_long_password_and_one_of_another_script_are_checked(stack, ask):
    for password in ("x" * 511, "Straße 名前 🔑"):
        stack.people(ann=password)
        assert isinstance(await attempt(ask(), password=password), Authenticated)
        with pytest.raises(Denied):
            await attempt(ask(), password=password[:-1])


async def test_only_people_are_asked_for(stack, ask):
    """Root and accounts of services sign in nowhere, and PAM is not given what was typed for them."""
    seen = stack.folder / "seen"
    stack.say(auth=[stack.script("see", f'echo "$PAM_USER" >> {seen}'), "required pam_permit.so"])
    asked = ask(accounts=True, min_uid=1000)

    for name in ("root", "daemon", "nobody", "x-not-there"):
        assert await attempt(asked, name) == NotMine()

    names = seen.read_text().split()
    assert len(names) == 4
    assert {len(name) for name in names} == {17}


async def test_an_account_of_this_machine_signs_in(stack, ask):
    stack.people(**{ME: "wonderland"})

    done = await attempt(ask(accounts=True, min_uid=0), ME)

    assert done == Authenticated(username=ME, realm="EXAMPLE.ORG", amr=("pwd",))


async def test_the_words_of_the_modules_are_for_the_person(stack, ask):
    said = stack.folder / "words"
    said.write_text("Too short\tfor this house")
    told = stack.folder / "told"
    told.write_text("wonderland is no good")
    stack.say(password=[f"optional pam_echo.so file={path}" for path in (said, told)] + ["required pam_deny.so"])

    refused = await change(ask(), new="abc")

    assert refused == ChangeRefused(messages=("Too short for this house",))
    stack.say(password=["required pam_deny.so"])
    assert await change(ask()) == ChangeRefused(messages=(Message("the new password was refused; choose another"),))


@pytest.mark.parametrize("new", ["", "a\0b", "x" * 512])
async def test_a_new_password_that_pam_cannot_be_given_is_refused(ask, new):
    refused = await change(ask(), new=new)

    assert isinstance(refused, ChangeRefused)
    assert "511 bytes" in str(refused.messages[0])
    assert isinstance(await attempt(ask()), Authenticated)


async def test_an_expired_password_is_changed_and_no_other_account_problem_is_passed(stack, ask):
    stack.say(account=[stack.debug("acct", "new_authtok_reqd")])
    assert isinstance(await change(ask()), Authenticated)
    assert "ann:a-new-password:" in stack.passwords.read_text()

    stack.say(account=[stack.debug("acct", "acct_expired")])
    with pytest.raises(AccountRefused):
        await change(ask(), "a-new-password", "wonderland")
    assert "ann:a-new-password:" in stack.passwords.read_text()


async def test_the_service_is_told_where_the_person_is(stack, ask):
    seen = stack.folder / "seen"
    stack.say(auth=[stack.script("see", f'echo "$PAM_RHOST $PAM_TTY $PAM_SERVICE" > {seen}; env >> {seen}'), f"required {stack.matrix}"])

    await attempt(ask())

    assert seen.read_text().startswith("192.0.2.1 greatseal greatseal-test\n")
    assert "wonderland" not in seen.read_text()


@pytest.mark.parametrize(("remote", "told"), [("2001:db8::1", "2001:db8::1"), ("unix", ""), ("host.example", "")])
async def test_what_is_no_address_is_not_told_since_libpam_would_look_it_up(stack, ask, remote, told):
    seen = stack.folder / "seen"
    stack.say(auth=[stack.script("see", f'echo "<$PAM_RHOST>" > {seen}'), f"required {stack.matrix}"])
    context = msgspec.structs.replace(context_of(), remote=remote)

    await PamPassword(ask()).attempt(Password(username="ann", password=Secret("wonderland")), context)

    assert seen.read_text() == f"<{told}>\n"
