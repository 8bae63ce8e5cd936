"""A stranger's commands in one file: ``greatseal ctl notice`` writes and shows what the service tells everybody, over its own routes."""

from collections.abc import Sequence
from typing import Annotated

import click
import msgspec

from greatseal import hookimpl
from greatseal.api.declarations import PermissionName
from greatseal.api.http import Call, Permission, Reply, Route

PATH = "/api/admin/notice"


class Notice(msgspec.Struct, frozen=True):
    """What is told."""

    text: Annotated[str, msgspec.Meta(max_length=200)]


class Plugin:
    """The notice, kept while the service runs."""

    def __init__(self) -> None:
        self._notice = Notice("")

    @hookimpl
    def permissions(self) -> Sequence[PermissionName]:
        return [PermissionName("notice:write", "Write the notice.")]

    @hookimpl
    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", PATH, self._show, style="api", auth=Permission("notice:write"), summary="The notice"),
            Route("PUT", PATH, self._write, style="api", auth=Permission("notice:write"), summary="Write the notice"),
        ]

    @hookimpl
    def ctl(self) -> Sequence[click.Command]:
        from greatseal.ctl.base import Admin, command

        @click.group()
        def notice() -> None:
            """What the service tells everybody."""

        @command(notice, "show")
        def show(admin: Admin) -> None:
            """Show the notice."""
            admin.output.record(admin.ask("GET", "notice"))

        @command(notice, "write")
        @click.argument("text")
        def write(admin: Admin, text: str) -> None:
            """Write the notice."""
            admin.output.record(admin.ask("PUT", "notice", body={"text": text}))

        return [notice]

    async def _show(self, call: Call) -> Reply:
        return Reply.json(self._notice)

    async def _write(self, call: Call) -> Reply:
        self._notice = await call.body(Notice)
        return Reply.json(self._notice)
