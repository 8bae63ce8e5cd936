"""Choosing a new password by a link in a mail: for who forgot theirs, where their directory lets this service set one.

A link is good for 15 minutes, whoever asks for more of them meanwhile, and the first one that sets a password ends them all. Whoever asks
learns nothing: the answer is given before the name is looked up. A password that was set ends all sessions and refresh families, and is
told; second factors stay as they are.
"""

import asyncio
import hashlib
from urllib.parse import urlencode

import msgspec
from sqlalchemy import delete, insert, select, update

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.declarations import Secret
from greatseal.api.directory import AccountState, DirectoryUnavailable, User
from greatseal.api.http import Call
from greatseal.api.identity import AccountRefused, ChangeRefused
from greatseal.api.messages import Message
from greatseal.api.moments import SECOND
from greatseal.api.notices import Met, Notice, Notices, seen, warning
from greatseal.api.passwords import PasswordSetter
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.api.services import NOTICES
from greatseal.api.store import Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.directories import DirectoriesImpl, require_usable
from greatseal_idp.pages.return_to import RESET
from greatseal_idp.sessions.limits import LoginLimits
from greatseal_idp.sessions.login import PASSWORD_CHANGED, bounded
from greatseal_idp.sessions.own import OwnSessions
from greatseal_idp.sessions.places import Places, key_of
from greatseal_idp.token.endings import Endings

KIND = "pw"
"""Of the handle in the link."""
SECONDS = 900
MOST = 2
"""Links for one person within their time: whoever gets none has one that is good, even if strangers asked for it."""
OWN, HOUR = 2, 3600.0
"""Those within an hour that only a browser or address gets where the person has signed in before (:mod:`.places`)."""
AT_ONCE, WAITING = 4, 100
"""Look-ups that go on at once, and those that may wait."""
BITE = 100

_NEW = insert(t.reset).values({column.name: param(column.name) for column in t.reset.columns})
_BY_DIGEST = select(t.reset).where(t.reset.c.digest == param("link"))
_CLAIM = (
    update(t.reset)
    .where(t.reset.c.digest == param("link"), t.reset.c.used_at.is_(None), t.reset.c.expires_at > param("moment"))
    .values(used_at=param("moment"))
    .returning(*t.reset.columns)
)
_RELEASE = update(t.reset).where(t.reset.c.digest == param("link"), t.reset.c.used_at == param("moment")).values(used_at=None)
_OF = delete(t.reset).where(t.reset.c.subject == param("subject"))
_DONE = delete(t.reset).where(t.reset.c.digest == param("link"), t.reset.c.used_at.is_not(None))
_LEFT = select(t.reset).where(t.reset.c.used_at.is_not(None)).order_by(t.reset.c.used_at).limit(BITE)
_OLD = delete(t.reset).where(
    t.reset.c.digest.in_(
        select(t.reset.c.digest)
        .where(t.reset.c.expires_at <= param("passed"), t.reset.c.used_at.is_(None))
        .order_by(t.reset.c.expires_at)
        .limit(BITE)
    )
)


class Resets:
    """The links."""

    def __init__(self, host: Host, directories: DirectoriesImpl, limits: LoginLimits, own: OwnSessions, endings: Endings) -> None:
        self._host = host
        self._directories = directories
        self._limits = limits
        self._own = own
        self._endings = endings
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._places = Places(host)
        self._setting: set[str] = set()
        """The people whose password is being set in this process."""

    @property
    def offered(self) -> bool:
        """Whether there are people whose password is set here, and mail that reaches them alone."""
        notices = self._notices
        return notices is not None and notices.reaches and bool(self._host.components(PasswordSetter))

    async def ask(self, call: Call, username: str) -> None:
        """Send a link to whom the name belongs, later. Raises RateLimited, BadRequest, and Unavailable when too many ask at once."""
        await self._limits.address(call.remote)
        name = bounded(username).strip()
        if not name:
            raise BadRequest(Message("enter your user name"))
        if self._waiting >= WAITING:
            raise Unavailable(Message("too many ask for a new password at this moment; try again in a minute"))
        self._waiting += 1
        self._host.spawn("send a link for a new password", self._send(call, name, seen(call)))

    async def read(self, link: str) -> Row | None:
        """The row of a link that is good now. Raises DirectoryUnavailable."""
        row = await self._host.db.read(_find, _digest(link)) if self._is_ours(link) else None
        now = self._host.clock.now()
        if not (row is not None and row.used_at is None and now < row.expires_at):
            return None
        # Who has set another password meanwhile does not want that of an older mail.
        user = await self._directories.user(row.subject)
        return row if user is not None and user.password_changed_at == row.before else None

    async def set(self, call: Call, link: str, new: Secret) -> ChangeRefused | bool:
        """Set the password. False for a link that is not good, or not any more. After a refusal of the password it still is.

        Raises RateLimited, AccountRefused and Unavailable; whether the password was set before that is found out later.
        """
        await self._limits.address(call.remote)
        found = await self.read(link)
        setter = None if found is None else self._host.components(PasswordSetter).get(found.setter)
        user = None if found is None else await self._directories.user(found.subject)
        if setter is None or user is None:
            return False
        require_usable(_without_password(user))
        if user.subject in self._setting:
            return False
        self._setting.add(user.subject)
        try:
            return await self._set(_digest(link), setter, new, seen(call))
        finally:
            self._setting.discard(user.subject)

    async def _set(self, digest: bytes, setter: PasswordSetter, new: Secret, met: Met) -> ChangeRefused | bool:
        row = await self._host.db.write(_claim, digest)
        if row is None:
            return False
        refused = await setter.set(row.username, new)
        if refused is not None:
            await self._host.db.write(_release, row)
            return refused
        faults.point("idp.password.set")
        await self._finish(row, met)
        return True

    async def carry_on(self) -> None:
        """For a job: finish what a crash interrupted, and forget links whose time is over."""
        for row in await self._host.db.read(_left):
            if row.subject in self._setting:
                continue
            user = await self._directories.user(row.subject)
            # Where the directory cannot tell, the password may have been set.
            if user is None or user.password_changed_at is None or user.password_changed_at != row.before:
                await self._finish(row, Met())
            else:
                await self._host.db.write(_forget, row)
        passed = self._host.clock.passed()
        while await self._host.db.write(_purge, passed) == BITE:
            pass

    @property
    def _notices(self) -> Notices | None:
        return self._host.optional_service(NOTICES)

    def _is_ours(self, link: str) -> bool:
        return self._host.handles.node_of(link, KIND) is not None

    async def _send(self, call: Call, username: str, met: Met) -> None:
        try:
            async with self._slots:
                user = await self._directories.user(username)
                if user is not None and self._may_have_one(user) and await self._is_mail_left(call, user):
                    await self._host.db.write(self._store, user, self._host.handles.mint(KIND), met)
        except DirectoryUnavailable as problem:
            self._host.log.warning("nobody can be sent a link for a new password", cause=problem.cause)
        finally:
            self._waiting -= 1

    async def _is_mail_left(self, call: Call, user: User) -> bool:
        """Whether there is a mail for this person. Strangers use up none of those of a place that is known.

        Only what sends a mail counts: names that are like this one do not. Links are of the password in force, and so are their numbers.
        """
        key = f"{user.subject} {user.password_changed_at}"
        known = await self._places.is_known(call, key_of(user.username))
        if known and self._host.limits.hit("reset-own", key, OWN, HOUR) is None:
            return True
        return self._host.limits.hit("reset-name", key, MOST, SECONDS) is None

    def _may_have_one(self, user: User) -> bool:
        if user.email is None or user.email_verified is False or user.source not in self._host.components(PasswordSetter):
            return False
        try:
            require_usable(_without_password(user))
        except AccountRefused:
            return False
        return True

    def _store(self, tx: Tx, user: User, link: str, met: Met) -> None:
        tx.run(
            _NEW,
            digest=_digest(link),
            subject=user.subject,
            username=user.username,
            setter=user.source,
            before=user.password_changed_at,
            created_at=tx.now,
            expires_at=tx.now + SECONDS * SECOND,
            used_at=None,
        )
        tx.audit(AuditEvent(event_type="password_reset_asked", service="idp", sub=user.subject, detail=f"address={met.facts['Address']}"))
        if (notices := self._notices) is not None:
            url = f"{self._host.issuer}{RESET}?{urlencode({'link': link})}"
            notices.tell(tx, _letter(user.subject, url, met))

    async def _finish(self, row: Row, met: Met) -> None:
        await self._own.end_all(row.subject, event_type="session_revoked")
        await self._host.db.write(self._done, row, met)

    def _done(self, tx: Tx, row: Row, met: Met) -> None:
        if not tx.count(_DONE, link=row.digest):
            return
        tx.run(_OF, subject=row.subject)
        self._endings.begin(tx, "families", subject=row.subject)
        tx.audit(AuditEvent(event_type="password_changed", service="idp", sub=row.subject, detail="by a link in a mail"))
        if (notices := self._notices) is not None:
            notices.tell(tx, warning("password_changed", row.subject, PASSWORD_CHANGED, met))


def _letter(subject: str, url: str, met: Met) -> Notice:
    return Notice(
        kind="password_reset",
        subject=subject,
        title=Message("Choose a new password"),
        text=Message(
            "Somebody, perhaps you, asked to choose a new password for your account. The link below is good once, for 15 minutes. "
            "If you did not ask, there is nothing to do: your password stays as it is."
        ),
        facts=met.facts,
        languages=met.languages,
        link=Secret(url),
        seconds=SECONDS,
    )


def _without_password(user: User) -> AccountState:
    """Its state but for the password, which is about to be a new one."""
    return msgspec.structs.replace(user.state, password_expired=False)


def _digest(link: str) -> bytes:
    return hashlib.sha256(link.encode("utf-8", "replace")).digest()


def _find(tx: Tx, link: bytes) -> Row | None:
    return tx.one(_BY_DIGEST, link=link)


def _claim(tx: Tx, link: bytes) -> Row | None:
    return tx.one(_CLAIM, link=link, moment=tx.now)


def _release(tx: Tx, row: Row) -> None:
    tx.run(_RELEASE, link=row.digest, moment=row.used_at)


def _forget(tx: Tx, row: Row) -> None:
    tx.run(_DONE, link=row.digest)


def _left(tx: Tx) -> list[Row]:
    return tx.all(_LEFT)


@scan
def _purge(tx: Tx, passed: int) -> int:
    return tx.count(_OLD, passed=passed)
