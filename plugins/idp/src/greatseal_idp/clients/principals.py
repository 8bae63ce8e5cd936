"""Which clients a Kerberos principal may be: by their exact principals from the index, by their patterns from memory."""

from collections.abc import Sequence

from sqlalchemy import select

from greatseal.api.store import Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.principals import Pattern
from greatseal_idp import tables as t

KERBEROS = "kerberos_client_auth"
WANTED = 2
"""One more than the only one."""

_EXACT = select(t.client.c.client_id).where(t.client.c.kerberos_principal == param("principal")).limit(WANTED)
_PATTERNS = (
    select(t.client.c.client_id, t.client.c.kerberos_principal_pattern)
    .where(t.client.c.kerberos_principal_pattern.is_not(None))
    .order_by(t.client.c.client_id)
)


class Principals:
    """The registered clients by their principals."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._patterns = host.changes.snapshot([t.CLIENT.name], _patterns)

    async def clients_of(self, principal: str) -> Sequence[str]:
        """The ids of clients with exactly this principal, else of those whose pattern it fits; two at most."""
        if exact := await self._host.db.read(_exact, principal):
            return exact
        return [client_id for client_id, pattern in await self._patterns.get() if pattern.matches(principal)][:WANTED]


def _exact(tx: Tx, principal: str) -> list[str]:
    return [row.client_id for row in tx.all(_EXACT, principal=principal)]


@scan
def _patterns(tx: Tx) -> list[tuple[str, Pattern]]:
    return [(row.client_id, Pattern(row.kerberos_principal_pattern)) for row in tx.all(_PATTERNS)]
