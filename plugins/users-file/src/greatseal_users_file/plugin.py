"""People and groups from a TOML file."""

import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click

from greatseal import hookimpl
from greatseal.api.components import Component
from greatseal.api.declarations import Check, CheckResult, Lifespan, Owns, Welcome
from greatseal.api.directory import Directory
from greatseal.api.identity import Authenticator, PasswordChanger
from greatseal.api.languages import Catalogue
from greatseal.api.tokens import ClaimsProvider
from greatseal.host import Host
from greatseal_users_file.command import users
from greatseal_users_file.directory import FileClaims, FileDirectory
from greatseal_users_file.file import ADMINISTRATOR, UsersFile
from greatseal_users_file.password import FilePassword
from greatseal_users_file.setter import FileSetter
from greatseal_users_file.settings import UsersSettings


class Plugin:
    """Directory, passwords and claims of one file; without `[users]` it contributes nothing."""

    def __init__(self) -> None:
        self._file: UsersFile | None = None
        self._made: str | None = None
        self._told = False

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("users", UsersSettings)]

    @hookimpl
    def commands(self) -> Sequence[click.Command]:
        return [users]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_users_file")]

    @hookimpl
    def authenticators(self, host: Host) -> Sequence[Authenticator[Any]]:
        file = self._open(host)
        return [FilePassword(file, host.realm, host.blocking)] if file else []

    @hookimpl
    def directories(self, host: Host) -> Sequence[Directory]:
        file = self._open(host)
        return [FileDirectory(file, host.realm)] if file else []

    @hookimpl
    def components(self, host: Host) -> Sequence[Component]:
        return self._setters(host)

    @hookimpl
    def password_changers(self, host: Host) -> Sequence[PasswordChanger]:
        return self._setters(host)

    @hookimpl
    def claims(self, host: Host) -> Sequence[ClaimsProvider]:
        file = self._open(host)
        return [FileClaims(file, host.realm)] if file else []

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        file = self._open(host)
        return file.problems() if file else []

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        file = self._open(host)

        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            if file:
                self._made = file.open()
            try:
                yield
            except Exception:
                if file and self._made is not None and not self._told:
                    file.unmake()  # the start failed: nobody was shown the password, and the next one makes another
                raise

        return [Lifespan(name="users file", open=opened)]

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        file = self._open(host)

        async def readable() -> CheckResult:
            people = file.people() if file else None
            return CheckResult(ok=True, detail=f"users: {len(people.users)}" if people else "[users] is not configured")

        return [Check(name="users file", run=readable)]

    @hookimpl
    def welcome(self, host: Host) -> Sequence[Welcome]:
        return [
            Welcome(title="Sign in (this password is shown once)", lines=lambda: self._lines_of_the_first_start(host)),
            Welcome(title="Sign in", lines=lambda: self._lines(host)),
        ]

    def _lines_of_the_first_start(self, host: Host) -> Sequence[str]:
        if self._made is None:
            return []
        self._told = True
        return [f"{host.issuer}/account", f"name      {ADMINISTRATOR}", f"password  {self._made}"]

    def _lines(self, host: Host) -> Sequence[str]:
        file = self._open(host)
        if file is None or self._made is not None:
            return []
        lines = [f"{host.issuer}/account", f"name      as in {file.path}"]
        if ADMINISTRATOR in file.people().users:
            lines.append(f"password  a new one: {passwd_command(ADMINISTRATOR)}")
        return lines

    def _setters(self, host: Host) -> Sequence[FileSetter]:
        file = self._open(host)
        if file is None or not host.settings(UsersSettings).writable:
            return []
        return [FileSetter(file, host.realm, host.blocking, host.clock.now)]

    def _open(self, host: Host) -> UsersFile | None:
        if self._file is None and host.section_present("users"):
            self._file = UsersFile(host.settings(UsersSettings).file, host.log, host.clock.now)
        return self._file


def passwd_command(username: str) -> str:
    """The command that sets a password, with the program and the configuration file of the command that runs now."""
    context = click.get_current_context(silent=True)
    config = context.params.get("path") if context else None
    program = sys.argv[0] if Path(sys.argv[0]).name == "greatseal" else "greatseal"
    return shlex.join([program, "users", "passwd", username, "-c", str(config or "FILE")])
