"""A device without a browser, and the person who connects it (RFC 8628)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from security.idp_desk import BROWSER, Desk, open_desk

from greatseal.testing.desk import Answer, hidden_fields

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
PENDING, SLOW, DENIED, EXPIRED, INVALID = (
    (400, error) for error in ("authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_grant")
)
PAGE, API = "/device", "/api/auth/device"


class Device:
    """A client of the device flow. ``asked`` is what it was given last."""

    def __init__(self, desk: Desk, client: Mapping[str, Any]) -> None:
        self.desk = desk
        self.client = client
        self.asked: dict[str, Any] = {}

    async def ask(self, **form: Any) -> Answer:
        sent = {"scope": "openid profile offline_access", **form}
        return await self.desk.form("/device_authorization", sent, by=self.client)

    async def begin(self, **form: Any) -> str:
        """Ask for codes; the user code."""
        answer = await self.ask(**form)
        assert answer.status == 200, answer.text
        self.asked = answer.json
        return str(self.asked["user_code"])

    async def poll(self, code: str = "", *, by: Mapping[str, Any] | None = None, **more: Any) -> Answer:
        form = {"grant_type": GRANT, "device_code": code or self.asked["device_code"], **more}
        headers = form.pop("headers", None)
        return await self.desk.form("/token", form, by=by or self.client, headers=headers)

    async def decide(self, cookie: str, decision: str = "approve", user_code: str = "") -> Answer:
        body = {"user_code": user_code or self.asked["user_code"], "decision": decision}
        return await self.desk.ask("POST", API, cookie=cookie, json=body)

    async def tokens(self, cookie: str, **form: Any) -> Any:
        """What a device gets that a person approves."""
        await self.begin(**form)
        decided = await self.decide(cookie)
        assert decided.status == 200, decided.text
        answer = await self.poll()
        assert answer.status == 200, answer.text
        return answer.json


async def device_of(desk: Desk, **registration: Any) -> Device:
    """A public device, unless the registration says otherwise."""
    client = {"token_endpoint_auth_method": "none", "grant_types": [GRANT, "refresh_token"], "redirect_uris": [], "client_name": "The TV"}
    return Device(desk, await desk.registered(**{**client, "consent": "explicit", **registration}))


@asynccontextmanager
async def open_devices(folder: Path, *features: str, **sections: Any) -> AsyncIterator[tuple[Desk, Device, str]]:
    """A provider with a device, and the cookie of ann."""
    async with open_desk(folder, "device-flow", *features, **sections) as desk:
        yield desk, await device_of(desk), await desk.cookie("ann")


async def entered(desk: Desk, cookie: str, typed: str) -> Answer:
    """The page that follows a code which was typed by hand."""
    page = await desk.ask("GET", PAGE, cookie=cookie, headers=BROWSER)
    return await desk.ask("POST", PAGE, cookie=cookie, headers=BROWSER, data={**hidden_fields(page), "user_code": typed})
