"""What ``greatseal doctor`` says of clients."""

from sqlalchemy import and_, func, or_, select

from greatseal.api.declarations import Check, CheckResult
from greatseal.api.store import Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.settings import OAuthSettings

NAMED = 5
_IS_SHORT = and_(
    t.client.c.secret_form != "sha256",  # noqa: S105  # how it is kept
    or_(t.client.c.secret_length.is_(None), t.client.c.secret_length < param("least")),
)
_HOW_MANY = select(func.count().label("count")).select_from(t.client).where(_IS_SHORT)
_SHORT = select(t.client.c.client_id).where(_IS_SHORT).order_by(t.client.c.client_id).limit(NAMED)


class ClientHealth:
    """Secrets that were chosen before there was a least length, or before it was raised: they go on working."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._least = host.settings(OAuthSettings).min_client_secret_length

    def checks(self) -> list[Check]:
        return [Check(name="client-secrets", run=self.run, ready=False)]

    async def run(self) -> CheckResult:
        """Which clients should get a new secret."""
        count, named = await self._host.db.read(_short, self._least)
        if not count:
            return CheckResult(ok=True, detail=f"every chosen client secret is known to have {self._least} characters or more")
        found = "1 client has a chosen secret" if count == 1 else f"{count} clients have a chosen secret"
        more = f" and {count - len(named)} more" if count > len(named) else ""
        return CheckResult(
            ok=False,
            detail=f"{found} that is shorter than {self._least} characters, or was stored before lengths were noted; give them new ones",
            cause=", ".join(named) + more,
        )


@scan
def _short(tx: Tx, least: int) -> tuple[int, list[str]]:
    counted = tx.one(_HOW_MANY, least=least)
    return (counted.count if counted else 0), [row.client_id for row in tx.all(_SHORT, least=least)]
