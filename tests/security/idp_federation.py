"""A service with another provider, and the steps of a sign-in through it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from rig.upstream import CLIENT, SECRET, Stub, open_stub, request_of
from security.idp_desk import Desk, open_desk

from greatseal.clock import SystemClock
from greatseal.testing import FakeClock
from greatseal.testing.desk import Answer

ACCOUNTS = "/api/admin/federated-accounts"
BROWSER = {"Accept": "text/html"}


class Federation:
    """``desk`` is the service, ``stub`` the provider ``partner``."""

    def __init__(self, desk: Desk, stub: Stub) -> None:
        self.desk = desk
        self.stub = stub
        self.browser = ""

    async def link(self, username: str = "ann", sub: str = "ada-1", upstream: str = "partner") -> Any:
        body = {"upstream_id": upstream, "upstream_sub": sub, "username": username}
        made = await self.desk.post(ACCOUNTS, cookie=self.desk.admin, json=body)
        assert made.status == 201, made.text
        return made.json

    async def start(self, return_to: str | None = None, *, upstream: str = "partner", cookie: str = "", **more: str) -> Answer:
        query = {**({} if return_to is None else {"return_to": return_to}), **more}
        path = f"/auth/external/{upstream}{f'?{urlencode(query)}' if query else ''}"
        jar = "; ".join(one for one in (cookie, self.browser) if one)
        answer = await self.desk.get(path, cookie=jar, headers=BROWSER)
        for one in answer.cookies:
            if one.startswith("greatseal_federation="):
                self.browser = one.partition(";")[0]
        return answer

    async def begin(self, return_to: str | None = None, **more: Any) -> dict[str, str]:
        """The request that the browser is sent to the provider with."""
        answer = await self.start(return_to, **more)
        assert answer.status == 303, answer.text
        return request_of(answer.location)

    async def arrive(self, *, upstream: str = "partner", cookie: str = "", headers: Mapping[str, str] = BROWSER, **query: str) -> Answer:
        """The browser comes back with those parameters."""
        jar = "; ".join(one for one in (cookie, self.browser) if one)
        return await self.desk.get(f"/internal/callback/{upstream}?{urlencode(query, quote_via=quote)}", cookie=jar, headers=headers)

    async def sign_in(self, return_to: str | None = None, **more: Any) -> Answer:
        """From the button to the answer of the callback."""
        request = await self.begin(return_to, **more)
        pushed = self.stub.pushed.get(request.get("request_uri", ""), request)
        return await self.arrive(upstream=more.get("upstream", "partner"), code=self.stub.code(request), state=pushed["state"])

    async def me(self, answer: Answer) -> Any:
        assert answer.status == 303, answer.text
        return (await self.desk.get("/api/auth/me", cookie=answer.cookie)).json


@asynccontextmanager
async def open_federation(
    folder: Path,
    *more: Mapping[str, Any],
    features: tuple[str, ...] = (),
    table: Mapping[str, Any] | None = None,
    path: str = "",
    private: Mapping[str, Any] | None = None,
    **sections: Any,
) -> AsyncIterator[Federation]:
    """With the provider ``partner``, which has ``table`` besides, and ``more`` providers at the same place; issuers end in ``path``.

    ``private`` are other keys of [federation]. In ``table`` the text ``{stub}`` is where the provider is.
    """
    clock = FakeClock(SystemClock().now())
    async with open_stub(lambda: clock.now() // 1_000_000) as stub:
        own = {"issuer": stub.url + path, "client_id": CLIENT, "client_secret": SECRET, "allow_private_hosts": True}
        tables = [{**own, "id": "partner", "display_name": "The <b>partner</b>", **(table or {})}, *({**own, **one} for one in more)]
        tables = [{name: _placed(value, stub) for name, value in one.items()} for one in tables]
        tables = [{name: value for name, value in one.items() if value is not None} for one in tables]
        sections["federation"] = {"upstream_idps": tables, **(private or {})}
        async with open_desk(folder, "federation", *features, clock=clock, **sections) as desk:
            yield Federation(desk, stub)


def _placed(value: Any, stub: Stub) -> Any:
    return value.replace("{stub}", stub.url) if isinstance(value, str) else value
