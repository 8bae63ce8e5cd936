"""Sign-in by a password of the users file."""

from argon2.exceptions import VerificationError

from greatseal.api.identity import Attempted, Authenticated, Authenticator, Denied, LoginContext, NotMine, Password
from greatseal.host import Blocking
from greatseal_users_file.file import UsersFile
from greatseal_users_file.hashing import HASHER
from greatseal_users_file.people import moment_of


class FilePassword(Authenticator[Password]):
    """Checks Argon2id hashes, each 24 ms of a core, in a bounded pool."""

    name = "users-file"
    credential = Password
    hashes = True

    def __init__(self, file: UsersFile, realm: str, blocking: Blocking) -> None:
        self._file = file
        self._realm = realm
        self._blocking = blocking

    async def attempt(self, credential: Password, context: LoginContext) -> Attempted:  # noqa: ARG002  # the contract's parameter
        username, _, realm = credential.username.partition("@")
        user = self._file.people().users.get(username)
        if user is None or (realm and realm.upper() != self._realm.upper()):
            return NotMine()
        if user.password is None:
            return NotMine()  # somebody else may know a password, and the caller spends the time that a check takes
        if not await self._blocking.run("argon2", matches, user.password, credential.password.value):
            raise Denied("the name or the password is wrong")
        now = self._file.people().users.get(username)
        if now is None or now.password != user.password:
            raise Denied("the password was changed while it was checked")
        changed = moment_of(user.password_changed) if user.password_changed is not None else None
        return Authenticated(username=username, realm=self._realm, amr=("pwd",), password_changed_at=changed)


def matches(hashed: str, password: str) -> bool:
    """Whether it is the password of the hash."""
    try:
        return HASHER.verify(hashed, password)
    except VerificationError:
        return False
