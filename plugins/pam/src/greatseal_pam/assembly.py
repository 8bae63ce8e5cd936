"""What the plugin is made of where `[pam]` is configured."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from greatseal.api.declarations import CheckResult
from greatseal.api.problems import Unavailable
from greatseal.host import Host
from greatseal_pam.directory import AccountClaims, AccountDirectory
from greatseal_pam.libpam import LIBRARY, load
from greatseal_pam.password import PamChanger, PamPassword, Stack
from greatseal_pam.pool import Helpers
from greatseal_pam.settings import PamSettings

FOLDERS = (Path("/etc/pam.d"), Path("/usr/lib/pam.d"), Path("/usr/share/pam.d"))
"""Where libpam looks for the file of a service, in the builds of the distributions."""
LOOK_UPS = 2
"""Helpers for questions about accounts: a password that hangs holds up no token."""
NOBODY = "nobody-has-this-name"


class Assembly:
    """The components and the helpers behind them, none of which runs before it is asked something."""

    def __init__(self, host: Host) -> None:
        self.settings = host.settings(PamSettings)
        self._conversations = Helpers("conversations", most=self.settings.processes, seconds=self.settings.timeout, log=host.log)
        self._look_ups = Helpers("look-ups", most=LOOK_UPS, seconds=self.settings.timeout, log=host.log)
        stack = Stack(self.settings, host.realm, self._conversations, host.clock, host.log)
        self.password = PamPassword(stack)
        self.changer = PamChanger(stack)
        self.directory = AccountDirectory(self._look_ups, host.realm, self.settings.min_uid) if self.settings.accounts else None
        self.claims = AccountClaims(self.directory) if self.directory else None

    @property
    def file(self) -> Path:
        """Of the service; where it would be expected when there is none."""
        folders = (self.settings.config_dir,) if self.settings.config_dir else FOLDERS
        files = [folder / self.settings.service for folder in folders]
        return next((file for file in files if file.is_file()), files[0])

    def problems(self) -> list[str]:
        """Why nobody could sign in, with the cure."""
        try:
            load(str(self.settings.config_dir or ""))
        except OSError as error:
            return [f"[pam]: {LIBRARY} cannot be loaded ({error}); install Linux-PAM (libpam0g, pam), or leave [pam] out"]
        except AttributeError:
            return ["[pam] config_dir: the libpam of this machine is older than 1.4; leave it out, and put the file into /etc/pam.d"]
        if not self.file.is_file():
            return [f"[pam] service: {self.file} is not there; without it everybody is refused. The guide has files to begin with"]
        return []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Until the service ends, and the helpers with it."""
        try:
            yield
        finally:
            await self._conversations.close()
            await self._look_ups.close()

    async def check(self) -> CheckResult:
        """Whether a helper starts, finds libpam and is told who is there."""
        if problems := self.problems():
            return CheckResult(ok=False, detail="nobody can sign in with PAM", cause=problems[0])
        try:
            await self._look_ups.ask({"ask": "ready", "folder": str(self.settings.config_dir or "")}, bool)
        except Unavailable as problem:
            return CheckResult(ok=False, detail="the helper processes of PAM do not answer", cause=problem.cause)
        try:
            if self.directory:
                await self.directory.user(NOBODY)
        except Unavailable as problem:
            cure = "a source that /etc/nsswitch.conf names does not answer: start it, or take it out of the lines passwd and group"
            return CheckResult(ok=False, detail="the accounts of this machine cannot be looked up", cause=f"{cure} ({problem.cause})")
        return CheckResult(ok=True, detail=f"service {self.settings.service}", cause=str(self.file))
