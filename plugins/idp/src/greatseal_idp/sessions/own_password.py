"""A person who is signed in changes their password. It ends everything that was begun with the old one, but for this browser."""

from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.http import Call
from greatseal.api.identity import Authenticated, ChangeRefused, Completed, ExpiredTicket, PasswordChanger, SessionView
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.sessions.login import LoginImpl
from greatseal_idp.sessions.own import OwnSessions
from greatseal_idp.token.endings import Endings


class OwnPassword:
    """By who changes passwords of the person's directory at any time."""

    def __init__(self, host: Host, login: LoginImpl, directories: DirectoriesImpl, own: OwnSessions, endings: Endings) -> None:
        self._host = host
        self._login = login
        self._directories = directories
        self._own = own
        self._endings = endings

    @property
    def offered(self) -> bool:
        """Whether anybody changes passwords here at any time."""
        return any(changer.anytime for changer in self._host.components(PasswordChanger).values())

    async def person(self, session: SessionView) -> User | None:
        """The person of a session whose password can be changed here; None for everybody else. Raises DirectoryUnavailable."""
        user = await self._directories.user(session.subject)
        changer = None if user is None else self._host.components(PasswordChanger).get(user.source)
        return user if changer is not None and changer.anytime else None

    async def change(self, call: Call, session: SessionView, user: User, old: Secret, new: Secret) -> Completed | ChangeRefused:
        """Change it, end all other sessions and all refresh families of the person, and sign this browser in anew.

        Raises Denied for a wrong old password, RateLimited, AccessDenied and Unavailable.
        """
        who = ExpiredTicket(username=user.username, realm=user.realm, changer=user.source, return_to="")
        changed = await self._login.change(call, who, old, new)
        if isinstance(changed, ChangeRefused):
            return changed
        await self._own.end_all(session.subject, kept=session.id, event_type="session_revoked")
        await self._host.db.write(self._end_families, session.subject)
        # What was proven besides the password was proven to this very browser, and is not asked for again.
        methods = tuple(dict.fromkeys((*session.amr, *changed.amr)))
        authenticated = Authenticated(username=user.username, realm=user.realm, amr=methods, upstream=session.upstream)
        return await self._login.complete(call, authenticated, None)

    def _end_families(self, tx: Tx, subject: str) -> None:
        self._endings.begin(tx, "families", subject=subject)
