"""Sign-in by a password of PAM, and the change of one that has expired."""

import secrets
from ipaddress import ip_address
from typing import NoReturn

import msgspec
import structlog

from greatseal.api.declarations import Secret
from greatseal.api.identity import (
    AccountRefused,
    Attempted,
    Authenticated,
    Authenticator,
    ChangeRefused,
    Denied,
    LoginContext,
    NotMine,
    Password,
    PasswordChanger,
    PasswordExpired,
)
from greatseal.api.messages import Message
from greatseal.api.problems import Unavailable
from greatseal.host import Clock
from greatseal_pam.names import short_name
from greatseal_pam.pace import Pace
from greatseal_pam.pool import Helpers
from greatseal_pam.settings import PamSettings

NAME = "pam"
LONGEST_PASSWORD = 511
"""Bytes: more is no answer for PAM."""
LONGEST_DELAY = 5.0
_UNFIT = Message("the new password is longer than %(longest)d bytes or has a character that none may have", {"longest": LONGEST_PASSWORD})
UNKNOWN = Message("the password may be changed or not; sign in with the new one, or with the old one")
_CODES = {
    1: "PAM_OPEN_ERR", 2: "PAM_SYMBOL_ERR", 3: "PAM_SERVICE_ERR", 4: "PAM_SYSTEM_ERR", 5: "PAM_BUF_ERR", 6: "PAM_PERM_DENIED",
    7: "PAM_AUTH_ERR", 8: "PAM_CRED_INSUFFICIENT", 9: "PAM_AUTHINFO_UNAVAIL", 10: "PAM_USER_UNKNOWN", 11: "PAM_MAXTRIES",
    12: "PAM_NEW_AUTHTOK_REQD", 13: "PAM_ACCT_EXPIRED", 19: "PAM_CONV_ERR", 20: "PAM_AUTHTOK_ERR", 21: "PAM_AUTHTOK_RECOVERY_ERR",
    22: "PAM_AUTHTOK_LOCK_BUSY", 23: "PAM_AUTHTOK_DISABLE_AGING", 24: "PAM_TRY_AGAIN", 26: "PAM_ABORT", 27: "PAM_AUTHTOK_EXPIRED",
    28: "PAM_MODULE_UNKNOWN",
}  # fmt: skip
_WRONG = frozenset({6, 7, 11, 13, 19, 27})
"""Of the step authenticate: nothing is proven, whatever the reason."""
_REFUSED = frozenset({6, 7, 19, 20, 21, 22, 23, 24, 27})
"""Of the step change."""


class Said(msgspec.Struct, frozen=True):
    """:class:`greatseal_pam.libpam.Verdict`, as the helper tells it."""

    step: str
    code: int
    user: str
    messages: tuple[str, ...]
    asked: tuple[str, ...]
    delay: int

    def __str__(self) -> str:
        unanswered = f"; it asked {', '.join(map(repr, self.asked))}, which nobody can answer" if self.asked else ""
        return f"{_CODES.get(self.code, 'PAM code')} ({self.code}) of {self.step}{unanswered}"


class Stack:
    """The PAM service, asked through helper processes."""

    def __init__(self, settings: PamSettings, realm: str, helpers: Helpers, clock: Clock, log: structlog.stdlib.BoundLogger) -> None:
        self.realm = realm
        self.clock = clock
        self.pace = Pace(clock)
        self._settings = settings
        self._helpers = helpers
        self._log = log

    async def authenticate(self, user: str, password: Secret, remote: str) -> Said:
        """What is wrong with the stack is in the log. Raises Unavailable."""
        typed = password.value if _fits(password.value) else ""
        said = await self._ask("authenticate", user, typed, remote, decoy=f"x{secrets.token_hex(8)}")
        if said.asked:
            self._log.warning("the PAM service asks more than the password", service=self._settings.service, prompts=said.asked)
        return said

    async def change(self, user: str, old: Secret, new: Secret, remote: str) -> Said:
        """Raises Unavailable, after which nobody knows whether the new password is the one."""
        try:
            return await self._ask("change", user, old.value, remote, new=new.value)
        except Unavailable as problem:
            raise Unavailable(UNKNOWN, cause=problem.cause) from None

    async def _ask(self, what: str, user: str, password: str, remote: str, **more: str) -> Said:
        question = {
            "ask": what,
            "service": self._settings.service,
            "folder": str(self._settings.config_dir or ""),
            "user": user,
            "password": password,
            "remote": _address(remote),
            "min_uid": self._settings.min_uid if self._settings.accounts else None,
            **more,
        }
        return await self._helpers.ask(question, Said)

    def proven(self, said: Said) -> Authenticated:
        """Raises Unavailable where the stack calls the person by a name that cannot be one here."""
        name = short_name(said.user, self.realm)
        if name is None:
            raise Unavailable(Message("the password cannot be checked now"), cause=f"the PAM service calls the person {said.user!r}")
        return Authenticated(username=name, realm=self.realm, amr=("pwd",))

    async def failed(self, began: float, said: Said | None = None) -> None:
        """Take the time that every failure takes."""
        await self.pace.failed(began, min(said.delay / 1e6, LONGEST_DELAY) if said else 0.0)


class PamPassword(Authenticator[Password]):
    """Asks the stack; see the table of codes in the guide."""

    name = NAME
    credential = Password

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    async def attempt(self, credential: Password, context: LoginContext) -> Attempted:
        began = self._stack.clock.monotonic()
        user = short_name(credential.username, self._stack.realm)
        if user is None:
            await self._stack.failed(began)
            return NotMine()
        said = await self._stack.authenticate(user, credential.password, context.remote)
        match said.step, said.code:
            case "account", 0:
                return self._stack.proven(said)
            case "account", 12:
                proven = self._stack.proven(said)
                return PasswordExpired(username=proven.username, realm=proven.realm, changer=NAME)
            case "account", code:
                refuse(said, code)
            case "authenticate", 10:
                await self._stack.failed(began, said)
                return NotMine()
            case "authenticate", code if code in _WRONG or said.asked:
                await self._stack.failed(began, said)
                raise Denied(str(said))
        raise Unavailable(Message("the password cannot be checked now; try again"), cause=str(said))


class PamChanger(PasswordChanger):
    """The stack's own rules decide about the new password, in its own words."""

    name = NAME

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    async def change(self, username: str, old: Secret, new: Secret, context: LoginContext) -> Authenticated | ChangeRefused:
        began = self._stack.clock.monotonic()
        user = short_name(username, self._stack.realm)
        if user is None or not _fits(old.value):
            await self._stack.failed(began)
            raise Denied("no account has such a name or password")
        if not _fits(new.value):
            return ChangeRefused(messages=(_UNFIT,))
        said = await self._stack.change(user, old, new, context.remote)
        match said.step, said.code:
            case "change", 0:
                return self._stack.proven(said)
            case "change", code if code in _REFUSED:
                return ChangeRefused(messages=said.messages or (Message("the new password was refused; choose another"),))
            case "account", code:
                refuse(said, code)
            case "authenticate", code if code in _WRONG or code == 10 or said.asked:
                await self._stack.failed(began, said)
                raise Denied(str(said))
        raise Unavailable(Message("the password cannot be changed now; try again"), cause=str(said))


def refuse(said: Said, code: int) -> NoReturn:
    """The password is right, and the account may not be used. Raises AccountRefused, or Unavailable where nobody can say."""
    if code == 13:
        raise AccountRefused(Message("this account has expired"), cause=str(said))
    if code in {6, 7, 10, 11}:
        raise AccountRefused(Message("this account may not sign in here"), cause=str(said))
    raise Unavailable(Message("the account cannot be checked now; try again"), cause=str(said))


def _address(remote: str) -> str:
    """An address, or nothing: libpam resolves what is none for the audit system, and waits for DNS."""
    try:
        return str(ip_address(remote))
    except ValueError:
        return ""


def _fits(password: str) -> bool:
    """Whether PAM can be given it."""
    try:
        return "\0" not in password and 0 < len(password.encode()) <= LONGEST_PASSWORD
    except UnicodeEncodeError:
        return False
