"""Refresh token families that are alive."""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Select, select, tuple_

from greatseal.api.audit import AuditEvent
from greatseal.api.http import Call, Permission, Reply, Route
from greatseal.api.lists import LARGEST, Page, filter_of, listed, moment_key, page_of
from greatseal.api.moments import seconds
from greatseal.api.problems import BadRequest, NotFound
from greatseal.api.store import Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp.tables import family
from greatseal_idp.token.endings import IS_OVER
from greatseal_idp.token.families import FamiliesImpl

PATH = "/api/admin/refresh-families"
COLUMNS = {"sub": family.c.subject, "client_id": family.c.client_id}
"""What the list may be filtered by, and whose families may be ended."""


class FamiliesAdmin:
    """/api/admin/refresh-families."""

    def __init__(self, host: Host, families: FamiliesImpl) -> None:
        self._host = host
        self._families = families

    def routes(self) -> list[Route]:
        """Every route."""
        return [
            Route("GET", PATH, self.listed, auth=Permission("users:read"), summary="Refresh token families that are alive, newest first"),
            Route("DELETE", PATH, self.revoke_of, auth=Permission("users:write"), summary="Revoke all families of a person"),
            Route("DELETE", f"{PATH}/{{family_id}}", self.revoke, auth=Permission("users:write"), summary="Revoke all tokens of a family"),
        ]

    async def listed(self, call: Call) -> Reply:
        filters = {name: value for name in COLUMNS if (value := filter_of(call, name)) is not None}
        page = page_of(call)
        rows = await self._host.db.read(_live, page, filters)
        return listed(call, self._host.issuer, page, rows, key=lambda row: moment_key(row.expires_at, row.id), shown=_shown)

    async def revoke(self, call: Call) -> Reply:
        if not await self._host.db.write(_revoke, self._families, call.path["family_id"], call.caller.subject):
            raise NotFound("there is no live family of this id")
        return Reply.empty()

    async def revoke_of(self, call: Call) -> Reply:
        subject, client_id = (filter_of(call, name) for name in COLUMNS)
        if subject is None or not call.query.keys() <= COLUMNS.keys():
            raise BadRequest("expected the query parameter sub, and client_id to end those at one client alone")
        event = AuditEvent(
            event_type="refresh_families_revoked", service="idp", sub=subject, client_id=client_id, principal=call.caller.subject
        )
        await self._host.db.write(_revoke_of, self._families, event)
        return Reply.empty()


def _revoke(tx: Tx, families: FamiliesImpl, family_id: str, by: str) -> bool:
    if tx.one(_LIVE, family_id=family_id, moment=tx.now) is None:
        return False
    return families.revoke(tx, family_id, event_type="refresh_family_revoked", by=by)


def _revoke_of(tx: Tx, families: FamiliesImpl, event: AuditEvent) -> None:
    families.revoke_of(tx, subject=event.sub, client_id=event.client_id)
    tx.audit(event)


_IS_LIVE = (family.c.revoked_at.is_(None), ~IS_OVER, family.c.idle_expires_at > param("moment"), family.c.expires_at > param("moment"))
_LIVE = select(family.c.id).where(family.c.id == param("family_id"), *_IS_LIVE)


def _listing(*filters: str) -> Select[tuple[Any, ...]]:
    # By the end of a family, which is its beginning and a constant: that index there is for the cleanup already.
    before = tuple_(family.c.expires_at, family.c.id) < tuple_(param("before"), param("last"))
    chosen = select(family).where(before, *_IS_LIVE, *(COLUMNS[name] == param(name) for name in filters))
    return chosen.order_by(family.c.expires_at.desc(), family.c.id.desc()).limit(param("wanted"))


_LISTINGS: Mapping[tuple[str, ...], Select[tuple[Any, ...]]] = {
    filters: _listing(*filters) for filters in ((), ("sub",), ("client_id",), ("sub", "client_id"))
}


@scan
def _live(tx: Tx, page: Page, filters: Mapping[str, str]) -> list[Row]:
    before, last = page.moment(LARGEST)
    return tx.all(_LISTINGS[tuple(filters)], moment=tx.now, before=before, last=last, wanted=page.wanted, **filters)


def _shown(row: Row) -> dict[str, Any]:
    return {
        "family_id": row.id,
        "sub": row.subject,
        "client_id": row.client_id,
        "scope": " ".join(msgspec.json.decode(row.scopes)),
        "created_at": seconds(row.created_at),
        "last_used_at": seconds(row.rotated_at),
        "expires_at": seconds(min(row.idle_expires_at, row.expires_at)),
        "generation": row.generation,
        "sid": row.session_id,
    }
