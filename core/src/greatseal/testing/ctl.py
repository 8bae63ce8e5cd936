"""Commands of ``greatseal ctl`` beside a service of a test."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from click.testing import CliRunner, Result

from greatseal import hookimpl
from greatseal.api.http import Call, Reply, Route
from greatseal.api.problems import Unauthenticated
from greatseal.cli import main

__all__ = ["AdminDesk", "Ctl", "quiet"]

COOKIE = "__Host-greatseal_session=v1"


class AdminDesk(ABC):
    """A plugin with an admin API for everybody whose password is ``right``, and of carol the code ``123456``.

    ``seen`` has what was asked: method, path, body.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Any]] = []

    @abstractmethod
    async def answer(self, call: Call, path: str, body: Any) -> Reply:
        """The answer to a request for ``path`` below ``/api/admin/``; ``body`` is its JSON, None for none."""

    @hookimpl
    def routes(self) -> Sequence[Route]:
        """The sign-in, the sign-out, and every path of the admin API."""
        everything = [Route(method, "/api/admin/{path*}", self._answer) for method in ("GET", "POST", "PUT", "DELETE")]
        by_code = Route("POST", "/api/auth/otp", self._with_code)
        return [by_code, Route("POST", "/api/auth/login", self._login), Route("POST", "/api/auth/logout", self._logout), *everything]

    async def _login(self, call: Call) -> Reply:
        given = await call.body(dict[str, Any])
        if given["password"] != "right":  # noqa: S105  # of a test
            raise Unauthenticated("the name or the password is wrong")
        if given["username"] == "carol" and "otp_code" not in given:
            return Reply.json({"error": "factor_required", "credentials": ["PasswordAndCode"]}, status=403)
        cookie = ("Set-Cookie", f"{COOKIE}; Path=/; HttpOnly; Secure")
        return Reply.json({"sub": f"{given['username']}@X"}).with_headers(("Set-Cookie", "other=1"), cookie)

    async def _with_code(self, call: Call) -> Reply:
        if (await call.body(dict[str, Any]))["otp_code"] != "123456":
            raise Unauthenticated("the code is wrong")
        return await self._login(call)

    async def _logout(self, call: Call) -> Reply:
        self._require_session(call)
        self.seen.append(("logout", "", None))
        return Reply.empty()

    async def _answer(self, call: Call) -> Reply:
        self._require_session(call)
        body = await call.body(Any) if await call.raw() else None
        self.seen.append((call.method, call.url.partition("/api/admin/")[2], body))
        return await self.answer(call, call.path["path"], body)

    @staticmethod
    def _require_session(call: Call) -> None:
        if call.headers.get("Cookie") != COOKIE:
            raise Unauthenticated("there is no session; sign in first")


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
