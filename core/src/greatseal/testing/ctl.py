"""Commands of ``greatseal ctl`` beside a service of a test."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from click.testing import CliRunner, Result

from greatseal.cli import main

__all__ = ["Ctl", "quiet"]


class Ctl:
    """Runs commands. ``session`` is the file of the session, ``seen`` what the test's server noted."""

    def __init__(self, url: str, folder: Path, seen: Any = ()) -> None:
        self.url = url
        self.session = folder / "config" / "session.json"
        self.folder = folder
        self.seen = seen

    async def run(self, *arguments: str, given: str | None = None, server: str | None = None, **environment: str) -> Result:
        """One command, with ``given`` on its standard input."""
        wanted = {"GREATSEAL_SESSION": str(self.session), "GREATSEAL_SERVER": server or self.url, **environment}
        return await asyncio.to_thread(CliRunner(env=wanted).invoke, main, ["ctl", *arguments], input=given)

    async def login(self, username: str = "alice", password: str = "right") -> None:  # noqa: S107  # of a test
        """Sign in."""
        result = await self.run("login", username, "--password-file", "-", given=f"{password}\n")
        assert result.exit_code == 0, result.output


@contextmanager
def quiet() -> Iterator[None]:
    """The log of a service in the same process is not what a command prints."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        yield
    finally:
        structlog.reset_defaults()
