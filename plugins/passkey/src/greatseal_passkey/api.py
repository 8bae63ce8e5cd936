"""``/api/auth/passkeys``: what the page does, for the management interface and for programs with a session."""

from greatseal.api.http import Call, Reply, Route, Session
from greatseal.api.identity import SessionCaller
from greatseal.api.moments import seconds
from greatseal_passkey.holdings import Held, Keeper

PATH = "/api/auth/passkeys"


class PasskeyApi:
    """JSON."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def routes(self) -> list[Route]:
        return [
            Route("GET", PATH, self.list, auth=Session(), summary="Your passkeys."),
            Route("DELETE", f"{PATH}/{{id}}", self.delete, auth=Session(), summary="Delete one; it signs nobody in any more."),
        ]

    async def list(self, call: Call) -> Reply:
        holdings = await self._keeper.of(call.caller_as(SessionCaller).session)
        return Reply.json([_listed(held) for held in holdings.passkeys])

    async def delete(self, call: Call) -> Reply:
        await self._keeper.delete(call.caller_as(SessionCaller).session, call.path["id"])
        return Reply.empty()


def _listed(held: Held) -> dict[str, object]:
    record = held.record
    return {
        "id": held.id,
        "label": held.label,
        "created_at": None if record is None else seconds(record.created_at),
        "last_used_at": None if record is None or record.last_used_at is None else seconds(record.last_used_at),
        "transports": [] if record is None else record.transports,
        "backup_eligible": None if record is None else record.backup_eligible,
        "backup_state": None if record is None else record.backup_state,
        "suspected_at": None if record is None or record.suspected_at is None else seconds(record.suspected_at),
        "source": held.source,
    }
