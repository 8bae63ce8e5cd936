"""Roles of the admin API: who has which permission (`[[rbac.role]]`)."""

import difflib
from collections.abc import Collection, Iterable

from greatseal.api.identity import SessionView
from greatseal.host import Host
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.settings import Rbac, Role


class Roles:
    """The configured roles, applied to the person behind a session."""

    def __init__(self, host: Host, directories: DirectoriesImpl) -> None:
        self._roles: tuple[Role, ...] = host.settings(Rbac).role
        self._realm = host.realm
        self._directories = directories

    async def of(self, session: SessionView) -> tuple[str, ...]:
        """What the roles of the person grant, sorted, wildcards as they are written.

        Account and groups are read from the directory now: whoever was disabled or left a group has no role any more. Raises
        AccountRefused, and DirectoryUnavailable.
        """
        user = await self._directories.account(session.subject, auth_time=session.auth_time)
        return self.granted(session.username, session.realm, session.groups if user is None else user.groups)

    def granted(self, username: str, realm: str, groups: Collection[str]) -> tuple[str, ...]:
        """What the roles grant to a user. A short name in a role is one of the home realm: nobody of another realm can borrow it."""
        names = {f"{username}@{realm}"}
        if realm == self._realm:
            names.add(username)
        found = {
            permission
            for role in self._roles
            if not names.isdisjoint(role.users) or not set(groups).isdisjoint(role.groups)
            for permission in role.permissions
        }
        return tuple(sorted(found))


def grants(permissions: Iterable[str], name: str) -> bool:
    """Whether one of ``permissions`` is ``name``, ``*``, or ``<resource>:*`` of its resource."""
    wanted = {name, "*", f"{name.partition(':')[0]}:*"}
    return any(permission in wanted for permission in permissions)


OF_FEATURES = tuple(f"{area}:{act}" for area in ("federation", "hbac", "scopes", "spiffe", "users") for act in ("read", "write"))
"""Names of the documented features: a role may have them while nothing that is enabled asks for them."""


def unknown_permissions(host: Host) -> list[str]:
    """What is wrong with the permissions of the configured roles: a misspelt one would grant nothing, in silence."""
    declared = sorted({*(one.name for one in host.permissions()), *OF_FEATURES})
    known = [*declared, "*", *sorted({f"{name.partition(':')[0]}:*" for name in declared})]
    return [
        f"[[rbac.role]] {role.name!r}: permissions: no enabled plugin knows {name!r}; {_nearest(name, known, declared)}"
        for role in host.settings(Rbac).role
        for name in role.permissions
        if name not in known
    ]


def _nearest(name: str, known: Iterable[str], declared: Iterable[str]) -> str:
    close = difflib.get_close_matches(name.strip().lower(), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"expected *, <resource>:* or one of {', '.join(declared)}"
