"""People with an authenticator app, and the steps of a sign-in with a code."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyotp
from security.idp_desk import PASSWORD, Desk, open_desk

from greatseal.testing.desk import Answer

MINE, RECOVERY, SIGN_IN = "/api/me/otp-tokens", "/api/me/recovery-codes", "/api/auth/otp"
DEVICES = "/api/me/otp-devices"
ADMIN = "/api/admin/users/{}/otp-tokens"
STEP = 30


class App:
    """An authenticator app on the phone of ``username``, whose clock is that of the service."""

    def __init__(self, desk: Desk, username: str, cookie: str) -> None:
        self.desk = desk
        self.username = username
        self.cookie = cookie
        self.weak = ""
        """A session of the password alone, from before the app."""
        self.token_id = ""
        self.uri = ""

    async def scan(self, label: str = "My phone") -> None:
        """Make a token and learn its key."""
        answer = await self.desk.post(MINE, json={"label": label}, cookie=self.cookie)
        assert answer.status == 201, answer.text
        self.token_id, self.uri = answer.json["token_id"], answer.json["otpauth_uri"]

    @property
    def totp(self) -> pyotp.TOTP:
        """What is in the app."""
        made = pyotp.parse_uri(self.uri)
        assert isinstance(made, pyotp.TOTP)
        return made

    def code(self, steps: int = 0) -> str:
        """The code that it shows, or showed or will show some steps away."""
        return self.totp.generate_otp(self.desk.clock.now() // 1_000_000 // STEP + steps)

    async def confirm(self, code: str = "") -> Answer:
        answer = await self.desk.post(f"{MINE}/{self.token_id}/confirm", json={"otp_code": code or self.code()}, cookie=self.cookie)
        self.desk.clock.step(STEP)
        if answer.status == 204:
            self.cookie = answer.cookie
        return answer

    async def sign_in(self, code: str | None = None, *, password: str = PASSWORD, remember: bool = False, **more: Any) -> Answer:
        otp_code = self.code() if code is None else code
        body = {"username": self.username, "password": password, "otp_code": otp_code, **({"remember": True} if remember else {})}
        return await self.desk.post(SIGN_IN, json=body, **more)

    async def delete(self, token_id: str = "") -> Answer:
        return await self.desk.ask("DELETE", f"{MINE}/{token_id or self.token_id}", cookie=self.cookie)

    async def tokens(self) -> Any:
        return (await self.desk.get(MINE, cookie=self.cookie)).json

    async def recovery_codes(self) -> list[str]:
        answer = await self.desk.post(RECOVERY, cookie=self.cookie)
        assert answer.status == 201, answer.text
        codes: list[str] = answer.json["codes"]
        return codes


def secret_of(uri: str) -> str:
    return parse_qs(urlsplit(uri).query)["secret"][0]


async def app_of(desk: Desk, username: str = "ann", *, confirmed: bool = True) -> App:
    """An app that has scanned a token of a new session, and gave its first code."""
    app = App(desk, username, await desk.cookie(username))
    app.weak = await desk.cookie(username)
    await app.scan()
    if confirmed:
        answer = await app.confirm()
        assert answer.status == 204, answer.text
    return app


@asynccontextmanager
async def open_codes(folder: Path, *features: str, **sections: Any) -> AsyncIterator[Desk]:
    """A provider with one-time codes."""
    async with open_desk(folder, "otp", *features, **sections) as desk:
        yield desk
