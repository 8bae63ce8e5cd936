"""``/api/auth/ciba``: what the page does, for the management interface and for programs with a session."""

import msgspec

from greatseal.api.http import Call, Owner, Reply, Route, Session
from greatseal.api.identity import SessionCaller
from greatseal.api.moments import seconds
from greatseal_ciba.decisions import Decision, Decisions, Shown
from greatseal_ciba.requests import Waiting

PATH = "/api/auth/ciba"


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a decision."""

    decision: Decision


class CibaApi:
    """JSON."""

    def __init__(self, decisions: Decisions, owner: Owner) -> None:
        self._decisions = decisions
        self._owner = owner

    def routes(self) -> list[Route]:
        one = f"{PATH}/{{id}}"
        return [
            Route("GET", PATH, self.list, auth=Session(), summary="The requests that wait for the person."),
            Route("GET", one, self.show, auth=Session(), summary="What one of them asks for.", owner=self._owner),
            Route("POST", one, self.decide, auth=Session(), summary="Approve or deny it.", owner=self._owner),
        ]

    async def list(self, call: Call) -> Reply:
        return Reply.json(
            [_listed(one.waiting, one.client_name) for one in await self._decisions.all(call.caller_as(SessionCaller).session)]
        )

    async def show(self, call: Call) -> Reply:
        shown = await self._decisions.show(call, call.caller_as(SessionCaller).session, call.path["id"])
        return Reply.json(_described(shown))

    async def decide(self, call: Call) -> Reply:
        body = await call.body(Decided)
        await self._decisions.decide(call, call.caller_as(SessionCaller).session, call.path["id"], body.decision)
        return Reply.json({"status": "approved" if body.decision == "approve" else "denied"})


def _listed(waiting: Waiting, client_name: str) -> dict[str, object]:
    return {
        "id": waiting.id,
        "client_id": waiting.client_id,
        "client_name": client_name,
        "binding_message": waiting.binding_message,
        "created_at": seconds(waiting.created_at),
        "expires_at": seconds(waiting.expires_at),
    }


def _described(shown: Shown) -> dict[str, object]:
    return {**_listed(shown.waiting, shown.proposal.client_name), **shown.proposal.in_json()}
