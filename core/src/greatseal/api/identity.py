"""People who sign in: credentials, who proves them, and the one place that makes sessions.

One login, in order: a page or endpoint reads a credential, :meth:`Login.attempt` asks the authenticators, :meth:`Login.complete` finds the
canonical subject, reads the account's state from its directory, asks for factors that are missing, runs the grant checks of the phase
``login`` and makes the session in one write with its audit event. A plugin that proves a person by itself (a passkey, an upstream
provider) makes an :class:`Authenticated` and starts at ``complete``.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Caller, Reply
from greatseal.api.messages import Text
from greatseal.api.moments import SECOND
from greatseal.api.problems import Forbidden, Unauthenticated
from greatseal.api.store import Tx

if TYPE_CHECKING:
    from greatseal.api.factors import Factor

Headers: TypeAlias = tuple[tuple[str, str], ...]
BEHIND = 60 * SECOND
"""How far the clock of another provider may be behind."""


# ---- Credentials


class Password(msgspec.Struct, frozen=True, kw_only=True):
    """A name and a password, as typed."""

    username: str
    password: Secret


class PasswordAndCode(msgspec.Struct, frozen=True, kw_only=True):
    """A name, a password and a one-time code, as typed."""

    username: str
    password: Secret
    code: Secret
    remember: bool = False
    """Whether the person wishes not to be asked for a code at this browser for a while."""


class NegotiateHeader(msgspec.Struct, frozen=True, kw_only=True):
    """``Authorization: Negotiate`` of the call (RFC 4559). The service NEGOTIATE reads its token and keeps the half-open context."""

    call: Call


Credential: TypeAlias = Password | PasswordAndCode | NegotiateHeader
K = TypeVar("K", bound=Credential)
K_contra = TypeVar("K_contra", bound=Credential, contravariant=True)


# ---- What an attempt gives


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """The identity at another provider that proved the person; kept with the session.

    ``told`` are methods of ``amr`` by its word alone: no class of the identity provider's own is reached by them.
    """

    id: str
    subject: str
    session: str | None = None
    told: tuple[str, ...] = ()
    proven_at: int | None = None
    """When the person was proven there (``auth_time``), or here by one thing more since; microseconds, None where nobody says."""


class Authenticated(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody was proven. The subject is ``<username>@<realm>``.

    ``amr`` holds the values of RFC 8176, in the order in which they were proven; ``acr`` None leaves it to the identity provider.
    ``headers`` go out with whatever reply follows, redirects and refusals too (a mutual Negotiate token).
    """

    username: str
    realm: str
    amr: tuple[str, ...]
    acr: str | None = None
    headers: Headers = ()
    upstream: Upstream | None = None
    password_changed_at: int | None = None
    """Of the password that was checked, as the directory's :class:`~greatseal.api.directory.User` has it: no other one signs in."""

    @property
    def subject(self) -> str:
        """The canonical subject."""
        return f"{self.username}@{self.realm}"


class NotMine(msgspec.Struct, frozen=True):
    """I do not know this user, or do not read this credential: ask the next one."""


class Continue(msgspec.Struct, frozen=True, kw_only=True):
    """The exchange needs another leg: 401 with ``headers``."""

    headers: Headers


class PasswordExpired(msgspec.Struct, frozen=True, kw_only=True):
    """The password is right and must be changed first. ``changer`` names the :class:`PasswordChanger`, None when nobody can."""

    username: str
    realm: str
    changer: str | None = None


Attempted: TypeAlias = Authenticated | NotMine | Continue | PasswordExpired


class LoginContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where an attempt comes from. ``client_id`` is that of the authorization request in progress, ``return_to`` where the sign-in leads,
    None for the default."""

    call: Call
    remote: str
    client_id: str | None = None
    return_to: str | None = None
    ask: Callable[[Password], Awaitable[Attempted]] | None = None
    """What :meth:`password` asks: set for attempts by another credential than a password alone."""

    async def password(self, credential: Password) -> Attempted:
        """Ask the authenticators of passwords within this attempt, which counts once, whatever part of it was wrong.

        For an authenticator whose own credential holds a password: it returns what is not Authenticated as it is. NotMine when nobody knows
        the user. Raises as :meth:`Authenticator.attempt`, ValueError for another user than the attempt's, and RuntimeError where no such
        attempt is under way.
        """
        if self.ask is None:
            raise RuntimeError("only an authenticator whose credential is more than a password may ask for the password to be checked")
        return await self.ask(credential)


class Authenticator(ABC, Generic[K]):
    """Proves people by credentials of one type. Authenticators of a type are asked one after another, in the configured order."""

    name: ClassVar[str]
    """``users-file``, ``pam``: the name in the configuration and in the audit log."""
    credential: ClassVar[type[Credential]]
    """The type that :meth:`attempt` is given."""
    remembers: int = 0
    """For how many days a browser may go without a second factor, where the person wishes it; the page of a code offers it then."""
    hashes: ClassVar[bool] = False
    """Whether a wrong password costs an Argon2id hash of this process. Where it does not, the caller spends one, as for an unknown user."""

    @abstractmethod
    async def attempt(self, credential: K, context: LoginContext) -> Attempted:
        """Try the credential.

        NotMine passes it on; every other result ends the search, and so does raising: :class:`Denied` when this one knows the user and the
        credential is wrong (nobody else is asked), :class:`AccountRefused` when it is right and the account may not be used, Unavailable
        when the backend cannot be reached (nobody else is asked either, since it might have denied). The caller counts attempts and makes
        unknown users cost the same time as wrong passwords.
        """

    def challenge(self, call: Call) -> str:
        """What the sign-in page asks the browser of this call for in WWW-Authenticate (RFC 9110 s11.6.1); empty: for nothing.

        For a credential that browsers show only when they are asked. The page is served as 401 then, for those that have none.
        """
        return ""


class LoginOption(msgspec.Struct, frozen=True, kw_only=True):
    """A way to sign in besides the password form: a button that leads to ``url``."""

    id: str
    display_name: str
    url: str
    source: str = "config"
    """Where a provider was found: ``config``, or the name of the directory."""


class LoginScript(msgspec.Struct, frozen=True, kw_only=True):
    """A way to sign in that a script of the login page carries out.

    The page has it in an element ``with-<id>``, which is hidden until the script shows it: the button ``use-<id>`` with ``display_name``,
    and the paragraph ``problem-<id>`` for what went wrong. ``words`` are what the script may have to say, in attributes ``data-<key>``
    of that element.
    """

    id: str
    display_name: Text
    path: str
    """Of the script, under the issuer; a route of the plugin serves it."""
    without: Text
    """What the page says where scripts do not run."""
    autofill: str = ""
    """The word that has the browser offer it in the user name field, such as ``webauthn`` (HTML, autofill detail tokens)."""
    words: Mapping[str, Text] = msgspec.field(default_factory=dict)


class LoginOptions(ABC):
    """Offers ways to sign in on the login page and at /api/auth/providers."""

    name: ClassVar[str]

    @abstractmethod
    async def options(self, context: LoginContext) -> Sequence[LoginOption]:
        """Called for each showing of the page, so from memory. What it raises is logged and leaves the option out."""

    def scripts(self) -> Sequence[LoginScript]:
        """Ways that need a script; they are on the login page alone."""
        return ()

    async def hint(self, username: str) -> str | None:
        """The id of the option that this user has to take, None when there is none. Same time for users who do not exist."""
        return None


class ChangeRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The password was not changed. ``messages`` are the backend's words for the person, such as its rules."""

    messages: tuple[Text, ...]


class PasswordChanger(ABC):
    """Changes a password that has expired, and ``anytime`` every one of people of the directory of its name, on their account page."""

    name: ClassVar[str]
    anytime: ClassVar[bool] = False

    @abstractmethod
    async def change(self, username: str, old: Secret, new: Secret, context: LoginContext) -> Authenticated | ChangeRefused:
        """Prove the old password again and set the new one. Raises :class:`Denied` when the old one is wrong."""


# ---- Sessions


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session as others see it. Moments are microseconds; ``id`` is not the cookie's value."""

    id: str
    subject: str
    username: str
    realm: str
    groups: tuple[str, ...]
    amr: tuple[str, ...]
    acr: str | None
    auth_time: int
    signed_in_at: int
    """When the sign-in was here; ``auth_time`` may be a little later, where the clock of the person's directory is ahead."""
    expires_at: int
    upstream: Upstream | None = None

    @property
    def proven_at(self) -> int | None:
        """When the person proved who they are. A provider elsewhere that had them signed in already may have answered without asking them;
        None where it does not say."""
        return self.signed_in_at if self.upstream is None else self.upstream.proven_at

    def was_proven(self, since: int, now: int) -> bool:
        """Whether that was between the two moments. The clock of a provider elsewhere may be a little behind."""
        behind = 0 if self.upstream is None else BEHIND
        return self.proven_at is not None and since - behind <= self.proven_at <= now


class SessionCaller(Caller, frozen=True, kw_only=True):
    """The caller of routes with the rules Session and Permission."""

    session: SessionView


class LoggedIn(msgspec.Struct, frozen=True, kw_only=True):
    """The session exists. ``headers`` set its cookie and carry what the authenticator gave."""

    session: SessionView
    headers: Headers
    return_to: str


class FactorRequired(msgspec.Struct, frozen=True, kw_only=True):
    """Policy wants more than was proven: one of ``credentials``, by the names of their classes or login options. No session was made."""

    credentials: tuple[str, ...]
    headers: Headers = ()
    enrol: str | None = None
    """The path of the page where the person gets what they have not, to which :meth:`Login.enrol` leads."""


Completed: TypeAlias = LoggedIn | FactorRequired | PasswordExpired
WithSession: TypeAlias = Callable[[Tx, SessionView], object] | None
"""What commits with a new session, such as what a plugin keeps of it; perhaps called twice, no I/O."""


class ExpiredTicket(msgspec.Struct, frozen=True, kw_only=True):
    """Who may change an expired password: the person who just proved the old one."""

    username: str
    realm: str
    changer: str
    return_to: str


class Enrolling(msgspec.Struct, frozen=True, kw_only=True):
    """Who may get a second factor without a session: the person who proved the first one at ``proven_at`` (microseconds)."""

    authenticated: Authenticated
    return_to: str
    proven_at: int


class Login(Protocol):
    """The identity provider's login. The only maker of sessions."""

    async def attempt(self, call: Call, credential: Credential) -> Attempted:
        """Ask the authenticators of the credential's type, under the rate limits. NotMine when none knows the user.

        Not from inside an attempt, which is a RuntimeError: an authenticator asks :meth:`LoginContext.password`. Raises :class:`Denied`,
        RateLimited, Unavailable.
        """

    async def complete(self, call: Call, authenticated: Authenticated, return_to: str | None, *, also: WithSession = None) -> Completed:
        """Make the session, ``also`` with it, or say what is missing. A session that the call brought is ended (fixation).

        The subject is looked up in the directories of its realm. One that they do not know is refused, unless it is a service principal
        (with a slash). Of a realm that no directory serves, the authenticator's word alone counts: the session has that name, no groups,
        and no account state that could refuse it, so only roles and checks that name ``user@REALM`` apply to it.

        ``return_to`` that is no path of this origin becomes the default. Raises :class:`AccessDenied` for a disabled, locked or expired
        account and for a refusing check, Unavailable when the account's directory cannot say; ``authenticated.headers`` are on the
        refusal too.
        """

    async def count(self, call: Call) -> None:
        """Count an attempt that is proven elsewhere than by :meth:`attempt`, under the limit of its address. Raises RateLimited."""

    async def failed(self, call: Call, reason: str, *, subject: str | None = None) -> None:
        """Count and audit such an attempt that proved nobody. ``reason`` is for the log alone; ``subject`` is a person who exists."""

    async def answer(self, call: Call, completed: "Completed", return_to: str | None) -> Reply:
        """What a program is told of :meth:`complete`: the JSON of /api/auth/login, with the cookies of a session.

        Raises a Forbidden with ``credentials`` where a factor is missing; a password that has expired is 403 with where to change it.
        """

    async def expired(self, call: Call, expired: PasswordExpired, return_to: str | None) -> Reply:
        """Redirect to the change page, with a ticket in a short-lived HttpOnly cookie. Raises AccessDenied when nobody can change it."""

    async def ticket(self, call: Call) -> ExpiredTicket | None:
        """The ticket of the call, None when there is none or it is too old. It stays until ``complete`` made a session with it."""

    async def enrol(self, call: Call, authenticated: Authenticated, required: FactorRequired, return_to: str | None) -> Reply:
        """Redirect to ``required.enrol``, with a ticket in a short-lived HttpOnly cookie."""

    async def enrolling(self, call: Call) -> Enrolling | None:
        """The ticket of :meth:`enrol`, None when its person may not sign in by now. Its page ends in :meth:`complete`."""

    async def session(self, call: Call) -> SessionView | None:
        """The live session of the call: that of its cookie, or the one that a Negotiate header made in it.

        Raises AccountRefused where the account of its person may not be used: they are signed out, or sign in as somebody else.
        """

    async def go_on(self, call: Call, session: SessionView, factor: "Factor") -> LoggedIn:
        """A session in which the person proved one thing more, such as the first code of a new app: it goes on under a new cookie.

        The caller has taken the proof. Raises LoginRequired when the session has ended meanwhile, and what :meth:`complete` does.
        """

    async def lacks(self, session: SessionView) -> bool:
        """Whether the session was let in with less than its person has (:meth:`greatseal.api.factors.FactorPolicy.lacks`).

        Then it makes and takes away no way to sign in: its page leads to the one where it proves more (:meth:`Pages.step_up`).
        """

    async def end(self, session_id: str) -> bool:
        """End a session, with logout notifications; False when there is none. Effective when this returns."""


# ---- Refusals


class Denied(Unauthenticated):
    """The credential is wrong. The same words for an unknown user, a wrong password and a wrong code."""

    error = "invalid_credentials"


class AccessDenied(Forbidden):
    """The person or program is known and gets nothing: account state, policy, or their own decision."""

    error = "access_denied"


class AccountRefused(AccessDenied):
    """The account is disabled, locked, expired or gone, or its password has expired. Where a grant is redeemed this is invalid_grant."""
