"""GET /api/identity/*: each look-up is of one name, and an outage is never an empty answer, upon which SSSD forgets what it knew."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from greatseal.api.directory import Directories, DirectoryUnavailable, Group, User
from greatseal.api.http import Bearer, Call, Reply, Route
from greatseal.api.problems import BadRequest, NotFound, Unavailable
from greatseal_identity_api.members import Members
from greatseal_identity_api.objects import group_of, user_of

USERS, GROUPS = "/api/identity/users", "/api/identity/groups"
READ = Bearer("directory.read")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class DirectoryDown(Unavailable):
    """Users and groups cannot be looked up now."""

    error = "directory_unavailable"


class IdentityApi:
    """Look-ups of users and groups. No body is read, so the Content-Type of SSSD's GET does not matter."""

    def __init__(self, directories: Directories) -> None:
        self._directories = directories
        self._members = Members()

    def routes(self) -> list[Route]:
        """Every route."""
        return [
            Route("GET", USERS, self.users, auth=READ, summary="Find a user by their exact name, short or with the realm"),
            Route("GET", f"{USERS}/{{id}}/groups", self.groups_of, auth=READ, summary="The groups of a user, nested ones too"),
            Route("GET", GROUPS, self.groups, auth=READ, summary="Find a group by its exact name"),
            Route("GET", f"{GROUPS}/{{name}}/members", self.members, auth=READ, summary="The users in a group, those of nested groups too"),
        ]

    async def users(self, call: Call) -> Reply:
        """The user, or nobody."""
        user = await self._user(_asked(call, "username"))
        return Reply.json([] if user is None else [user_of(user)])

    async def groups_of(self, call: Call) -> Reply:
        """404 for an unknown user."""
        user = await self._user(call.path["id"])
        if user is None:
            raise NotFound("there is no user of this id")
        with _told():
            groups = await self._directories.groups_of(user)
        return Reply.json([group_of(group) for group in groups])

    async def groups(self, call: Call) -> Reply:
        """The group, or none."""
        group = await self._group(_asked(call, "search"))
        return Reply.json([] if group is None else [group_of(group)])

    async def members(self, call: Call) -> Reply:
        """404 for an unknown group."""
        group = await self._group(call.path["name"])
        if group is None:
            raise NotFound("there is no group of this name")
        return Reply(body=await self._members.of(group), content_type="application/json")

    async def _user(self, name: str) -> User | None:
        if CONTROL.search(name) or name.startswith("@"):
            return None  # nobody has such a name, and no directory need know how to ask for it
        with _told():
            return await self._directories.user(name)

    async def _group(self, name: str) -> Group | None:
        if CONTROL.search(name):
            return None
        with _told():
            return await self._directories.group(name)


def _asked(call: Call, parameter: str) -> str:
    """The name that is searched. Parameters that are not known here do not matter."""
    name = call.query.get(parameter)
    if name is None:
        raise BadRequest(f"{parameter}: expected the name that is searched")
    if call.query.get("exact") != "true":
        raise BadRequest("exact: expected true; names are found as a whole alone")
    return name


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except DirectoryUnavailable as problem:
        raise DirectoryDown(problem.detail, cause=problem.cause, headers=problem.headers) from problem
