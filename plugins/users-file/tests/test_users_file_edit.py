"""Changes of the users file: none is lost, its owner stays, and the moment of a new password is in it."""

import errno
import fcntl
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from click.testing import CliRunner

from greatseal.api.declarations import Secret
from greatseal.api.identity import Authenticated, ChangeRefused, Denied, Password
from greatseal.api.problems import Unavailable
from greatseal.testing import FakeClock
from greatseal.testing.logins import PasswordChangerContract, context_of
from greatseal_users_file import edit
from greatseal_users_file.command import users
from greatseal_users_file.directory import FileDirectory
from greatseal_users_file.file import UsersFile
from greatseal_users_file.password import FilePassword, matches
from greatseal_users_file.people import read
from greatseal_users_file.rules import SAME, is_common, objections
from greatseal_users_file.setter import FileSetter

SERVICE = 4711
"""The number of a user and a group that nobody here is."""


class Log:
    def info(self, event, **values):
        pass

    error = info


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "state" / "users.toml"
    edit.add(path, "ann", "correct horse")
    return path


@pytest.fixture
def config(tmp_path, path):
    config = tmp_path / "greatseal.toml"
    config.write_text(f'[users]\nfile = "{path}"\n')
    return str(config)


def people(path):
    return read(path.read_bytes()).users


async def changed_at(path):
    file = UsersFile(path, Log())
    file.open()
    user = await FileDirectory(file, "EXAMPLE.ORG").user("ann")
    assert user is not None
    return user.password_changed_at


# ---- The moment of a new password


async def test_a_new_password_says_when_it_was_set_to_the_microsecond(path):
    clock = FakeClock(1_790_000_000_123_457)

    edit.change_password(path, "ann", "battery staple", clock.now)

    # A second ahead: a sign-in with the old password until the file is there is one of before.
    assert "password_changed = 2026-09-21T14:13:21.123457Z\n" in path.read_text()
    assert await changed_at(path) == 1_790_000_001_123_457


def test_the_command_writes_what_hosts_need(config, path):
    asked = ["add", "-c", config, "ben", "--home", "/home/ben", "--shell", "/bin/zsh", "--group", "staff"]
    assert CliRunner().invoke(users, asked, input="long enough for us\n").exit_code == 0
    assert (people(path)["ben"].home_directory, people(path)["ben"].login_shell) == ("/home/ben", "/bin/zsh")

    refused = CliRunner().invoke(users, ["add", "-c", config, "cleo", "--home", "home"], input="long enough for us\n")
    assert (refused.exit_code, "home_directory: 'home': expected an absolute path" in refused.stderr) == (1, True)
    assert set(people(path)) == {"ann", "ben"}


async def test_the_commands_write_the_moment(config, path):
    def run(*arguments):
        assert CliRunner().invoke(users, [*arguments[:1], "-c", config, *arguments[1:]], input="long enough for us\n").exit_code == 0

    before = time.time_ns() // 1000
    run("add", "ben")
    run("passwd", "ann")
    after = time.time_ns() // 1000

    for name in ("ann", "ben"):
        moment = people(path)[name].password_changed
        assert moment is not None
        assert before <= (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) - edit.WRITING <= after


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-09-21T14:13:20Z", 1_790_000_000_000_000),
        ("2026-09-21T16:13:20.5+02:00", 1_790_000_000_500_000),
        (None, None),
    ],
)
async def test_the_moment_may_be_written_by_hand_or_left_out(path, text, moment):
    path.write_text(path.read_text() + (f"password_changed = {text}\n" if text else ""))

    assert await changed_at(path) == moment


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2026-09-21T14:13:20", "timezone"),
        ("2026-09-21", "got `date`"),
        ('"2026-09-21T14:13:20Z"', "got `str`"),
        ("1790000000", "got `int`"),
    ],
)
def test_a_moment_that_is_none_is_named(text, reason):
    with pytest.raises(ValueError, match=rf"datetime.*{reason}.*user\[0\]\.password_changed"):
        read(f'[[user]]\nusername = "ann"\npassword_changed = {text}\n'.encode())


# ---- At the same time


def test_of_users_who_are_added_at_once_none_is_lost(config, path):
    names = [f"user{number}" for number in range(6)]
    together = threading.Barrier(len(names))

    def add(name):
        together.wait()
        edit.add(path, name, "long enough", groups=("staff",))

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(add, names))

    assert set(people(path)) == {"ann", *names}


def test_a_change_waits_until_another_one_is_written(path):
    added = threading.Event()

    def add():
        edit.add(path, "ben", "long enough")
        added.set()

    with edit.alone(path):
        other = threading.Thread(target=add)
        other.start()
        assert not added.wait(0.3), "it was written while another change was under way"
    other.join(10)
    assert set(people(path)) == {"ann", "ben"}


def test_a_folder_that_cannot_be_locked_is_said(config, path, monkeypatch):
    def refuse(folder, operation):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(fcntl, "flock", refuse)

    result = CliRunner().invoke(users, ["add", "-c", config, "ben"], input="long enough for us\n")

    assert result.exit_code == 1
    assert "its folder cannot be locked: Bad file descriptor" in result.output
    assert set(people(path)) == {"ann"}


def test_a_lock_that_is_held_for_ever_is_said(config, path, monkeypatch):
    monkeypatch.setattr(edit, "LOCK_SECONDS", 0.05)
    folder = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_SH)

    result = CliRunner().invoke(users, ["passwd", "-c", config, "ann"], input="long enough for us\n")
    os.close(folder)

    assert result.exit_code != 0
    assert "its folder is locked by somebody else" in result.output


def test_of_two_first_starts_one_makes_the_administrator(tmp_path, monkeypatch):
    path = tmp_path / "users.toml"
    first, second = UsersFile(path, Log()), UsersFile(path, Log())
    real = edit.add

    def slower(*arguments, **options):
        monkeypatch.setattr(edit, "add", real)
        assert first.open() is not None
        real(*arguments, **options)

    monkeypatch.setattr(edit, "add", slower)

    assert second.open() is None
    assert list(people(path)) == ["admin"]


async def test_a_password_that_is_replaced_while_it_is_checked_signs_nobody_in(path):
    file = UsersFile(path, Log())
    file.open()

    class Pool:
        async def run(self, _pool, check, hashed, password):
            right = check(hashed, password)
            edit.change_password(path, "ann", "battery staple", FakeClock().now)
            return right

    authenticator = FilePassword(file, "EXAMPLE.ORG", Pool())

    with pytest.raises(Denied):
        await authenticator.attempt(Password(username="ann", password=Secret("correct horse")), None)


def test_a_change_leaves_nothing_but_the_file(path):
    edit.change_password(path, "ann", "battery staple", FakeClock().now)

    assert [one.name for one in path.parent.iterdir()] == ["users.toml"]


# ---- Owner and mode


def own(path):
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_what_root_changes_still_belongs_to_the_service(config, path, mode):
    os.chown(path, SERVICE, SERVICE + 1)
    path.chmod(mode)

    added = CliRunner().invoke(users, ["add", "-c", config, "ben"], input="long enough for us\n")
    changed = CliRunner().invoke(users, ["passwd", "-c", config, "ben"], input="another one of us\n")

    assert (added.exit_code, changed.exit_code) == (0, 0)
    assert own(path) == (SERVICE, SERVICE + 1, mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_that_root_makes_belongs_to_whom_the_folder_belongs(tmp_path):
    os.chown(tmp_path, SERVICE, SERVICE + 1)
    path = tmp_path / "users.toml"

    edit.add(path, "ann", "correct horse")

    assert own(path) == (SERVICE, SERVICE + 1, 0o600)


@pytest.mark.parametrize(("mode", "kept"), [(0o640, 0o640), (0o400, 0o400), (0o664, 0o640), (0o644, 0o640)])
def test_the_mode_stays_but_for_what_stops_the_start(path, mode, kept):
    path.chmod(mode)

    edit.add(path, "ben", "long enough")

    assert stat.S_IMODE(path.stat().st_mode) == kept
    assert UsersFile(path, Log()).open() is None


def test_a_link_stays_a_link(tmp_path, path):
    link = tmp_path / "link.toml"
    link.symlink_to(path)

    edit.add(link, "ben", "long enough")

    assert link.is_symlink()
    assert set(people(path)) == {"ann", "ben"}


def run_as(uid, work):
    """Do ``work`` in a child process of another user; what it says."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(uid)
            os.setuid(uid)
            said = work()
        except BaseException as error:  # noqa: BLE001  # the child must not return into pytest
            said = repr(error)
        os.write(writer, msgspec.json.encode(said))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = msgspec.json.decode(pipe.read())
    os.waitpid(child, 0)
    return said


@pytest.fixture
def open_folder():
    """A folder that other users get to: those of pytest are root's alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
@pytest.mark.parametrize(("owner", "reason"), [(0, "Permission denied"), (SERVICE, "belongs to another user")])
def test_who_may_not_change_it_is_told_so_and_it_stays_as_it_was(open_folder, owner, reason):
    path, config = open_folder / "state" / "users.toml", open_folder / "greatseal.toml"
    edit.add(path, "ann", "correct horse")
    path.chmod(0o644)
    config.write_text(f'[users]\nfile = "{path}"\n')
    os.chown(path.parent, owner, owner)
    path.parent.chmod(0o755)
    before = path.read_text()
    is_common("")  # The other user may not read the list where this interpreter lies.

    def add():
        result = CliRunner().invoke(users, ["add", "-c", str(config), "ben"], input="long enough for us\n")
        return [result.exit_code, result.output]

    code, output = run_as(SERVICE, add)

    assert code == 1
    assert output.startswith(f"greatseal: {path} cannot be changed: ")
    assert reason in output
    assert path.read_text() == before
    assert [one.name for one in path.parent.iterdir()] == ["users.toml"]


def opened(path: Path) -> UsersFile:
    """A file with ann in it, read."""
    edit.add(path, "ann", "correct horse battery")
    file = UsersFile(path, structlog.get_logger())
    file.open()
    return file


async def test_a_password_is_set_without_the_old_one_by_the_rule_of_passwords(tmp_path: Path) -> None:
    path, clock = tmp_path / "users.toml", FakeClock()
    setter = FileSetter(opened(path), "EXAMPLE.ORG", Inline(), clock.now)

    assert await setter.set("ann", Secret("short")) == ChangeRefused(messages=objections("short", "ann"))
    assert await setter.set("ann", Secret("correct horse battery")) == ChangeRefused(messages=(SAME,))
    assert matches(read(path.read_bytes()).users["ann"].password or "", "correct horse battery")
    assert await setter.set("ann", Secret("battery staple")) is None
    ann = read(path.read_bytes()).users["ann"]
    assert matches(ann.password or "", "battery staple")
    assert ann.password_changed is not None
    assert isinstance(await setter.set("ben", Secret("battery staple")), ChangeRefused)
    path.write_text("[[[")
    assert isinstance(await setter.set("ann", Secret("another one of them")), ChangeRefused)
    path.unlink()
    with pytest.raises(Unavailable, match="cannot be changed now"):
        await setter.set("ann", Secret("another one of them"))


async def test_a_password_that_another_change_set_meanwhile_is_not_the_old_one_any_more(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    file = opened(path)
    hashed = file.people().users["ann"].password

    edit.change_password(path, "ann", "set by somebody else", FakeClock().now, instead_of=hashed)

    with pytest.raises(edit.ChangedMeanwhile):
        edit.change_password(path, "ann", "battery staple", FakeClock().now, instead_of=hashed)
    assert matches(read(path.read_bytes()).users["ann"].password or "", "set by somebody else")


async def test_who_has_no_password_or_is_of_another_realm_changes_none(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    file = opened(path)
    path.write_text(path.read_text() + '\n[[user]]\nusername = "ben"\n')
    setter = FileSetter(file, "EXAMPLE.ORG", Inline(), FakeClock().now)

    for name in ("ben", "ann@ELSEWHERE.ORG", "nobody"):
        with pytest.raises(Denied):
            await setter.change(name, Secret("correct horse battery"), Secret("battery staple"), context_of())
    assert isinstance(
        await setter.change("ann@example.org", Secret("correct horse battery"), Secret("battery staple"), context_of()), Authenticated
    )


class TestFileSetter(PasswordChangerContract):
    username, old, refused = "ann", "correct horse battery", "qwertyuiopas"

    @pytest.fixture(autouse=True)
    def _opened(self, tmp_path: Path) -> None:
        self._setter = FileSetter(opened(tmp_path / "users.toml"), "EXAMPLE.ORG", Inline(), FakeClock().now)

    def changer(self) -> FileSetter:
        return self._setter


class Inline:
    """Threads that are none."""

    async def run(self, pool: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        assert pool == "argon2"
        return fn(*args, **kwargs)
