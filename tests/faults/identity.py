"""An identity provider that is killed again and again, with one person, and whoever asks it."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from faults.crash import RETRIED, kind_of
from faults.forked import Forked
from rig.people import write_users

USER, PASSWORD = "admin", "a password of the fault tests"


class Identity(Forked):
    """The service. Its person is an administrator."""

    def __init__(self, folder: Path, database: str, **sections: Mapping[str, Any]) -> None:
        users = write_users(folder / "users.toml", PASSWORD, {USER: {"groups": ["administrators"]}})
        own: dict[str, Mapping[str, Any]] = {
            "plugins": {"sets": ["idp"]},
            "server": {"auth_rate_limit": 0},
            "users": {"file": str(users)},
            "rbac": {"role": [{"name": "root", "permissions": ["*"], "groups": ["administrators"]}]},
        }
        super().__init__(folder, database, {**own, **sections})


class Reply(NamedTuple):
    """An answer that was read to its end; ``json`` None is one without JSON."""

    status: int
    location: str
    json: Any
    cookie: str = ""
    """The session cookie that it sets, as a Cookie header."""


class Visitor:
    """Asks the service, signed in after :meth:`login`; the session outlives every kill."""

    def __init__(self, service: Identity, http: aiohttp.ClientSession) -> None:
        self.service = service
        self.http = http
        self.cookie = ""

    async def login(self) -> None:
        body = {"username": USER, "password": PASSWORD}
        async with self.http.post(f"{self.service.url}/api/auth/login", json=body) as answer:
            assert answer.status == 200, await answer.text()
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]

    async def ask(self, method: str, path: str, **options: Any) -> Reply | None:
        """The answer. None when the service ended before it answered, or could not write: it may have been done or not."""
        options["headers"] = {**({"Cookie": self.cookie} if self.cookie else {}), **options.get("headers", {})}
        while True:
            await self.service.up.wait()
            try:
                async with self.http.request(method, self.service.url + path, allow_redirects=False, **options) as answer:
                    content = await answer.read()
            except RETRIED as error:
                await asyncio.sleep(0.005)
                if kind_of(error) == "refused":
                    continue
                return None
            assert answer.status < 500 or answer.status == 503, content
            is_json = content and answer.content_type == "application/json"
            given = [one.partition(";")[0] for one in answer.headers.getall("Set-Cookie", ()) if one.startswith("greatseal_session=")]
            content = json.loads(content) if is_json else None
            reply = Reply(answer.status, answer.headers.get("Location", ""), content, *given)
            return None if reply.status == 503 else reply
