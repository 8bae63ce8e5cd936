"""What a sign-in at a provider counts for when the provider says nothing: as configured, or as an administrator said."""

import msgspec
from sqlalchemy import select

from greatseal.api.audit import AuditEvent
from greatseal.api.store import Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_federation import tables as t
from greatseal_federation.upstreams import Upstream

_BY_ID = select(t.override).where(t.override.c.id == param("id"))


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """``acr`` None is the class of a sign-in about which nothing more is said."""

    acr: str | None = None
    amr: tuple[str, ...] = ()


class Overrides:
    """Of providers that a directory names; those of the configuration have theirs there."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._cache = host.changes.cache(t.OVERRIDE.name, _load)

    async def of(self, upstream: Upstream) -> Defaults:
        """What holds now."""
        found = await self._cache.get(upstream.id) if upstream.source != "config" else None
        own = Defaults(acr=upstream.default_acr, amr=upstream.default_amr)
        return own if found is None else Defaults(acr=found.acr or own.acr, amr=found.amr or own.amr)

    async def set(self, id: str, defaults: Defaults, by: str) -> None:
        """Put it in the place of what the directory says; with neither, that holds again."""
        await self._host.db.write(_set, id, defaults, by)


def _load(tx: Tx, id: str) -> Defaults | None:
    row = tx.one(_BY_ID, id=id)
    return None if row is None else Defaults(acr=row.default_acr, amr=tuple(msgspec.json.decode(row.default_amr)))


def _set(tx: Tx, id: str, defaults: Defaults, by: str) -> None:
    if defaults == Defaults():
        tx.remove(t.OVERRIDE, id)
    else:
        tx.put(t.OVERRIDE, id, default_acr=defaults.acr, default_amr=msgspec.json.encode(defaults.amr).decode())
    detail = msgspec.json.encode({"idp_id": id, "default_acr": defaults.acr, "default_amr": defaults.amr}).decode()
    tx.audit(AuditEvent(event_type="ipa_idp_acr_updated", service="idp", sub=by, detail=detail))
