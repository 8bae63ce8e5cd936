"""The accounts of this machine, as the name service switch (NSS) knows them.

The standard library alone, as in :mod:`greatseal_pam.libpam`. By ctypes, since :mod:`pwd` tells an outage as an unknown name.
"""

import contextlib
import ctypes
import errno
import grp
import os
import pwd
import time
from collections.abc import Iterator, Sequence
from ctypes import POINTER, Structure, c_char_p, c_int, c_long, c_size_t, c_uint, c_ulong, c_void_p
from pathlib import Path
from typing import Any, TypeAlias

NOBODY = 65534
"""The number of who is nobody, though it is above those of people."""
_MOST = 1 << 20
_DAY = 86_400
_LOCAL = frozenset({"files", "compat", "db", "systemd", "altfiles", "extrausers", "mymachines", "nis"})
_NSSWITCH, _SSSD = Path("/etc/nsswitch.conf"), Path("/etc/sssd/sssd.conf")

Account: TypeAlias = dict[str, Any]


class Outage(Exception):
    """NSS gave no answer."""


class _Passwd(Structure):
    _fields_ = (
        ("name", c_char_p), ("passwd", c_char_p), ("uid", c_uint), ("gid", c_uint),
        ("gecos", c_char_p), ("dir", c_char_p), ("shell", c_char_p),
    )  # fmt: skip


class _Group(Structure):
    _fields_ = (("name", c_char_p), ("passwd", c_char_p), ("gid", c_uint), ("members", POINTER(c_char_p)))


class _Shadow(Structure):
    _fields_ = (
        ("name", c_char_p), ("password", c_char_p), ("changed", c_long), ("least", c_long),
        ("most", c_long), ("warn", c_long), ("inactive", c_long), ("expire", c_long), ("flag", c_ulong),
    )  # fmt: skip


_libc = ctypes.CDLL(None)
for _name in ("getpwnam_r", "getgrnam_r", "getspnam_r"):
    getattr(_libc, _name).argtypes = (c_char_p, c_void_p, c_void_p, c_size_t, POINTER(c_void_p))
    getattr(_libc, _name).restype = c_int


class Accounts:
    """People: accounts with a number of ``min_uid`` at least."""

    def __init__(self, min_uid: int) -> None:
        self._min_uid = min_uid

    def user(self, name: str) -> Account | None:
        """With groups and state. Raises Outage."""
        with _asked("getpwnam_r", name, _Passwd) as found:
            if found is None or not self._is_person(found.uid):
                return None
            account = _account(pwd.struct_passwd(_texts(found)))
        return {**account, "groups": _groups_of(account), **_state(account["username"])}

    def group(self, name: str) -> dict[str, Any] | None:
        """With its members, those whose own group it is too. Raises Outage."""
        with _asked("getgrnam_r", name, _Group) as found:
            if found is None:
                return None
            named, gid, members = _text(found.name), found.gid, [_text(member) for member in _until_null(found.members)]
        people = {one["username"] for one in self._everybody()}
        own = {one["username"] for one in self._everybody() if one["gid"] == gid}
        inside = own | {member for member in members if member in people or self.user(member)}
        return {"name": named, "gid": gid, "members": sorted(inside)}

    def users(self, prefix: str, limit: int, after: str) -> list[Account]:
        """Those that NSS lists."""
        return _page(self._everybody(), "username", prefix, limit, after)

    def groups(self, prefix: str, limit: int, after: str) -> list[dict[str, Any]]:
        """Those that NSS lists, without members."""
        listed = [{"name": one.gr_name, "gid": one.gr_gid, "members": []} for one in grp.getgrall()]
        return _page(listed, "name", prefix, limit, after)

    def _everybody(self) -> list[Account]:
        return [_account(one) for one in pwd.getpwall() if self._is_person(one.pw_uid)]

    def _is_person(self, uid: int) -> bool:
        return uid >= self._min_uid and uid != NOBODY


@contextlib.contextmanager
def _asked(function: str, name: str, kind: type[Any]) -> Iterator[Any]:
    """The record of a name, valid within the block, None where there is none. Raises Outage."""
    record, result, size = kind(), c_void_p(), 1024
    while True:
        buffer = ctypes.create_string_buffer(size)
        code = getattr(_libc, function)(name.encode(), ctypes.byref(record), buffer, size, ctypes.byref(result))
        if code != errno.ERANGE or size >= _MOST:
            break
        size *= 4
    # glibc says 0 where every source answered, whether one of them knows the name or not; ENOENT where the server of one is not there.
    if code and (code != errno.ENOENT or _servers()):
        raise Outage(f"{function}: {os.strerror(code)}")
    yield record if result.value else None


def _servers() -> list[str]:
    """The sources of /etc/nsswitch.conf that a server is behind. Debian names sss wherever its library is, set up or not."""
    try:
        lines = _NSSWITCH.read_text().splitlines()
    except OSError:
        return []
    sources = {source for line in lines if line.startswith(("passwd:", "group:")) for source in line.partition(":")[2].split()}
    return sorted(one for one in sources - _LOCAL if one.isalnum() and (one != "sss" or _SSSD.exists()))


def _state(name: str) -> dict[str, bool]:
    """What /etc/shadow says, where this process may read it; PAM says it at each sign-in anyway."""
    try:
        with _asked("getspnam_r", name, _Shadow) as found:
            if found is None:
                return {}
            today = int(time.time()) // _DAY
            hashed = _text(found.password)
            return {
                # A hash behind the mark: somebody locked it. A mark alone says that the password is elsewhere, or that there is none.
                "locked": hashed.startswith("!") and hashed.lstrip("!").startswith("$"),
                "expired": found.expire >= 0 and today >= found.expire,
                "password_expired": found.changed == 0 or (found.changed > 0 and found.most >= 0 and today > found.changed + found.most),
            }
    except Outage:
        return {}


def _groups_of(account: Account) -> list[str]:
    names = []
    for gid in os.getgrouplist(account["username"], account["gid"]):
        with contextlib.suppress(KeyError):
            names.append(grp.getgrgid(gid).gr_name)
    return list(dict.fromkeys(names))


def _account(one: pwd.struct_passwd) -> Account:
    shown = one.pw_gecos.partition(",")[0].strip()
    return {
        "username": one.pw_name,
        "display_name": shown or None,
        "home": one.pw_dir,
        "shell": one.pw_shell,
        "uid": one.pw_uid,
        "gid": one.pw_gid,
    }


def _page(found: Sequence[dict[str, Any]], key: str, prefix: str, limit: int, last: str) -> list[dict[str, Any]]:
    named = {one[key]: one for one in found if one[key].startswith(prefix) and one[key] > last}
    return [named[name] for name in sorted(named)[:limit]]


def _until_null(array: Any) -> Iterator[bytes]:
    n = 0
    while array and array[n] is not None:
        yield array[n]
        n += 1


def _texts(found: Any) -> tuple[Any, ...]:
    values = (getattr(found, name) for name in ("name", "passwd", "uid", "gid", "gecos", "dir", "shell"))
    return tuple(value if isinstance(value, int) else _text(value) for value in values)


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
