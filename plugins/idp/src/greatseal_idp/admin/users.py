"""Users and groups, to be read: lists of the static directories, single records of any."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from greatseal.api.directory import Directory, Group, Tier, User
from greatseal.api.http import Call, Permission, Reply, Route
from greatseal.api.lists import listed, page_of
from greatseal.api.problems import NotFound
from greatseal.host import Host
from greatseal_idp.directories import DirectoriesImpl

READ = Permission("users:read")
T = TypeVar("T")


class UsersAdmin:
    """/api/admin/users and /api/admin/groups."""

    def __init__(self, host: Host, directories: DirectoriesImpl) -> None:
        self._host = host
        self._directories = directories

    def routes(self) -> list[Route]:
        """Every route."""
        return [
            Route("GET", "/api/admin/users", self.users, auth=READ, summary="Users of the static users file"),
            Route("GET", "/api/admin/users/{username}", self.user, auth=READ, summary="One user"),
            Route("GET", "/api/admin/groups", self.groups, auth=READ, summary="Groups of the static users file"),
            Route("GET", "/api/admin/groups/{name}", self.group, auth=READ, summary="One group with its members"),
        ]

    async def users(self, call: Call) -> Reply:
        return await self._listed(call, lambda of, limit, after: of.users("", limit, after), lambda user: user.username, self._shown)

    async def user(self, call: Call) -> Reply:
        user = await self._directories.user(call.path["username"])
        if user is None:
            raise NotFound("there is no user of this name")
        return Reply.json(self._shown(user))

    async def groups(self, call: Call) -> Reply:
        return await self._listed(call, lambda of, limit, after: of.groups("", limit, after), lambda group: group.name, _shown_group)

    async def group(self, call: Call) -> Reply:
        """With ``whole`` false where its directory did not list all members."""
        group = await self._directories.group(call.path["name"])
        if group is None:
            raise NotFound("there is no group of this name")
        return Reply.json({**_shown_group(group), "whole": group.whole})

    async def _listed(
        self,
        call: Call,
        ask: Callable[[Directory, int, str], Awaitable[Sequence[T]]],
        name: Callable[[T], str],
        shown: Callable[[T], dict[str, Any]],
    ) -> Reply:
        """A page of all static directories; of a name that several know, the first decides."""
        page = page_of(call)
        found: dict[str, T] = {}
        for directory in self._static():
            for one in await ask(directory, page.wanted, page.after):
                found.setdefault(name(one), one)
        return listed(call, self._host.issuer, page, page.of(found.values(), name), key=name, shown=shown)

    def _static(self) -> list[Directory]:
        return [one for one in self._host.components(Directory).values() if one.tier is Tier.STATIC]

    def _shown(self, user: User) -> dict[str, Any]:
        static = any(one.name == user.source for one in self._static())
        return {
            "username": user.username,
            "display_name": user.display_name,
            "email": user.email,
            "groups": user.groups,
            "uid_number": user.uid_number,
            "gid_number": user.gid_number,
            "enabled": not user.state.disabled,
            "source": "static" if static else user.source,
        }


def _shown_group(group: Group) -> dict[str, Any]:
    return {"name": group.name, "description": group.display_name, "gid_number": group.gid_number, "members": group.members}
