"""A password of the users file, set by this service: by who proves the old one, or proved themselves in another way."""

from collections.abc import Callable

from greatseal.api.declarations import Secret
from greatseal.api.identity import Authenticated, ChangeRefused, Denied, LoginContext, PasswordChanger
from greatseal.api.messages import Message
from greatseal.api.passwords import PasswordSetter
from greatseal.api.problems import Unavailable
from greatseal.host import Blocking
from greatseal_users_file.file import UsersFile
from greatseal_users_file.password import matches
from greatseal_users_file.rules import SAME, objections

GONE = Message("this account cannot be changed here any more")


class FileSetter(PasswordSetter, PasswordChanger):
    """Writes the file. Only with `[users] writable`."""

    name = "users-file"
    anytime = True

    def __init__(self, file: UsersFile, realm: str, blocking: Blocking, now: Callable[[], int]) -> None:
        self._file = file
        self._realm = realm
        self._blocking = blocking
        self._now = now

    async def set(self, username: str, new: Secret) -> ChangeRefused | None:
        return await self._set(username, new, self._hash_of(username), instead_of=None)

    async def change(self, username: str, old: Secret, new: Secret, context: LoginContext) -> Authenticated | ChangeRefused:  # noqa: ARG002  the contract's parameter
        short, _, realm = username.partition("@")
        hashed = self._hash_of(short)
        if hashed is None or (realm and realm.upper() != self._realm.upper()):
            raise Denied("nobody of the file has this name and a password")
        if not await self._blocking.run("argon2", matches, hashed, old.value):
            raise Denied("the old password is wrong")
        refused = await self._set(short, new, hashed, instead_of=hashed)
        return Authenticated(username=short, realm=self._realm, amr=("pwd",)) if refused is None else refused

    def _hash_of(self, username: str) -> str | None:
        user = self._file.people().users.get(username)
        return None if user is None else user.password

    async def _set(self, username: str, new: Secret, hashed: str | None, *, instead_of: str | None) -> ChangeRefused | None:
        from greatseal_users_file import edit  # a start that changes nothing needs no TOML writer

        if found := objections(new.value, username):
            return ChangeRefused(messages=found)
        if hashed is not None and await self._blocking.run("argon2", matches, hashed, new.value):
            return ChangeRefused(messages=(SAME,))
        try:
            change = edit.change_password
            await self._blocking.run("argon2", change, self._file.path, username, new.value, self._now, instead_of=instead_of)
        except edit.ChangedMeanwhile as changed:
            raise Denied("the old password is wrong", cause=str(changed)) from None
        except ValueError:
            return ChangeRefused(messages=(GONE,))
        except OSError as error:
            raise Unavailable(Message("the password cannot be changed now"), cause=f"{self._file.path}: {error}") from None
        return None
