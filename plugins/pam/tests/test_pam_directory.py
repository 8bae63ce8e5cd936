"""The accounts of this machine as a directory, and what is told of them."""

import os
import pwd

import pytest

from greatseal.api.directory import DirectoryUnavailable, Tier
from greatseal.testing.logins import DirectoryContract
from greatseal.testing.subjects import ClaimsProviderContract
from greatseal_pam import accounts
from greatseal_pam.directory import AccountClaims, AccountDirectory
from greatseal_pam.names import is_name, short_name

ME = pwd.getpwuid(os.getuid())
REALM = "EXAMPLE.ORG"


@pytest.fixture
def directory(helpers):
    return AccountDirectory(helpers(), REALM, 0)


class TestDirectory(DirectoryContract):
    username, group = ME.pw_name, "daemon"

    @pytest.fixture(autouse=True)
    def _made(self, directory):
        self._directory = directory

    def directory(self):
        return self._directory


class TestClaims(ClaimsProviderContract):
    subject = f"daemon@{REALM}"
    expected = {"preferred_username": "daemon", "name": "daemon", "groups": ["daemon"]}  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def _made(self, directory):
        self._claims = AccountClaims(directory)

    def provider(self):
        return self._claims


async def test_an_account_is_as_the_machine_has_it(directory):
    user = await directory.user(ME.pw_name)

    assert (user.uid_number, user.gid_number, user.home_directory, user.login_shell) == (ME.pw_uid, ME.pw_gid, ME.pw_dir, ME.pw_shell)
    assert (user.password_changed_at, user.email, directory.tier) == (None, None, Tier.DIRECTORY)


@pytest.mark.parametrize("name", ["nobody-of-that-name", "a\0b", "\ud800", "../x", ""])
async def test_what_no_account_is_called_is_nobody(directory, name):
    assert await directory.user(name) is None
    assert await directory.group(name) is None


async def test_accounts_of_services_are_nobody(helpers):
    people = AccountDirectory(helpers(), REALM, 1000)

    assert [await people.user(name) for name in ("root", "daemon", "nobody")] == [None, None, None]
    assert (await people.group("daemon")).members == ()
    assert all(user.uid_number >= 1000 for user in await people.users("", 1_000))


async def test_a_source_that_does_not_answer_is_no_unknown_name(stack, directory, monkeypatch):
    (helpers,) = (directory._helpers,)

    async def outage(question):
        return b'{"outage": "Outage: getpwnam_r: Connection refused"}\n'

    monkeypatch.setattr(helpers, "_in_turn", outage)

    with pytest.raises(DirectoryUnavailable) as refused:
        await directory.user("ann")

    assert "Connection refused" in refused.value.cause
    assert "refused" not in refused.value.detail


def test_a_server_that_is_not_there_is_an_outage_unless_nobody_ever_set_it_up(tmp_path, monkeypatch):
    switch, sssd = tmp_path / "nsswitch.conf", tmp_path / "sssd.conf"
    monkeypatch.setattr(accounts, "_NSSWITCH", switch)
    monkeypatch.setattr(accounts, "_SSSD", sssd)
    assert accounts._servers() == []
    switch.write_text("# passwd: x\npasswd: files systemd sss\ngroup: compat [NOTFOUND=return] ldap\nhosts: files dns\n")

    assert accounts._servers() == ["ldap"]
    sssd.touch()
    assert accounts._servers() == ["ldap", "sss"]


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("ann", "ann"), ("ann@example.org", "ann"), ("ann.b-c_d+e", "ann.b-c_d+e"), ("söre", "söre"), ("EXAMPLE\\ann", None),
        ("ann@other", None), ("a@b@example.org", None), ("", None), ("@example.org", None), ("-a", None), (".", None), ("a b", None),
        ("a:b", None), ("a/b", None), ("a\n", None), ("é" * 128, "é" * 128), ("é" * 129, None),
    ],
)  # fmt: skip
def test_only_what_may_be_the_name_of_an_account_is_asked_for(typed, name):
    assert short_name(typed, REALM) == name
    assert name is None or is_name(name)
