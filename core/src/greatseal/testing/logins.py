"""What every authenticator, directory, changer of passwords and login option must do, as test classes to inherit; and a LOGIN."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from greatseal.api.declarations import Secret
from greatseal.api.directory import Directory, Tier
from greatseal.api.factors import Factor
from greatseal.api.http import Call, Reply
from greatseal.api.identity import (
    AccessDenied,
    AccountRefused,
    Attempted,
    Authenticated,
    Authenticator,
    ChangeRefused,
    Completed,
    Credential,
    Denied,
    Enrolling,
    ExpiredTicket,
    FactorRequired,
    LoggedIn,
    LoginContext,
    LoginOption,
    LoginOptions,
    NotMine,
    Password,
    PasswordAndCode,
    PasswordChanger,
    PasswordExpired,
    SessionView,
    WithSession,
)
from greatseal.testing.calls import FakeCall

__all__ = ["AuthenticatorContract", "DirectoryContract", "FakeLogin", "LoginOptionsContract", "PasswordChangerContract", "context_of"]

NOBODY = "nobody-of-that-name"
STRANGE = ("", " ", "@", "a@b@c", "*", "a*", "(uid=*)", "../x", "a\0b", "x" * 5_000, "\ud800", "root' --")
"""Names that nobody has, and that a backend may read in its own way."""


def context_of(ask: Attempted | None = None) -> LoginContext:
    """Of a call from nowhere in particular. With ``ask``, that is what :meth:`LoginContext.password` gives."""

    async def asked(_credential: Password) -> Attempted:
        assert ask is not None
        return ask

    return LoginContext(call=FakeCall("POST"), remote="192.0.2.1", ask=None if ask is None else asked)


class AuthenticatorContract(ABC):
    """For authenticators of passwords. Inherit, say how to make it and whom it knows, and the rest is tested.

    .. code-block:: python

        class TestPam(AuthenticatorContract):
            username, password, realm = "alice", "wonderland", "EXAMPLE.ORG"

            def authenticator(self):
                return PamAuthenticator(FakePam({"alice": "wonderland"}), realm="EXAMPLE.ORG")
    """

    username: str
    password: str
    realm: str

    @abstractmethod
    def authenticator(self) -> Authenticator[Password]:
        """A new one, which knows ``username`` by ``password``."""

    async def _attempt(self, username: str, password: str) -> Attempted:
        return await self.authenticator().attempt(Password(username=username, password=Secret(password)), context_of())

    def test_declares_itself(self) -> None:
        authenticator = self.authenticator()

        assert authenticator.name
        assert authenticator.credential is Password

    async def test_the_right_password_proves_the_user_of_its_realm(self) -> None:
        done = await self._attempt(self.username, self.password)

        assert isinstance(done, Authenticated), f"{done!r}"
        assert (done.username, done.realm) == (self.username, self.realm)
        assert "pwd" in done.amr
        assert msgspec.json.decode(msgspec.json.encode(done), type=Authenticated) == done

    async def test_a_name_with_the_realm_is_the_same_user(self) -> None:
        done = await self._attempt(f"{self.username}@{self.realm}", self.password)

        assert isinstance(done, Authenticated)
        assert done.subject == f"{self.username}@{self.realm}"

    async def test_a_wrong_password_is_denied_and_not_shown(self) -> None:
        for wrong in (f"{self.password}x", self.password[:-1], "", self.password.swapcase(), f"{self.password}\0"):
            with pytest.raises(Denied) as refused:
                await self._attempt(self.username, wrong)
            if wrong:
                assert wrong not in refused.value.detail + refused.value.cause

    async def test_whom_it_does_not_know_it_passes_on(self) -> None:
        for name in (NOBODY, f"{self.username}@another.example", *STRANGE):
            assert isinstance(await self._attempt(name, self.password), NotMine), name


class PasswordChangerContract(ABC):
    """Inherit, say how to make the changer and what password ``username`` has, and the rest is tested."""

    username: str
    old: str
    new: str = "a-new-password-of-28-letters"
    refused: str = ""
    """A new password that the backend's rules refuse; empty where it has none."""

    @abstractmethod
    def changer(self) -> PasswordChanger:
        """One on which ``old`` is the password; the same one until the test ends."""

    async def _change(self, old: str, new: str, username: str = "") -> Authenticated | ChangeRefused:
        return await self.changer().change(username or self.username, Secret(old), Secret(new), context_of())

    async def test_the_new_password_is_the_old_one_from_then_on(self) -> None:
        done = await self._change(self.old, self.new)

        assert isinstance(done, Authenticated)
        assert done.username == self.username
        with pytest.raises(Denied):
            await self._change(self.old, f"{self.new}-another")
        assert isinstance(await self._change(self.new, f"{self.new}-another"), Authenticated)

    async def test_a_wrong_old_password_changes_nothing(self) -> None:
        with pytest.raises(Denied) as denied:
            await self._change(f"{self.old}x", self.new)

        assert self.new not in denied.value.detail + denied.value.cause
        assert isinstance(await self._change(self.old, self.new), Authenticated)

    async def test_what_the_rules_refuse_is_said_and_changes_nothing(self) -> None:
        if not self.refused:
            pytest.skip("the backend has no rules")

        done = await self._change(self.old, self.refused)

        assert isinstance(done, ChangeRefused)
        assert done.messages
        assert all(self.refused not in str(message) for message in done.messages)
        assert isinstance(await self._change(self.old, self.new), Authenticated)

    async def test_nobody_is_changed_by_the_name_of_another(self) -> None:
        with pytest.raises(Denied):
            await self._change(self.old, self.new, NOBODY)


class LoginOptionsContract(ABC):
    """Inherit, say how to make the options, and the rest is tested."""

    hinted: str = ""
    """A user who has to take one of the options; empty where it knows of none."""

    @abstractmethod
    def login_options(self) -> LoginOptions:
        """Some that offer one way at least."""

    async def _ids(self) -> list[str]:
        return [option.id for option in await self.login_options().options(context_of())]

    def test_declares_itself(self) -> None:
        assert self.login_options().name

    async def test_each_option_is_a_link_with_a_name_and_an_id_of_its_own(self) -> None:
        found: object = await self.login_options().options(context_of())

        assert isinstance(found, Sequence), f"options returned {found!r}; it returns a sequence"
        assert found
        for option in found:
            assert isinstance(option, LoginOption), f"{option!r}"
            assert option.id
            assert option.display_name
            assert option.url.startswith(("/", "https://")), f"{option.url}: a path of this service or an https URL"
            assert not option.url.startswith("//")
        assert len(set(await self._ids())) == len(found)

    async def test_the_options_are_the_same_each_time(self) -> None:
        assert await self._ids() == await self._ids()

    async def test_who_has_to_take_an_option_is_told_which_and_nobody_else(self) -> None:
        options = self.login_options()

        if self.hinted:
            assert await options.hint(self.hinted) in await self._ids()
        for name in (NOBODY, *STRANGE):
            assert await options.hint(name) is None, name


class DirectoryContract(ABC):
    """Inherit, say how to make the directory, a user and a group that it has, and the rest is tested."""

    username: str
    group: str = ""
    """Empty for a directory without groups."""

    @abstractmethod
    def directory(self) -> Directory:
        """A directory with that user, and two users at least."""

    def test_declares_itself(self) -> None:
        directory = self.directory()

        assert directory.name
        assert isinstance(directory.tier, Tier)
        assert directory.realm

    async def test_a_user_is_found_as_the_home_spells_it(self) -> None:
        directory = self.directory()

        user = await directory.user(self.username)

        assert user is not None
        assert (user.username, user.realm, user.source) == (self.username, directory.realm, directory.name)
        assert "@" not in user.username
        assert isinstance(user.groups, tuple)
        assert msgspec.json.decode(msgspec.json.encode(user), type=type(user)) == user

    async def test_a_group_has_its_members(self) -> None:
        if not self.group:
            pytest.skip("the directory has no groups")
        directory = self.directory()

        group = await directory.group(self.group)

        assert group is not None
        assert (group.name, group.realm, group.source) == (self.group, directory.realm, directory.name)
        for member in group.members:
            user = await directory.user(member)
            assert user is not None
            assert self.group in user.groups
            assert [one.name for one in await directory.groups_of(user)] == list(user.groups)

    async def test_who_is_not_there_is_none_and_no_error(self) -> None:
        for name in (NOBODY, *STRANGE):
            assert await self.directory().user(name) is None, name
            assert await self.directory().group(name) is None, name

    async def test_a_listing_has_each_user_once_in_the_order_of_code_points(self) -> None:
        directory = self.directory()
        whole = [user.username for user in await directory.users("", 1_000)]

        assert whole == sorted(set(whole))
        assert self.username in whole
        walked: list[str] = []
        while page := await directory.users("", 1, walked[-1] if walked else ""):
            walked += [user.username for user in page]
        assert walked == whole
        assert [user.username for user in await directory.users(self.username, 1_000)] == [
            name for name in whole if name.startswith(self.username)
        ]
        assert list(await directory.users(NOBODY, 1_000)) == []


class FakeLogin:
    """LOGIN (:class:`greatseal.api.identity.Login`) over authenticators that a test gives: no limits, no directories, sessions in memory.

    ``changers`` are the names that :meth:`expired` leads to; ``counted`` and ``failures`` are what :meth:`count` and :meth:`failed`
    were told.
    """

    def __init__(self, *authenticators: Authenticator[Any], changers: Sequence[str] = ()) -> None:
        self.authenticators = authenticators
        self.changers = changers
        self.sessions: dict[str, SessionView] = {}
        self.tickets: dict[int, ExpiredTicket] = {}
        self.enrolments: dict[int, Enrolling] = {}
        self.counted: list[str] = []
        self.failures: list[tuple[str, str, str | None]] = []
        self._of_calls: dict[int, str] = {}
        self._under_way = False

    async def attempt(self, call: Call, credential: Credential) -> Attempted:
        """As the contract says; an attempt inside another is a RuntimeError."""
        if self._under_way:
            raise RuntimeError("an attempt is under way: inside it, LoginContext.password has the password checked")
        self._under_way = True
        try:
            context = LoginContext(call=call, remote=call.remote)
            return await self._ask(credential, context)
        finally:
            self._under_way = False

    async def _ask(self, credential: Credential, context: LoginContext) -> Attempted:
        async def password(asked: Password) -> Attempted:
            return await self._ask(asked, context)

        inner = msgspec.structs.replace(context, ask=password) if isinstance(credential, PasswordAndCode) else context
        for one in self.authenticators:
            if one.credential is type(credential):
                attempted = await one.attempt(credential, inner)
                if not isinstance(attempted, NotMine):
                    return attempted
        return NotMine()

    async def complete(
        self,
        call: Call,
        authenticated: Authenticated,
        return_to: str | None,
        *,
        also: WithSession = None,  # noqa: ARG002  there is no transaction
    ) -> Completed:
        """A session of the call."""
        name = f"session-{len(self.sessions) + 1}"
        self.sessions[name] = SessionView(
            id=name,
            subject=authenticated.subject,
            username=authenticated.username,
            realm=authenticated.realm,
            groups=(),
            amr=authenticated.amr,
            acr=authenticated.acr,
            auth_time=1_800_000_000_000_000,
            signed_in_at=1_800_000_000_000_000,
            expires_at=1_800_028_800_000_000,
            upstream=authenticated.upstream,
        )
        self._of_calls[id(call)] = name
        headers = (("Set-Cookie", f"session={name}"), *authenticated.headers)
        return LoggedIn(session=self.sessions[name], headers=headers, return_to=return_to or "/account")

    async def count(self, call: Call) -> None:
        """Notes the address."""
        self.counted.append(call.remote)

    async def failed(self, call: Call, reason: str, *, subject: str | None = None) -> None:
        """Notes the reason and the person."""
        self.failures.append((call.remote, reason, subject))

    async def answer(self, call: Call, completed: Completed, return_to: str | None) -> Reply:  # noqa: ARG002  as the contract has them
        """As the contract says, in short."""
        match completed:
            case LoggedIn():
                body = {"sub": completed.session.subject, "amr": completed.session.amr, "return_to": completed.return_to}
                return Reply.json(body).with_headers(*completed.headers)
            case FactorRequired():
                raise AccessDenied("another factor is required", members={"credentials": completed.credentials})
            case PasswordExpired():
                return Reply.json({"error": "password_expired"}, status=403)

    async def expired(self, call: Call, expired: PasswordExpired, return_to: str | None) -> Reply:
        """A redirect, after which :meth:`ticket` knows the call."""
        if expired.changer not in self.changers or expired.changer is None:
            raise AccountRefused("the password of this account has expired")
        self.tickets[id(call)] = ExpiredTicket(
            username=expired.username, realm=expired.realm, changer=expired.changer, return_to=return_to or "/account"
        )
        return Reply(status=303, headers=(("Location", "/login/change-password"),))

    async def ticket(self, call: Call) -> ExpiredTicket | None:
        """Of a call that :meth:`expired` was asked for."""
        return self.tickets.get(id(call))

    async def enrol(self, call: Call, authenticated: Authenticated, required: FactorRequired, return_to: str | None) -> Reply:
        """A redirect, after which :meth:`enrolling` knows the call."""
        self.enrolments[id(call)] = Enrolling(authenticated=authenticated, return_to=return_to or "/account", proven_at=0)
        return Reply(status=303, headers=(("Location", required.enrol or "/account"),))

    async def enrolling(self, call: Call) -> Enrolling | None:
        """Of a call that :meth:`enrol` was asked for."""
        return self.enrolments.get(id(call))

    async def session(self, call: Call) -> SessionView | None:
        """The one that was made in the call."""
        return self.sessions.get(self._of_calls.get(id(call), ""))

    async def go_on(self, call: Call, session: SessionView, factor: Factor) -> LoggedIn:
        """The session of the call, with the methods of the factor beside its own."""
        made = msgspec.structs.replace(session, amr=tuple(dict.fromkeys((*session.amr, *factor.amr))))
        self.sessions[made.id] = made
        self._of_calls[id(call)] = made.id
        return LoggedIn(session=made, headers=(("Set-Cookie", f"session={made.id}"),), return_to="/account")

    async def lacks(self, session: SessionView) -> bool:  # noqa: ARG002  there are no policies
        """Nobody has more than they proved."""
        return False

    async def end(self, session_id: str) -> bool:
        """As the contract says."""
        return self.sessions.pop(session_id, None) is not None
