"""``/api/auth/passkeys``: what the page does, for the management interface and for programs with a session. And for administrators."""

import msgspec

from greatseal.api.http import Call, Permission, Reply, Route, Session
from greatseal.api.identity import SessionCaller
from greatseal.api.lists import filter_of
from greatseal.api.moments import seconds
from greatseal.api.notices import seen
from greatseal.api.problems import BadRequest
from greatseal_passkey.holdings import Held, Keeper

PATH = "/api/auth/passkeys"
ADMIN = "/api/admin/passkeys"


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another name of a passkey."""

    label: str


class PasskeyApi:
    """JSON."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def routes(self) -> list[Route]:
        return [
            Route("GET", PATH, self.list, auth=Session(), summary="Your passkeys."),
            Route("PUT", f"{PATH}/{{id}}", self.rename, auth=Session(), summary="Give one another name."),
            Route("DELETE", f"{PATH}/{{id}}", self.delete, auth=Session(), summary="Delete one; it signs nobody in any more."),
            Route("GET", ADMIN, self.list_of, auth=Permission("users:read"), summary="The passkeys of a person (sub)."),
            Route("DELETE", ADMIN, self.delete_of, auth=Permission("users:write"), summary="Delete all passkeys of a person (sub)."),
        ]

    async def list(self, call: Call) -> Reply:
        return await self._listed(call.caller_as(SessionCaller).session.subject)

    async def rename(self, call: Call) -> Reply:
        named = await call.body(Named)
        await self._keeper.rename(call.caller_as(SessionCaller).session, call.path["id"], named.label)
        return Reply.empty()

    async def delete(self, call: Call) -> Reply:
        await self._keeper.delete(call.caller_as(SessionCaller).session, call.path["id"], seen(call).languages)
        return Reply.empty()

    async def list_of(self, call: Call) -> Reply:
        return await self._listed(_subject(call))

    async def delete_of(self, call: Call) -> Reply:
        await self._keeper.delete_all(_subject(call), by=call.caller.subject)
        return Reply.empty()

    async def _listed(self, subject: str) -> Reply:
        return Reply.json([_listed(held) for held in (await self._keeper.of(subject)).passkeys])


def _subject(call: Call) -> str:
    subject = filter_of(call, "sub")
    if subject is None or call.query.keys() != {"sub"}:
        raise BadRequest("expected the query parameter sub, such as ann@EXAMPLE.ORG, and no other")
    return subject


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
