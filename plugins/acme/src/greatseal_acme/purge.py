"""Orders leave some time after they expired, with their authorizations and challenges. Certificates stay in the inventory of the CA."""

from collections.abc import Sequence

from sqlalchemy import delete, exists, select

from greatseal.api.moments import SECOND
from greatseal.api.store import Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_acme import tables as t
from greatseal_acme.settings import AcmeServer

KEPT = 30 * 86400 * SECOND
"""How long an order can be read after it expired: for whoever asks why it failed. A valid one has no other use after its certificate was
fetched, and that has a URL of its own (RFC 8555 s7.4.2)."""
BITE = 50
"""Orders that one transaction deletes, each with a row for every identifier and challenge."""

_OLD = (
    select(t.order.c.id)
    .where(
        t.order.c.id > param("after"), t.order.c.id < param("end"), t.order.c.expires_at < param("before"), t.order.c.status != "processing"
    )
    .order_by(t.order.c.id)
    .limit(BITE)
)
_AUTHORIZATIONS = select(t.order_authorization.c.authorization_id).where(t.order_authorization.c.order_id == param("order"))
_UNLINK = delete(t.order_authorization).where(t.order_authorization.c.order_id == param("order"))
_DROP_ORDER = delete(t.order).where(t.order.c.id == param("order"))
_is_linked = exists().where(t.order_authorization.c.authorization_id == t.authorization.c.id)
_LINKED = select(t.order_authorization.c.order_id).where(t.order_authorization.c.authorization_id == param("authorization")).limit(1)
_DROP_VALIDATIONS = delete(t.validation).where(
    t.validation.c.challenge_id.in_(select(t.challenge.c.id).where(t.challenge.c.authorization_id == param("authorization")))
)
_DROP_CHALLENGES = delete(t.challenge).where(t.challenge.c.authorization_id == param("authorization"))
_OLD_BEFOREHAND = (
    select(t.authorization.c.id)
    .where(t.BEFOREHAND, t.authorization.c.id > param("after"), t.authorization.c.expires_at < param("before"), ~_is_linked)
    .order_by(t.authorization.c.id)
    .limit(BITE)
)
"""Asked for without an order, and used by none that is still here."""
_DROP_AUTHORIZATION = delete(t.authorization).where(t.authorization.c.id == param("authorization"))


class Purge:
    """The job."""

    def __init__(self, host: Host) -> None:
        settings = host.settings(AcmeServer)
        self._host = host
        self._life = max(settings.order_expiry_secs, settings.authz_expiry_secs) * SECOND

    async def run(self) -> None:
        """Delete what expired long ago, oldest first, in bites: a reader finds them, writers delete by key."""
        before = self._host.clock.passed() - KEPT
        end = ids_until(before - self._life)
        after = ""
        while old := await self._host.db.read(_old, after, end, before):
            await self._host.db.write(_drop, old)
            after = old[-1]
        after = ""
        while old := await self._host.db.read(_old_beforehand, after, before):
            await self._host.db.write(_drop_authorizations, old)
            after = old[-1]


def ids_until(moment: int) -> str:
    """What the ids of older orders sort below: they begin with the second in which they were made, so that the primary key tells their age.

    None is older than the moment 0; before that is the clock of a service that has not run for an hour.
    """
    return f"{max(moment, 0) // SECOND & 0xFFFFFFFF:08x}"


@scan
def _old(tx: Tx, after: str, end: str, before: int) -> list[str]:
    return [row.id for row in tx.all(_OLD, after=after, end=end, before=before)]


@scan
def _drop(tx: Tx, orders: Sequence[str]) -> None:
    for order in orders:
        authorizations = [row.authorization_id for row in tx.all(_AUTHORIZATIONS, order=order)]
        tx.run(_UNLINK, order=order)
        tx.run(_DROP_ORDER, order=order)
        _drop_authorizations(tx, authorizations)


@scan
def _old_beforehand(tx: Tx, after: str, before: int) -> list[str]:
    return [row.id for row in tx.all(_OLD_BEFOREHAND, after=after, before=before)]


@scan
def _drop_authorizations(tx: Tx, authorizations: Sequence[str]) -> None:
    """Those that no order has."""
    for authorization in authorizations:
        if tx.one(_LINKED, authorization=authorization) is None:
            tx.run(_DROP_VALIDATIONS, authorization=authorization)
            tx.run(_DROP_CHALLENGES, authorization=authorization)
            tx.run(_DROP_AUTHORIZATION, authorization=authorization)
