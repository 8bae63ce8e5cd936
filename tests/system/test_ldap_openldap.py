"""People and groups of a directory without FreeIPA, with the password policy of OpenLDAP."""

import pytest
from rig.directory import Parts
from rig.slapd import OPENLDAP, SUFFIX

from greatseal.api.declarations import Secret
from greatseal.api.directory import AccountState, DirectoryUnavailable
from greatseal.api.identity import Authenticated, ChangeRefused, Denied, Password, PasswordExpired
from greatseal.testing.logins import AuthenticatorContract, DirectoryContract, PasswordChangerContract, context_of
from greatseal_ipa import reader
from greatseal_ipa.directory import IpaDirectory
from greatseal_ipa.openldap import OpenLdap
from greatseal_ipa.password import IpaChanger, IpaPassword

PEOPLE = f"ou=people,{SUFFIX}"


@pytest.fixture(scope="module")
def openldap(make_slapd):
    with make_slapd(**OPENLDAP) as slapd:
        yield slapd


@pytest.fixture
def parts(openldap):
    made = Parts(openldap.uri, schema=OpenLdap)
    yield made
    made.close()


@pytest.fixture
def directory(parts):
    return IpaDirectory(parts.reader)


class TestDirectory(DirectoryContract):
    username = "alice"
    group = "ops"

    @pytest.fixture(autouse=True)
    def _parts(self, parts):
        self.parts = parts

    def directory(self):
        return IpaDirectory(self.parts.reader)


class TestPassword(AuthenticatorContract):
    username, password, realm = "alice", "alicepw", "CHANCERY.TEST"

    @pytest.fixture(autouse=True)
    def _parts(self, parts):
        self.parts = parts

    def authenticator(self):
        return IpaPassword(self.parts.reader, "bind", None)


class TestChanger(PasswordChangerContract):
    username, old, refused = "bob", "bobpw", "short"

    @pytest.fixture(autouse=True)
    def _parts(self, parts, openldap):
        self.parts = parts
        yield
        set_(openldap, "bob", userPassword="bobpw")
        set_(openldap, "bob", pwdReset="")  # what an administrator sets, people have to change

    def changer(self):
        return IpaChanger(self.parts.reader)


def set_(slapd, uid, **values):
    for name, value in values.items():
        slapd.modify(f"dn: uid={uid},{PEOPLE}\nchangetype: modify\nreplace: {name}\n" + (f"{name}: {value}\n" if value else "") + "-\n")


async def test_groups_of_each_kind_and_the_groups_that_they_are_in(directory):
    alice, erin, bob = [await directory.user(name) for name in ("alice", "Erin, the first", "bob")]

    assert alice.groups == ("all", "devs", "ops", "staff", "unique")
    assert erin.groups == ("all", "devs", "ops")
    assert bob.groups == ("all", "ops")
    assert erin.username == "erin, the first"


async def test_members_are_those_of_groups_in_it_too_and_a_group_in_itself_ends(directory):
    assert (await directory.group("all")).members == ("alice", "bob", "erin, the first")
    assert (await directory.group("staff")).members == ("alice", "carol")
    assert (await directory.group("unique")).members == ("alice",)
    assert (await directory.group("all")).whole


@pytest.mark.parametrize(("limit", "most"), [("MOST_MEMBERS", 2), ("MOST_SUBGROUPS", 0)])
async def test_a_group_whose_members_are_cut_says_so(directory, monkeypatch, limit, most):
    monkeypatch.setattr(reader, limit, most)

    assert not (await directory.group("all")).whole


async def test_half_of_the_groups_of_a_user_is_no_answer(directory, monkeypatch):
    monkeypatch.setattr(reader, "MOST_GROUPS", 1)

    with pytest.raises(DirectoryUnavailable):
        await directory.user("alice")


async def test_each_level_of_nesting_is_one_question(parts, directory):
    before = parts.pool.questions
    await directory.user("alice")

    assert parts.pool.questions - before == 1 + 4  # the user; its groups, those of these, and one more that finds none


async def test_what_the_directory_does_not_have_is_none(directory):
    assert await directory.hostgroups("", 10) == ()
    assert await directory.hostgroups_of("web1") is None
    assert await directory.managed_by("host/web1@CHANCERY.TEST") is None
    assert (await directory.user("alice")).authentication_types == ()


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({"pwdAccountLockedTime": "000001010000Z"}, AccountState(locked=True)),
        ({"pwdReset": "TRUE"}, AccountState(password_expired=True)),
    ],
)
async def test_the_state_of_an_account(directory, openldap, values, state):
    set_(openldap, "bob", **values)
    try:
        assert (await directory.user("bob")).state == state
    finally:
        set_(openldap, "bob", **dict.fromkeys(values, ""))


async def attempt(parts, username, password):
    return await IpaPassword(parts.reader, "bind", None).attempt(Password(username=username, password=Secret(password)), context_of())


async def change(parts, username, old, new):
    return await IpaChanger(parts.reader).change(username, Secret(old), Secret(new), context_of())


async def test_r114_a_password_that_was_reset_is_changed_and_its_rules_are_said(parts, openldap):
    set_(openldap, "carol", userPassword="carolpw", pwdReset="TRUE")
    assert await attempt(parts, "carol", "carolpw") == PasswordExpired(username="carol", realm="CHANCERY.TEST", changer="ipa")
    with pytest.raises(Denied):
        await attempt(parts, "carol", "wrong")

    refused = await change(parts, "carol", "carolpw", "abc")
    assert isinstance(refused, ChangeRefused)
    assert [str(one) for one in refused.messages] == ["the directory refused the new password: Password fails quality checking policy"]
    assert isinstance(await change(parts, "carol", "carolpw", "carol's new one"), Authenticated)

    assert isinstance(await attempt(parts, "carol", "carol's new one"), Authenticated)
    assert (await IpaDirectory(parts.reader).user("carol")).password_changed_at is not None


async def test_a_password_that_lets_nobody_in_is_told_as_expired_to_who_has_it(parts, openldap):
    """pwdMaxAge without grace: the bind fails, and its control says why."""
    set_(openldap, "carol", userPassword="carolpw")
    set_(openldap, "carol", pwdReset="")
    policy = f"dn: cn=policy,cn=etc,{SUFFIX}\nchangetype: modify\nreplace: pwdMaxAge\npwdMaxAge: "
    openldap.modify(f"{policy}1\n-\n")
    try:
        outcome = None
        while not isinstance(outcome, PasswordExpired):
            outcome = await attempt(parts, "carol", "carolpw")
        with pytest.raises(Denied):
            await attempt(parts, "carol", "wrong")
        assert isinstance(await change(parts, "carol", "carolpw", "carol's new one"), ChangeRefused)
    finally:
        openldap.modify(f"{policy}0\n-\n")
