"""The file's contents: what a user and a group are, and every rule that they keep."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from argon2 import extract_parameters
from argon2.exceptions import InvalidHash

PATH = re.compile(r"/[^\x00-\x1f\x7f:]*")
"""An absolute path that has a place in a line of passwd(5)."""
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class FileUser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[user]]`: ``password`` is an Argon2id hash, absent for somebody who cannot sign in by password.

    ``password_changed`` ends what an earlier sign-in began; `greatseal users` writes it, and whoever edits the hash by hand may.
    """

    username: str
    password: str | None = None
    password_changed: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    display_name: str | None = None
    given_name: str | None = None
    family_name: str | None = None
    email: str | None = None
    email_verified: bool | None = None
    phone: str | None = None
    uid_number: int | None = None
    gid_number: int | None = None
    home_directory: str | None = None
    login_shell: str | None = None
    groups: tuple[str, ...] = ()
    enabled: bool = True


class FileGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[group]]`: a group may also exist by being named in a user alone."""

    name: str
    description: str = ""
    gid_number: int | None = None


class People(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody, by name."""

    users: Mapping[str, FileUser]
    groups: Mapping[str, FileGroup]
    members: Mapping[str, tuple[str, ...]]
    usernames: tuple[str, ...]
    """The names of users, sorted."""
    group_names: tuple[str, ...]
    """The names of groups, sorted."""


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    user: tuple[FileUser, ...] = ()
    group: tuple[FileGroup, ...] = ()


def read(text: bytes) -> People:
    """The people of a TOML text. Raises ValueError with one line that names what is wrong."""
    try:
        document = msgspec.toml.decode(text, type=_Document)
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(str(error)) from None
    for kind, names in (("user", [one.username for one in document.user]), ("group", [one.name for one in document.group])):
        _check_names(kind, names)
    _check_case([user.username for user in document.user])
    for user in document.user:
        _check(user)
    groups = {group.name: group for group in document.group}
    for name in sorted({name for user in document.user for name in user.groups} - groups.keys()):
        groups[name] = FileGroup(name=name)
    users = {user.username: user for user in document.user}
    usernames = tuple(sorted(users))
    members: dict[str, list[str]] = {name: [] for name in groups}
    for username in usernames:
        for name in dict.fromkeys(users[username].groups):
            members[name].append(username)
    return People(
        users=users,
        groups=groups,
        members={name: tuple(of) for name, of in members.items()},
        usernames=usernames,
        group_names=tuple(sorted(groups)),
    )


def datetime_of(moment: int) -> datetime:
    """A moment (microseconds since the epoch) as TOML has it."""
    return EPOCH + moment * MICROSECOND


def moment_of(when: datetime) -> int:
    """As :func:`datetime_of`, the other way round; exact, as no float is."""
    return (when - EPOCH) // MICROSECOND


def _check_names(kind: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if NAME.fullmatch(name) is None:
            raise ValueError(f"{kind} {name!r}: expected 1 to 64 of letters, digits, '.', '_' and '-', not beginning with '.' or '-'")
        if count > 1:
            raise ValueError(f"{kind} {name!r} stands there {count} times")


def _check_case(usernames: Sequence[str]) -> None:
    """Two people whose names differ in case alone would share the count of their wrong passwords, and one's success clears it."""
    others: dict[str, str] = {}
    for name in usernames:
        other = others.setdefault(name.lower(), name)
        if other != name:
            raise ValueError(f"users {other!r} and {name!r} differ in case alone; rename one")


def _check(user: FileUser) -> None:
    _check_names("group", sorted(set(user.groups)))
    if user.password is not None:
        try:
            kind = extract_parameters(user.password).type.name
        except InvalidHash:
            kind = ""
        if kind != "ID":
            raise ValueError(f"user {user.username!r}: password is no Argon2id hash; set one with `greatseal users passwd`")
    if user.email is not None and user.email.count("@") != 1:
        raise ValueError(f"user {user.username!r}: email: expected one '@'")
    for key, path in (("home_directory", user.home_directory), ("login_shell", user.login_shell)):
        if path is not None and PATH.fullmatch(path) is None:
            raise ValueError(f"user {user.username!r}: {key}: {path!r}: expected an absolute path without ':' and control characters")
