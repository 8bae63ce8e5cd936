"""A password of the users file, set without the old one."""

from collections.abc import Callable
from pathlib import Path

from greatseal.api.declarations import Secret
from greatseal.api.identity import ChangeRefused
from greatseal.api.passwords import PasswordSetter
from greatseal.api.problems import Unavailable
from greatseal.host import Blocking
from greatseal_users_file.rules import objections


class FileSetter(PasswordSetter):
    """Writes the file. Only with `[users] writable`."""

    name = "users-file"

    def __init__(self, path: Path, blocking: Blocking, now: Callable[[], int]) -> None:
        self._path = path
        self._blocking = blocking
        self._now = now

    async def set(self, username: str, new: Secret) -> ChangeRefused | None:
        from greatseal_users_file import edit  # a start that changes nothing needs no TOML writer

        if found := objections(new.value, username):
            return ChangeRefused(messages=found)
        try:
            await self._blocking.run("argon2", edit.change_password, self._path, username, new.value, self._now)
        except ValueError:
            return ChangeRefused(messages=("this account cannot be changed here any more",))
        except OSError as error:
            raise Unavailable("the password cannot be changed now", cause=f"{self._path}: {error}") from None
        return None
