"""Sessions that came of a provider: what ends them when it says so, or when their account is unlinked."""

from collections.abc import Sequence

from sqlalchemy import select

from greatseal import faults
from greatseal.api.identity import Login, SessionView
from greatseal.api.store import Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_federation import accounts
from greatseal_federation import tables as t
from greatseal_federation.accounts import Account
from greatseal_federation.identity import Identity
from greatseal_federation.people import told_of

MOST = 1_000
"""Sessions that one logout ends at once; a job ends the others."""
SWEPT = 500

_BY_ID = select(t.session).where(t.session.c.id == param("id"))
_OF_ACCOUNT = select(t.session.c.id).where(t.session.c.account == param("account")).limit(MOST)
_OF_SUB = (
    select(t.session.c.id).where(t.session.c.upstream_id == param("upstream"), t.session.c.upstream_sub == param("subject")).limit(MOST)
)
_OF_SID = (
    select(t.session.c.id, t.session.c.upstream_sub)
    .where(t.session.c.upstream_id == param("upstream"), t.session.c.upstream_sid == param("sid"))
    .limit(MOST)
)
_ENDING = select(t.session.c.id).where(t.session.c.ending == 1).limit(MOST)
OLD = select(t.session.c.id).where(t.session.c.expires_at <= param("before")).limit(SWEPT)


class Sessions:
    """Notes them, and ends them: first it is written that they end, so that a crash in between lets none go on."""

    def __init__(self, host: Host, login: Login) -> None:
        self._host = host
        self._login = login

    def begun(self, tx: Tx, view: SessionView, account: Account, identity: Identity) -> None:
        """In the transaction that makes the session."""
        token = identity.id_token
        sealed = None if token is None else self._host.keys.seal(token.encode(), table="federation_session", row=view.id, field="id_token")
        tx.put(
            t.SESSION,
            view.id,
            account=account.id,
            upstream_id=identity.upstream.id,
            upstream_sub=identity.subject,
            upstream_sid=identity.session,
            id_token=sealed,
            expires_at=view.expires_at,
            ending=0,
        )
        if accounts.find(tx, account.id) is not None:  # one of a directory is not stored
            accounts.note(tx, account, identity.email, told_of(identity))

    def find(self, tx: Tx, id: str) -> Row | None:
        """Of a session."""
        return tx.one(_BY_ID, id=id)

    def end_account(self, tx: Tx, account: str) -> list[str]:
        """Those of an account."""
        return self._mark(tx, [row.id for row in tx.all(_OF_ACCOUNT, account=account)])

    def end_upstream(self, tx: Tx, upstream: str, *, subject: str | None, sid: str | None) -> list[str]:
        """Those of a session there, or of a subject where no session is named (Back-Channel Logout s2.7)."""
        if sid is None:
            return self._mark(tx, [row.id for row in tx.all(_OF_SUB, upstream=upstream, subject=subject)])
        rows = tx.all(_OF_SID, upstream=upstream, sid=sid)
        return self._mark(tx, [row.id for row in rows if subject in {None, row.upstream_sub}])

    async def finish(self, ids: Sequence[str]) -> int:
        """End what was marked; how many there were. Effective when this returns."""
        faults.point("federation.ending")
        ended = 0
        for id in ids:
            ended += await self._login.end(id)
            await self._host.db.write(_forget, id)
        return ended

    async def carry_on(self) -> None:
        """End what was marked before a crash, and what was too much at once; forget sessions whose time is over."""
        while ids := await self._host.db.read(_ending):
            await self.finish(ids)
        before = self._host.clock.passed()
        while await self._host.db.write(_sweep, before) == SWEPT:
            pass

    def id_token(self, row: Row) -> str | None:
        """What the provider told at the sign-in."""
        if row.id_token is None:
            return None
        return self._host.keys.open(row.id_token, table="federation_session", row=row.id, field="id_token").decode()

    def _mark(self, tx: Tx, ids: list[str]) -> list[str]:
        for id in ids:
            tx.put(t.SESSION, id, ending=1)
        return ids


def _forget(tx: Tx, id: str) -> None:
    tx.remove(t.SESSION, id)


def _ending(tx: Tx) -> list[str]:
    return [row.id for row in tx.all(_ENDING)]


@scan
def _sweep(tx: Tx, before: int) -> int:
    rows = tx.all(OLD, before=before)
    for row in rows:
        tx.remove(t.SESSION, row.id)
    return len(rows)
