"""``greatseal users``: add, passwd and list."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from greatseal_users_file.people import People, read

CONFIG = click.option(
    "-c", "--config", "config", type=click.Path(path_type=Path, exists=True), required=True, metavar="FILE", help="The configuration file."
)


class _Users(msgspec.Struct, frozen=True):
    file: str


class _Document(msgspec.Struct, frozen=True):
    users: _Users | None = None


@click.group()
def users() -> None:
    """People of the users file."""


@users.command("add")
@CONFIG
@click.argument("username")
@click.option("--name", help="The name that is shown.")
@click.option("--email", help="The mail address.")
@click.option("--group", "groups", multiple=True, help="A group; may be given again.")
@click.option("--home", help="The home directory on hosts.")
@click.option("--shell", help="The login shell on hosts.")
def add(
    config: Path, username: str, *, name: str | None, email: str | None, groups: tuple[str, ...], home: str | None, shell: str | None
) -> None:
    """Add a user; the password is asked for, or read from standard input."""
    from greatseal_users_file import edit

    path = _file(config)
    password = _password(username)
    with _told(path):
        edit.add(path, username, password, display_name=name, email=email, groups=groups, home_directory=home, login_shell=shell, now=_now)
    click.echo(f"{username} was added to {path}")


@users.command("passwd")
@CONFIG
@click.argument("username")
def passwd(config: Path, username: str) -> None:
    """Set a new password, asked for or read from standard input. Sessions and tokens of before end."""
    from greatseal_users_file import edit
    from greatseal_users_file.password import matches
    from greatseal_users_file.rules import SAME

    path = _file(config)
    password = _password(username)
    now = _people(path).users.get(username)
    if now is not None and now.password is not None and matches(now.password, password):
        _fail(f"the password is refused: {SAME}")
    with _told(path):
        edit.change_password(path, username, password, _now)
    click.echo(f"the password of {username} is changed")


@users.command("list")
@CONFIG
def list_users(config: Path) -> None:
    """List users with their groups."""
    for user in _people(_file(config)).users.values():
        off = "" if user.enabled else "  (disabled)"
        click.echo(f"{user.username:<20} {user.display_name or '':<28} {', '.join(user.groups)}{off}")


def _now() -> int:
    """Microseconds since the epoch; a command has no host, whose clock the service uses."""
    return time.time_ns() // 1000


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Whoever asked for a change that cannot be made is told why, in one line."""
    try:
        yield
    except OSError as error:
        _fail(f"{path} cannot be changed: {error.strerror}")
    except ValueError as error:
        _fail(str(error))


def _people(path: Path) -> People:
    try:
        return read(path.read_bytes())
    except (OSError, ValueError) as error:
        _fail(f"{path}: {error}")
        raise


def _file(config: Path) -> Path:
    try:
        document = msgspec.toml.decode(config.read_bytes(), type=_Document)
    except (OSError, msgspec.DecodeError) as error:
        _fail(f"{config}: {error}", code=2)
        raise
    if document.users is None:
        _fail(f"{config}: [users] file must be given", code=2)
        raise ValueError
    return Path(document.users.file)


def _password(username: str) -> str:
    from greatseal_users_file.rules import objections

    if sys.stdin.isatty():
        password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    if found := objections(password, username):
        _fail(f"the password is refused: {', and '.join(map(str, found))}")
    return password


def _fail(reason: str, *, code: int = 1) -> None:
    click.echo(f"greatseal: {reason}", err=True)
    sys.exit(code)
