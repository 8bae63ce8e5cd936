"""Sign-in (service ``LOGIN``): who is it, may they come in, and the one place that makes a session."""

import unicodedata
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import chain
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from greatseal.api.audit import AuditEvent
from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.factors import Factor, FactorPolicy
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
    NegotiateHeader,
    NotMine,
    Password,
    PasswordAndCode,
    PasswordChanger,
    PasswordExpired,
    SessionView,
    WithSession,
)
from greatseal.api.kerberos import NegotiateRefused
from greatseal.api.messages import Message
from greatseal.api.moments import SECOND
from greatseal.api.notices import Met, Notices, seen, warning
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.services import NOTICES
from greatseal.api.store import Tx
from greatseal.api.tokens import GrantCheck, GrantQuestion
from greatseal.host import Host
from greatseal_idp.cookie import SessionCookie, digest_of
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.pages.return_to import CHANGE, default_return_to, safe_return_to
from greatseal_idp.sessions import answers
from greatseal_idp.sessions.dummy import spend_time
from greatseal_idp.sessions.factors import missing_factors
from greatseal_idp.sessions.ladder import Ladder
from greatseal_idp.sessions.limits import LoginLimits
from greatseal_idp.sessions.places import Device, Places, key_of
from greatseal_idp.sessions.step_up import with_factor
from greatseal_idp.sessions.store import NewSession, SessionStore, StoredSession
from greatseal_idp.sessions.ticket import change_tickets, enrol_tickets

WRONG = Message("the name or the password is wrong")
WRONG_WITH_CODE = Message("the name, the password or the code is wrong")
WRONG_CODE = Message("the code is wrong, or it was used before")
PASSWORD_CHANGED = Message("Your password was changed")
MAX_USERNAME = 512
"""Characters of a user name. To normalise Unicode takes quadratic time: 64 kB of combining marks would hold everybody up for seconds."""
MAX_USER_AGENT = 256
CLOCK_SKEW = 300 * SECOND
"""How far the clock of a directory may be ahead: as much as Kerberos allows by default."""


def bounded(username: str) -> str:
    """The name that somebody typed. Raises BadRequest for one that nobody has."""
    if len(username) > MAX_USERNAME:
        raise BadRequest(Message("a user name has at most %(longest)d characters", {"longest": MAX_USERNAME}))
    return username


class LoginImpl:
    """See :class:`greatseal.api.identity.Login`."""

    def __init__(self, host: Host, store: SessionStore, directories: DirectoriesImpl, limits: LoginLimits, ladder: Ladder) -> None:
        self._host = host
        self._ladder = ladder
        self._store = store
        self._directories = directories
        self._cookie = SessionCookie(host)
        self._tickets = change_tickets(host)
        self._enrolments = enrol_tickets(host)
        self._default = default_return_to(host.issuer)
        self.limits = limits
        self.places = Places(host)
        self._sign_ins = host.metrics.counter("greatseal_idp_sign_ins_total", "Sign-ins of people.", ("outcome",))
        self._under_way: set[int] = set()
        """The ids of the calls whose attempt runs: one inside another would wait for itself."""
        self._arrived: dict[int, SessionView] = {}
        """Sessions that were made in a call that goes on, by its id."""

    async def attempt(self, call: Call, credential: Credential) -> Attempted:
        if id(call) in self._under_way:
            raise RuntimeError("an attempt of this call is under way: inside it, LoginContext.password has the password checked")
        self._under_way.add(id(call))
        try:
            await self.limits.address(call.remote)
            if isinstance(credential, NegotiateHeader):
                return await self._negotiated(credential, LoginContext(call=call, remote=call.remote))
            name = unicodedata.normalize("NFC", bounded(credential.username).strip())
            return await self._counted(call, msgspec.structs.replace(credential, username=name))
        finally:
            self._under_way.discard(id(call))

    async def _negotiated(self, credential: NegotiateHeader, context: LoginContext) -> Attempted:
        try:
            attempted = await self._ask(credential, context)
        except (Denied, NegotiateRefused):
            await self._failed(context.remote, "refused ticket")
            raise
        if isinstance(attempted, Authenticated):
            await self.limits.ticket(context.remote, attempted.subject)
        return attempted

    async def _counted(self, call: Call, credential: Password | PasswordAndCode) -> Attempted:
        key = key_of(credential.username)
        known = await self.places.is_known(call, key)
        code = isinstance(credential, PasswordAndCode)
        context = LoginContext(call=call, remote=call.remote)

        async def password(asked: Password) -> Attempted:
            if key_of(asked.username) != key:
                raise ValueError("the password of another user was asked for than of the one whose attempt is counted")
            return await self._ask(asked, context)

        words = WRONG_WITH_CODE if code else WRONG
        async with self._told(credential.username, call.remote, words), self.limits.user(key, known=known) as succeeded:
            attempted = await self._ask(credential, msgspec.structs.replace(context, ask=password) if code else context)
            if isinstance(attempted, NotMine):
                await spend_time(self._host.blocking, credential.password)
                await self._failed(call.remote, "unknown user")
            else:
                succeeded()
            return attempted

    async def step_up(self, call: Call, session: SessionView, factor: Factor, code: Secret, return_to: str | None) -> LoggedIn:
        """Prove one thing more in a session, under the limits of a sign-in: it goes on with a new cookie, method and time.

        Raises Denied, RateLimited, AccessDenied, Unavailable; LoginRequired when the session has ended meanwhile.
        """
        await self.limits.address(call.remote)
        key = key_of(session.username)
        known = await self.places.is_known(call, key)
        async with self._told(session.subject, call.remote, WRONG_CODE), self.limits.user(key, known=known) as succeeded:
            user = await self._directories.account(session.subject, auth_time=session.auth_time)
            if not await factor.prove(session.subject, user, code):
                raise Denied(WRONG_CODE)
            succeeded()
        return await self._go_on(call, session, factor, user, return_to)

    async def go_on(self, call: Call, session: SessionView, factor: Factor) -> LoggedIn:
        user = await self._directories.account(session.subject, auth_time=session.auth_time)
        return await self._go_on(call, session, factor, user, None)

    async def _go_on(self, call: Call, session: SessionView, factor: Factor, user: User | None, return_to: str | None) -> LoggedIn:
        whole = with_factor(session, factor, user, self._ladder, now=self._host.clock.now())
        completed = await self.complete(call, whole, return_to, goes_on=session)
        if not isinstance(completed, LoggedIn):
            raise AccessDenied(Message("more than this code is needed; sign in again"))
        return completed

    async def complete(
        self,
        call: Call,
        authenticated: Authenticated,
        return_to: str | None,
        *,
        also: WithSession = None,
        goes_on: SessionView | None = None,
    ) -> Completed:
        try:
            return await self._complete(call, authenticated, return_to, also, goes_on)
        except Problem as problem:
            problem.headers.update(authenticated.headers)
            if isinstance(problem, AccessDenied | Denied):
                await self._failed(call.remote, problem.cause or problem.detail, sub=authenticated.subject)
            raise

    async def count(self, call: Call) -> None:
        await self.limits.address(call.remote)

    async def failed(self, call: Call, reason: str, *, subject: str | None = None) -> None:
        await self._failed(call.remote, reason, sub=subject)

    async def answer(self, call: Call, completed: Completed, return_to: str | None) -> Reply:
        match completed:
            case LoggedIn():
                return answers.logged_in(completed, await self._directories.user(completed.session.subject))
            case FactorRequired():
                raise answers.missing(completed)
            case PasswordExpired():
                return answers.expired(await self.expired(call, completed, return_to))

    async def expired(self, call: Call, expired: PasswordExpired, return_to: str | None) -> Reply:
        if expired.changer is None or expired.changer not in self._host.components(PasswordChanger):
            await self._failed(call.remote, "password expired", sub=f"{expired.username}@{expired.realm}")
            raise AccountRefused(Message("the password of this account has expired"))
        next_ = self.return_to(return_to)
        ticket = ExpiredTicket(username=expired.username, realm=expired.realm, changer=expired.changer, return_to=next_)
        query = urlencode({"username": expired.username, "next": next_}, quote_via=quote)
        where = f"{urlsplit(self._host.issuer).path}{CHANGE}?{query}"
        return Reply(status=303, headers=(("Location", where), await self._tickets.set(ticket)))

    async def ticket(self, call: Call) -> ExpiredTicket | None:
        return await self._tickets.of(call)

    async def enrol(self, call: Call, authenticated: Authenticated, required: FactorRequired, return_to: str | None) -> Reply:  # noqa: ARG002
        proven = msgspec.structs.replace(authenticated, headers=())
        ticket = Enrolling(authenticated=proven, return_to=self.return_to(return_to), proven_at=self._host.clock.now())
        location = f"{urlsplit(self._host.issuer).path}{required.enrol}"
        return Reply(status=303, headers=(("Location", location), await self._enrolments.set(ticket), *required.headers))

    async def enrolling(self, call: Call) -> Enrolling | None:
        ticket = await self._enrolments.of(call)
        try:
            if ticket is not None:
                await self._directories.account(ticket.authenticated.subject, auth_time=ticket.proven_at)
        except AccountRefused:
            return None
        return ticket

    async def change(self, call: Call, ticket: ExpiredTicket, old: Secret, new: Secret) -> Authenticated | ChangeRefused:
        """Change an expired password, under the limits of a sign-in. Raises Denied, RateLimited, Unavailable."""
        changer = self._host.components(PasswordChanger)[ticket.changer]
        context = LoginContext(call=call, remote=call.remote)
        await self.limits.address(call.remote)
        key = key_of(ticket.username)
        known = await self.places.is_known(call, key)
        async with self._told(ticket.username, call.remote), self.limits.user(key, known=known) as succeeded:
            changed = await changer.change(ticket.username, old, new, context)
            succeeded()
        if isinstance(changed, Authenticated):
            await self._host.db.write(self._changed, changed.subject, seen(call))
        return changed

    async def session(self, call: Call) -> SessionView | None:
        if id(call) in self._arrived:
            return self._arrived[id(call)]
        stored = await self._store.usable(call)
        return stored.view if stored is not None else None

    async def lacks(self, session: SessionView) -> bool:
        return any([await policy.lacks(session) for policy in self._host.components(FactorPolicy).values()])

    @contextmanager
    def arrived(self, call: Call, session: SessionView) -> Iterator[None]:
        """The call goes on with a session that was made in it: :meth:`session` gives it, before any cookie has come back."""
        self._arrived[id(call)] = session
        try:
            yield
        finally:
            del self._arrived[id(call)]

    async def end(self, session_id: str) -> bool:
        return await self.end_as(session_id, event_type="session_revoked")

    async def end_as(self, session_id: str, *, event_type: str, by: str | None = None) -> bool:
        """End a session, under the event that says why; ``by`` is who asked for it when that is somebody else."""

        def end(tx: Tx) -> bool:
            return self._store.end(tx, session_id, event_type=event_type, by=by) is not None

        return await self._host.db.write(end)

    def return_to(self, asked: str | None) -> str:
        """``asked`` when it is a path of this origin, else the default."""
        return safe_return_to(asked, default=self._default)

    def cleared(self) -> tuple[str, str]:
        """The header that takes the session cookie away."""
        return self._cookie.clear()

    async def _ask(self, credential: Credential, context: LoginContext) -> Attempted:
        authenticators: list[Authenticator[Any]] = [
            one for one in self._host.components(Authenticator).values() if type(credential) is one.credential
        ]
        for authenticator in authenticators:
            try:
                attempted = await authenticator.attempt(credential, context)
            except Denied:
                if isinstance(credential, Password | PasswordAndCode) and not authenticator.hashes:
                    await spend_time(self._host.blocking, credential.password)
                raise
            if not isinstance(attempted, NotMine):
                return attempted
        return NotMine()

    @asynccontextmanager
    async def _told(self, username: str, remote: str, words: Message = WRONG) -> AsyncIterator[None]:
        """Audit a wrong credential, which is said in the same words to everybody, and an account that may not be used."""
        try:
            yield
        except Denied as denied:
            await self._failed(remote, "wrong credential", sub=username)
            raise Denied(words, cause=denied.detail, headers=denied.headers) from None
        except AccountRefused as refused:
            await self._failed(remote, refused.cause or refused.detail, sub=username)
            raise

    async def _failed(self, remote: str, reason: str, *, sub: str | None = None) -> None:
        """Count and audit a sign-in. A name that nobody knows is not written: it may be a password in the wrong field."""
        self._sign_ins.add(1, "failure")
        shown = sub if sub is None else "".join(c if c.isprintable() else "?" for c in sub[:256])
        detail = f"{reason} address={remote}"
        await self._host.audit_log(AuditEvent(event_type="login_failure", service="idp", outcome="failure", sub=shown, detail=detail))

    async def _complete(
        self, call: Call, authenticated: Authenticated, return_to: str | None, also: WithSession, goes_on: SessionView | None
    ) -> Completed:
        asked_at = self._host.clock.now()
        user = await self._directories.user(authenticated.subject)
        if user is not None and user.state.password_expired and not (user.state.disabled or user.state.locked or user.state.expired):
            changer = user.source if user.source in self._host.components(PasswordChanger) else None
            return PasswordExpired(username=user.username, realm=user.realm, changer=changer)
        # A directory whose clock is further ahead would end every session of the user at once.
        user = await self._directories.account(authenticated.subject, auth_time=self._host.clock.now() + CLOCK_SKEW)
        if user is not None and authenticated.password_changed_at not in {None, user.password_changed_at}:
            raise Denied(WRONG, cause="the password was changed meanwhile")
        if (required := await self._required(call, authenticated, user)) is not None:
            return required
        new, value = await self._new(call, authenticated, user, asked_at)
        new = msgspec.structs.replace(new, goes_on=None if goes_on is None else goes_on.id)
        question = GrantQuestion(
            phase="login", subject=f"{new.username}@{new.realm}", client=None, scopes=frozenset(), remote=call.remote, amr=new.amr
        )
        for _, check in sorted(self._host.components(GrantCheck).items()):
            if check.concerns(question):
                await check.check(question)
        device = await self.places.unknown_device(call, key_of(new.username)) if self._notices is not None else None
        met = seen(call) if device is not None else Met()
        stored = await self._host.db.write(self._begin, new, also, device, met)
        self._sign_ins.add(1, "success")
        browser = await self.places.remembered(call, key_of(new.username))
        cleared = (*self._tickets.cleared(call), *self._enrolments.cleared(call))
        headers = (self._cookie.set(value), browser, *cleared, *authenticated.headers)
        return LoggedIn(session=stored.view, headers=headers, return_to=self.return_to(return_to))

    async def _required(self, call: Call, authenticated: Authenticated, user: User | None) -> FactorRequired | None:
        """What the directory asks for, else what policies do, with the page where who has nothing of it gets it."""
        if user is not None and (missing := missing_factors(user, authenticated)):
            return FactorRequired(credentials=missing, headers=authenticated.headers)
        policies = [policy for _, policy in sorted(self._host.components(FactorPolicy).items())]
        wanted = tuple(dict.fromkeys(chain.from_iterable([await policy.missing(authenticated, user, call) for policy in policies])))
        if not wanted:
            return None
        pages = [await policy.enrolment(authenticated, user) for policy in policies]
        return FactorRequired(credentials=wanted, headers=authenticated.headers, enrol=next((page for page in pages if page), None))

    async def _new(self, call: Call, authenticated: Authenticated, user: User | None, asked_at: int) -> tuple[NewSession, str]:
        replaces = await self._store.of(call)
        value = self._cookie.mint()
        who = user or authenticated
        agent = call.headers.get("User-Agent", "")
        new = NewSession(
            id=self._host.handles.new_id(),
            digest=digest_of(value),
            subject=who.subject,
            username=who.username,
            realm=who.realm,
            groups=user.groups if user is not None else (),
            amr=authenticated.amr,
            acr=self._ladder.of_session(authenticated.amr, authenticated.upstream, authenticated.acr),
            remote=call.remote,
            user_agent=agent[:MAX_USER_AGENT].encode("ascii", "replace").decode() or None,
            upstream=authenticated.upstream,
            replaces=replaces.view.id if replaces is not None else None,
            password_changed_at=user.password_changed_at if user is not None else None,
            asked_at=asked_at,
        )
        return new, value

    @property
    def _notices(self) -> Notices | None:
        return self._host.optional_service(NOTICES)

    def _begin(self, tx: Tx, new: NewSession, also: WithSession, device: Device | None, met: Met) -> StoredSession:
        stored = self._store.begin(tx, new)
        if also is not None:
            also(tx, stored.view)
        self.places.note(tx, key_of(new.username), new.remote, device)
        tx.audit(AuditEvent(event_type="login_success", service="idp", sub=new.subject))
        if self._notices is not None and device is not None:
            title = Message("A sign-in with a new device")
            self._notices.tell(tx, warning("new_device", new.subject, title, met))
        return stored

    def _changed(self, tx: Tx, subject: str, met: Met) -> None:
        tx.audit(AuditEvent(event_type="password_changed", service="idp", sub=subject))
        if self._notices is not None:
            self._notices.tell(tx, warning("password_changed", subject, PASSWORD_CHANGED, met))
