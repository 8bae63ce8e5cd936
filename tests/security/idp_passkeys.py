"""A person at a service with passkeys, and the steps of the two ceremonies."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from rig.softkeys import SoftKey
from security.idp_desk import Desk, open_desk

from greatseal.testing.desk import Answer

API = "/api/auth/passkey"


class Passkeys:
    """The endpoints, with the origin of the service."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def offer(self, cookie: str) -> Any:
        """Options to register."""
        answer = await self.desk.post(f"{API}/register/begin", cookie=cookie, json={})
        assert answer.status == 200, answer.text
        return answer.json

    async def send(self, cookie: str, made: Any) -> Answer:
        return await self.desk.post(f"{API}/register/complete", cookie=cookie, json=made)

    async def register(self, cookie: str, key: SoftKey, label: str | None = None) -> Any:
        """A passkey of the person of the cookie."""
        made = key.make(await self.offer(cookie), self.desk.url)
        answer = await self.send(cookie, {**made, "label": label})
        assert answer.status == 201, answer.text
        return answer.json

    async def begin(self, name: str | None = None, **more: Any) -> Any:
        """Options to sign in."""
        answer = await self.desk.post(f"{API}/begin", json={} if name is None else {"username": name}, **more)
        assert answer.status == 200, answer.text
        return answer.json

    async def complete(self, answered: Any, **more: Any) -> Answer:
        return await self.desk.post(f"{API}/complete", json=answered, **more)

    async def sign_in(self, key: SoftKey, name: str | None = None) -> Answer:
        return await self.complete(key.answer(await self.begin(name), self.desk.url))

    async def refused(self, answered: Any) -> None:
        """Nobody is signed in, in the words for everybody."""
        answer = await self.complete(answered)
        assert answer.outcome == (401, "invalid_credentials"), answer.text
        assert answer.json["error_description"] == "this passkey is not known here, or it does not prove who you are"
        assert not answer.cookies

    async def listed(self, cookie: str) -> Any:
        return (await self.desk.get("/api/auth/passkeys", cookie=cookie)).json

    async def failures(self) -> list[str]:
        return [event.detail for event in await self.desk.events("login_failure")]


@asynccontextmanager
async def open_passkeys(folder: Path, *features: str, **sections: Any) -> AsyncIterator[tuple[Passkeys, str, SoftKey]]:
    """The service, ann's session, and a passkey of hers."""
    async with open_desk(folder, "passkey", *features, **sections) as desk:
        passkeys, cookie, key = Passkeys(desk), await desk.cookie("ann"), SoftKey()
        await passkeys.register(cookie, key, "My phone")
        yield passkeys, cookie, key


def changed(answered: Any, **response: Any) -> Any:
    """The same with other members of its response."""
    return {**msgspec.to_builtins(answered), "response": {**answered["response"], **response}}
