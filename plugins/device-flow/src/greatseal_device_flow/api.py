"""``/api/auth/device``: what the page does, for the management interface and for programs with a session."""

import msgspec

from greatseal.api.http import Call, Owner, Reply, Route, Session
from greatseal.api.identity import SessionCaller
from greatseal.api.moments import seconds
from greatseal.api.problems import BadRequest
from greatseal_device_flow.decisions import Decision, Decisions, Shown

PATH = "/api/auth/device"


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a decision."""

    user_code: str
    decision: Decision


class DeviceApi:
    """JSON."""

    def __init__(self, decisions: Decisions, owner: Owner) -> None:
        self._decisions = decisions
        self._owner = owner

    def routes(self) -> list[Route]:
        return [
            Route("GET", PATH, self.show, auth=Session(), summary="The device that waits with a user code.", owner=self._owner),
            Route("POST", PATH, self.decide, auth=Session(), summary="Approve or deny it.", owner=self._owner),
        ]

    async def show(self, call: Call) -> Reply:
        if "user_code" not in call.query:
            raise BadRequest("user_code is required (RFC 8628 s3.3)")
        session = call.caller_as(SessionCaller).session
        return Reply.json(_described(await self._decisions.show(call, session, call.query["user_code"])))

    async def decide(self, call: Call) -> Reply:
        body = await call.body(Decided)
        await self._decisions.decide(call, call.caller_as(SessionCaller).session, body.user_code, body.decision)
        return Reply.json({"status": "approved" if body.decision == "approve" else "denied"})


def _described(shown: Shown) -> dict[str, object]:
    client = shown.proposal.client
    return {
        "user_code": shown.user_code,
        "client_id": client.client_id,
        "client_name": client.client_name,
        **shown.proposal.in_json(),
        "expires_at": seconds(shown.waiting.expires_at),
        "status": shown.waiting.status,
    }
