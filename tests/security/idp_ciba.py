"""A client that asks a person who is somewhere else (CIBA Core 1.0), and what it is told by ping."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from security.idp_desk import SECRET, Desk, open_desk

from greatseal.testing.desk import Answer

GRANT = "urn:openid:params:grant-type:ciba"
PENDING, SLOW, DENIED, EXPIRED, INVALID = (
    (400, error) for error in ("authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_grant")
)
ENDPOINT, PAGE, API = "/bc-authorize", "/ciba", "/api/auth/ciba"
MINE = "c" * 43
"""A client_notification_token."""


class Caller:
    """A client of CIBA. ``asked`` is what it was given last."""

    def __init__(self, desk: Desk, client: Mapping[str, Any]) -> None:
        self.desk = desk
        self.client = client
        self.asked: dict[str, Any] = {}

    async def ask(self, **form: Any) -> Answer:
        sent = {"scope": "openid profile offline_access", "login_hint": "ann", **form}
        if self.client["backchannel_token_delivery_mode"] == "ping":
            sent = {"client_notification_token": MINE, **sent}
        return await self.desk.form(ENDPOINT, sent, by=self.client)

    async def begin(self, **form: Any) -> str:
        """Ask; the auth_req_id."""
        answer = await self.ask(**form)
        assert answer.status == 200, answer.text
        self.asked = answer.json
        return str(self.asked["auth_req_id"])

    async def poll(self, handle: str = "", *, by: Mapping[str, Any] | None = None, **more: Any) -> Answer:
        form = {"grant_type": GRANT, "auth_req_id": handle or self.asked["auth_req_id"], **more}
        return await self.desk.form("/token", form, by=by or self.client)

    async def waiting(self, cookie: str) -> list[dict[str, Any]]:
        """What waits for the person of a session."""
        found: list[dict[str, Any]] = (await self.desk.ask("GET", API, cookie=cookie)).json
        return found

    async def decide(self, cookie: str, decision: str = "approve", id: str = "") -> Answer:
        """About the latest, unless it is named."""
        place = f"{API}/{id or (await self.waiting(cookie))[0]['id']}"
        return await self.desk.ask("POST", place, cookie=cookie, json={"decision": decision})

    async def tokens(self, cookie: str, **form: Any) -> Any:
        """What a client gets that the person allows."""
        await self.begin(**form)
        assert (await self.decide(cookie)).status == 200
        answer = await self.poll()
        assert answer.status == 200, answer.text
        return answer.json


def registration(**changes: Any) -> dict[str, Any]:
    """Of a confidential client that polls, unless the changes say otherwise."""
    return {
        "token_endpoint_auth_method": "client_secret_basic",
        "client_secret": SECRET,
        "grant_types": [GRANT, "refresh_token"],
        "redirect_uris": [],
        "client_name": "The bank",
        "consent": "explicit",
        "backchannel_token_delivery_mode": "poll",
        **changes,
    }


async def caller_of(desk: Desk, **changes: Any) -> Caller:
    return Caller(desk, await desk.registered(**registration(**changes)))


@asynccontextmanager
async def open_callers(folder: Path, *features: str, **sections: Any) -> AsyncIterator[tuple[Desk, Caller, str]]:
    """A provider with a client, and the cookie of ann."""
    async with open_desk(folder, "ciba", *features, **sections) as desk:
        yield desk, await caller_of(desk), await desk.cookie("ann")


class Notified:
    """The notification endpoint of a client: what came, and the statuses that it answers with, the last one for ever."""

    def __init__(self) -> None:
        self.pings: list[tuple[str | None, Any]] = []
        self.statuses = [204]
        self.url = ""
        self.came = asyncio.Event()

    async def take(self, request: web.Request) -> web.Response:
        self.pings.append((request.headers.get("Authorization"), await request.json()))
        self.came.set()
        status = self.statuses[0] if len(self.statuses) == 1 else self.statuses.pop(0)
        return web.Response(status=status, headers={"Location": f"{self.url}/again"} if 300 <= status < 400 else {})


@asynccontextmanager
async def notified() -> AsyncIterator[Notified]:
    """On this machine."""
    found, app = Notified(), web.Application()
    app.router.add_post("/{path:.*}", found.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/ciba"
    try:
        yield found
    finally:
        await runner.cleanup()
