"""A feature with the people alice and bob: a directory, their passwords, and what is asked around a sign-in and a grant.

``feature = install(folder, "greatseal-people", PEOPLE)`` makes it one that is installed; ``people_of(service)`` is what a test changes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

import aiohttp
import msgspec

from greatseal import hookimpl
from greatseal.api.declarations import Secret
from greatseal.api.directory import AccountState, Directory, DirectoryUnavailable, Group, Tier, User
from greatseal.api.identity import (
    AccessDenied,
    Attempted,
    Authenticated,
    Authenticator,
    ChangeRefused,
    Denied,
    LoginContext,
    LoginOption,
    LoginOptions,
    NotMine,
    Password,
    PasswordAndCode,
    PasswordChanger,
    Upstream,
)
from greatseal.api.tokens import ClaimsProvider, GrantCheck, GrantQuestion
from greatseal.host import Host
from greatseal.testing.desk import Answer, Desk
from greatseal.testing.service import Service

__all__ = ["PEOPLE", "People", "PeopleDesk", "people_of"]

PEOPLE = "from greatseal.testing.people import Plugin\n"
REALM = "LOCALHOST"
LEAST = 8
"""Characters of a new password."""


class People:
    """Who there is, and how the parts of the feature behave: a test changes any of it while the service runs."""

    def __init__(self) -> None:
        alice = User(username="alice", realm=REALM, source="people", display_name="Alice", email="alice@example.com", uid_number=7)
        bob = User(username="bob", realm=REALM, source="people", display_name="Bob", groups=("admins",))
        self.users = {"alice": msgspec.structs.replace(alice, groups=("staff",)), "bob": bob}
        self.passwords = {"alice": "wonderland", "bob": "builder"}
        self.codes = {"alice": {"123456"}}
        """One-time codes that are not used yet."""
        self.claims: dict[str, dict[str, Any]] = {"alice": {"name": "Alice", "email": "alice@example.com", "phone_number": "+1"}}
        self.down = False
        """The directory cannot be reached."""
        self.asked = 0
        """How often the directory was."""
        self.attempts = 0
        """How many passwords were tried."""
        self.amr: tuple[str, ...] = ("pwd",)
        self.upstream: Upstream | None = None
        self.headers: tuple[tuple[str, str], ...] = ()
        self.shut = ""
        """The phase of a grant question that is refused."""
        self.withheld: frozenset[str] = frozenset()
        """Scopes that are taken away from whoever asks for them."""
        self.questions: list[GrantQuestion] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        """What happens while a grant is decided on."""

    def add(self, username: str, **fields: Any) -> None:
        """A person, with a password of that name."""
        self.users[username] = User(username=username, realm=REALM, source="people", **fields)
        self.passwords[username] = f"password of {username}"

    def change(self, username: str, **fields: Any) -> None:
        """Other fields of a user."""
        self.users[username] = msgspec.structs.replace(self.users[username], **fields)


def people_of(service: Service) -> People:
    """The people of a running service with the feature."""
    feature: Any = service.kernel.hooks.instances["people"]
    people: People = feature.people
    return people


class PeopleDesk(Desk):
    """A desk at which alice and bob sign in."""

    def __init__(self, service: Service, http: aiohttp.ClientSession) -> None:
        super().__init__(service, http)
        self.people = people_of(service)

    async def login(self, username: str = "alice", password: str | None = None, **more: Any) -> Answer:
        known = self.people.passwords.get(username, "nothing")
        return await super().login(username, known if password is None else password, **more)

    async def cookie(self, username: str = "alice") -> str:
        """Of a new session."""
        answer = await self.login(username)
        assert answer.status == 200, answer.text
        return answer.cookie


class _Part:
    name: ClassVar[str] = "people"

    def __init__(self, people: People) -> None:
        self.people = people


class _Directory(_Part, Directory):
    tier = Tier.STATIC
    realm = REALM

    async def user(self, username: str) -> User | None:
        self.people.asked += 1
        if self.people.down:
            raise DirectoryUnavailable("the directory cannot be reached")
        return self.people.users.get(username)

    async def users(self, prefix: str, limit: int, after: str = "") -> Sequence[User]:
        known = self.people.users
        return [known[name] for name in sorted(known) if name.startswith(prefix) and name > after][:limit]

    async def group(self, name: str) -> Group | None:
        return None


class _Authenticator(_Part, Authenticator[Password]):
    credential = Password

    async def attempt(self, credential: Password, context: LoginContext) -> Attempted:
        self.people.attempts += 1
        name, _, realm = credential.username.partition("@")
        if name not in self.people.passwords or realm.upper() not in {"", REALM}:
            return NotMine()
        if credential.password.value != self.people.passwords[name]:
            raise Denied("the password of people is wrong")
        return Authenticated(username=name, realm=REALM, amr=self.people.amr, upstream=self.people.upstream, headers=self.people.headers)


class _CodeAuthenticator(_Part, Authenticator[PasswordAndCode]):
    name = "codes"
    credential = PasswordAndCode

    async def attempt(self, credential: PasswordAndCode, context: LoginContext) -> Attempted:
        first = await context.password(Password(username=credential.username, password=credential.password))
        if not isinstance(first, Authenticated):
            return first
        codes = self.people.codes.get(first.username, set())
        if credential.code.value not in codes:
            raise Denied("the code is wrong")
        codes.remove(credential.code.value)
        return msgspec.structs.replace(first, amr=(*first.amr, "otp", "mfa"))


class _Changer(_Part, PasswordChanger):
    async def change(self, username: str, old: Secret, new: Secret, context: LoginContext) -> Authenticated | ChangeRefused:
        if self.people.passwords.get(username) != old.value:
            raise Denied("the old password of people is wrong")
        if len(new.value) < LEAST:
            return ChangeRefused(messages=(f"at least {LEAST} characters", "choose a longer one"))
        self.people.passwords[username] = new.value
        self.people.change(username, state=AccountState())
        return Authenticated(username=username, realm=REALM, amr=("pwd",))


class _Check(_Part, GrantCheck):
    async def check(self, question: GrantQuestion) -> frozenset[str]:
        self.people.questions.append(question)
        if self.people.meanwhile is not None:
            await self.people.meanwhile()
        if question.phase == self.people.shut:
            raise AccessDenied("the gate is shut")
        return question.scopes - self.people.withheld


class _Claims(_Part, ClaimsProvider):
    # The last two are of the kind that a service drops: a claim of the token itself, and one that is empty.
    claims = frozenset({"name", "email", "email_verified", "phone_number", "groups", "updated_at", "exp", "nickname"})

    async def of(self, subject: str, wanted: frozenset[str]) -> Mapping[str, Any]:
        username, _, realm = subject.rpartition("@")
        known = self.people.claims.get(username, {}) if realm == REALM else {}
        return {name: known[name] for name in known.keys() & wanted}


class _Options(_Part, LoginOptions):
    name = "elsewhere"

    async def options(self, context: LoginContext) -> Sequence[LoginOption]:
        if self.people.down:
            raise RuntimeError("no options now")
        return [LoginOption(id="other", display_name="Other place", url="/auth/external/other")]

    async def hint(self, username: str) -> str | None:
        return "other" if username == "olga" else None


class Plugin:
    """The feature."""

    def __init__(self) -> None:
        self.people = People()

    @hookimpl
    def directories(self, host: Host) -> list[Directory]:
        return [_Directory(self.people)]

    @hookimpl
    def authenticators(self, host: Host) -> list[Authenticator[Any]]:
        return [_Authenticator(self.people), _CodeAuthenticator(self.people)]

    @hookimpl
    def password_changers(self, host: Host) -> list[PasswordChanger]:
        return [_Changer(self.people)]

    @hookimpl
    def grant_checks(self, host: Host) -> list[GrantCheck]:
        return [_Check(self.people)]

    @hookimpl
    def claims(self, host: Host) -> list[ClaimsProvider]:
        return [_Claims(self.people)]

    @hookimpl
    def login_options(self, host: Host) -> list[LoginOptions]:
        return [_Options(self.people)]
