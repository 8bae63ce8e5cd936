"""The users file: reading, rules, reloading, passwords, claims, commands."""

import stat

import pytest
from click.testing import CliRunner

from greatseal.api.declarations import Secret
from greatseal.api.directory import AccountState, Tier
from greatseal.api.identity import Authenticated, Denied, NotMine, Password
from greatseal.api.problems import StartProblem
from greatseal.testing import FakeClock
from greatseal.testing.logins import AuthenticatorContract, DirectoryContract
from greatseal.testing.subjects import ClaimsProviderContract
from greatseal_users_file import edit as users_file
from greatseal_users_file.command import users
from greatseal_users_file.directory import FileClaims, FileDirectory
from greatseal_users_file.file import UsersFile
from greatseal_users_file.hashing import HASHER
from greatseal_users_file.password import FilePassword
from greatseal_users_file.people import read


class InLine:
    """Runs blocking work in line: what is tested here is the outcome."""

    async def run(self, pool, fn, /, *args):
        return fn(*args)


class Log:
    def __init__(self):
        self.lines = []

    def info(self, event, **values):
        self.lines.append(("info", event))

    def error(self, event, **values):
        self.lines.append(("error", event))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "state" / "users.toml"
    users_file.add(path, "alice", "correct horse", display_name="Alice A", email="alice@example.org", groups=("staff", "admins"))
    users_file.add(path, "bob", "battery staple")
    return path


@pytest.fixture
def opened(path):
    file = UsersFile(path, Log())
    assert file.open() is None
    return file


async def attempt(opened, username, password):
    authenticator = FilePassword(opened, "EXAMPLE.ORG", InLine())
    return await authenticator.attempt(Password(username=username, password=Secret(password)), None)


class TestFilePassword(AuthenticatorContract):
    username, password, realm = "alice", "correct horse", "EXAMPLE.ORG"

    @pytest.fixture(autouse=True)
    def _file(self, opened):
        self.opened = opened

    def authenticator(self):
        return FilePassword(self.opened, self.realm, InLine())


class TestFileDirectory(DirectoryContract):
    username, group = "alice", "staff"

    @pytest.fixture(autouse=True)
    def _file(self, opened):
        self.opened = opened

    def directory(self):
        return FileDirectory(self.opened, "EXAMPLE.ORG")


class TestFileClaims(ClaimsProviderContract):
    subject = "alice@EXAMPLE.ORG"

    @pytest.fixture(autouse=True)
    def _file(self, opened):
        self.opened = opened

    def provider(self):
        return FileClaims(self.opened, "EXAMPLE.ORG")


@pytest.mark.parametrize("username", ["alice", "alice@EXAMPLE.ORG", "alice@example.org"])
async def test_idp_004_the_right_password_signs_in(opened, username):
    assert await attempt(opened, username, "correct horse") == Authenticated(username="alice", realm="EXAMPLE.ORG", amr=("pwd",))


async def test_a_wrong_password_is_denied_and_strangers_are_left_to_others(opened):
    with pytest.raises(Denied):
        await attempt(opened, "alice", "wrong")
    assert await attempt(opened, "carol", "x") == NotMine()
    assert await attempt(opened, "alice@OTHER.ORG", "correct horse") == NotMine()


async def test_somebody_without_a_password_here_is_left_to_others(path):
    path.write_text(f'{path.read_text()}\n[[user]]\nusername = "dora"\n')
    file = UsersFile(path, Log())
    file.open()

    assert await attempt(file, "dora", "x") == NotMine()


async def test_the_directory_tells_users_and_groups(opened):
    directory = FileDirectory(opened, "EXAMPLE.ORG")

    alice, admins = await directory.user("alice"), await directory.group("admins")

    assert (alice.subject, alice.groups, alice.state) == ("alice@EXAMPLE.ORG", ("staff", "admins"), AccountState())
    assert admins.members == ("alice",)
    assert directory.tier is Tier.STATIC
    assert await directory.user("carol") is None
    assert [user.username for user in await directory.users("", 10)] == ["alice", "bob"]
    assert [user.username for user in await directory.users("a", 10)] == ["alice"]
    assert [group.name for group in await directory.groups("", 1)] == ["admins"]


async def test_the_directory_tells_what_hosts_need(path, opened):
    path.write_text(
        f"""{path.read_text()}
[[user]]
username = "dora"
uid_number = 1001
gid_number = 2001
home_directory = "/home/dora"
login_shell = "/bin/bash"
groups = ["staff", "ops", "staff"]

[[group]]
name = "ops"
description = "Who runs it"
gid_number = 2002
"""
    )
    directory = FileDirectory(opened, "EXAMPLE.ORG")

    dora = await directory.user("dora")

    assert (dora.uid_number, dora.gid_number, dora.home_directory, dora.login_shell) == (1001, 2001, "/home/dora", "/bin/bash")
    staff, ops = await directory.groups_of(dora)
    assert (staff.name, ops.name, ops.display_name, ops.gid_number, ops.realm) == ("staff", "ops", "Who runs it", 2002, "EXAMPLE.ORG")


async def test_claims_without_value_are_left_out(opened):
    claims = FileClaims(opened, "EXAMPLE.ORG")

    alice = await claims.of("alice@EXAMPLE.ORG", frozenset({"name", "email", "email_verified", "groups", "phone_number", "address"}))

    assert alice == {"name": "Alice A", "email": "alice@example.org", "groups": ["staff", "admins"]}
    assert await claims.of("alice@OTHER.ORG", frozenset({"name"})) == {}


async def test_a_changed_file_is_read_again(path, opened):
    users_file.add(path, "carol", "a new password")

    assert isinstance(await attempt(opened, "carol", "a new password"), Authenticated)


async def test_a_file_that_does_not_read_any_more_leaves_the_people_as_they_were(path, opened):
    path.write_text("[[user]\n")

    assert isinstance(await attempt(opened, "alice", "correct horse"), Authenticated)
    assert ("error", "users file cannot be read; the people stay as they were") in opened._log.lines


def test_a_first_start_makes_an_administrator_once(tmp_path):
    path = tmp_path / "users.toml"

    password = UsersFile(path, Log()).open()

    assert len(password) >= 20
    assert password not in path.read_text()
    assert read(path.read_bytes()).users["admin"].groups == ("administrators",)
    assert UsersFile(path, Log()).open() is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_made_stops_the_start(tmp_path):
    (tmp_path / "state").write_text("no folder")

    with pytest.raises(StartProblem, match=r"users\.toml"):
        UsersFile(tmp_path / "state" / "users.toml", Log()).open()
    (foreseen,) = UsersFile(tmp_path / "state" / "users.toml", Log()).problems()
    assert foreseen == f"[users] file: {tmp_path}/state/users.toml cannot be made: {tmp_path}/state is no folder"


def test_a_file_that_everybody_reads_stops_the_start(path):
    path.chmod(0o644)

    with pytest.raises(StartProblem, match="chmod 600") as caught:
        UsersFile(path, Log()).open()
    assert UsersFile(path, Log()).problems() == list(caught.value.messages)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[user]]\nusername = 'a b'\n", "expected 1 to 64"),
        ("[[user]]\nusername = 'a'\nhome_directory = 'home'\n", "user 'a': home_directory: 'home': expected an absolute path"),
        ('[[user]]\nusername = "a"\nlogin_shell = "/bin/sh\\n"\n', "user 'a': login_shell"),
        ("[[user]]\nusername = 'a'\nhome_directory = '/home/a:0'\n", "expected an absolute path without ':'"),
        ("[[user]]\nusername = 'a'\n[[user]]\nusername = 'a'\n", "2 times"),
        ("[[user]]\nusername = 'ann'\n[[user]]\nusername = 'Ann'\n", "users 'ann' and 'Ann' differ in case alone"),
        ("[[user]]\nusername = 'a'\npassword = 'plain'\n", "no Argon2id hash"),
        ("[[user]]\nusername = 'a'\nemail = 'a'\n", "expected one '@'"),
        ("[[user]]\nusername = 'a'\nshell = '/bin/sh'\n", "shell"),
        ("[[user]]\nusername = 3\n", "str"),
        ("[[group]]\nname = ''\n", "expected 1 to 64"),
        ("[[user]\n", "line 1"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, reason):
    path = tmp_path / "users.toml"
    path.write_text(text)
    path.chmod(0o600)

    with pytest.raises(StartProblem) as caught:
        UsersFile(path, Log()).open()
    (message,) = caught.value.messages
    assert reason in message
    assert str(path) in message
    assert UsersFile(path, Log()).problems() == [message]


@pytest.fixture
def config(tmp_path, path):
    config = tmp_path / "greatseal.toml"
    config.write_text(f'[users]\nfile = "{path}"\n')
    return str(config)


def test_the_commands_add_list_and_change(config, path):
    run = CliRunner().invoke

    added = run(users, ["add", "-c", config, "dora", "--name", "Dora D", "--group", "staff"], input="long enough for us\n")
    again = run(users, ["add", "-c", config, "dora"], input="long enough for us\n")
    short = run(users, ["passwd", "-c", config, "dora"], input="short\n")
    unknown = run(users, ["passwd", "-c", config, "nobody"], input="long enough for us\n")
    changed = run(users, ["passwd", "-c", config, "dora"], input="another one of mine\n")
    listed = run(users, ["list", "-c", config])

    assert (added.exit_code, again.exit_code, short.exit_code, unknown.exit_code, changed.exit_code) == (0, 1, 1, 1, 0)
    assert "is there already" in again.output
    assert "at least 12" in short.output
    assert "Dora D" in listed.output
    assert HASHER.verify(read(path.read_bytes()).users["dora"].password, "another one of mine")
    assert "another one of mine" not in path.read_text()


def test_a_rewrite_keeps_comments(config, path):
    path.write_text("# who may sign in here\n" + path.read_text())

    users_file.change_password(path, "bob", "something else", FakeClock().now)

    assert path.read_text().startswith("# who may sign in here\n")


def test_a_configuration_without_users_is_bad_usage(tmp_path):
    config = tmp_path / "x.toml"
    config.write_text("")

    result = CliRunner().invoke(users, ["list", "-c", str(config)])

    assert result.exit_code == 2
    assert "[users] file must be given" in result.output
