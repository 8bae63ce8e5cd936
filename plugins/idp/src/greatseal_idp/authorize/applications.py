"""The applications that a person is connected to: by what they allowed, and by refresh tokens that go on being good."""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import func, select

from greatseal.api.clients import Clients
from greatseal.api.lists import Page, moment_key
from greatseal.api.store import Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.authorize.consents import Consent, Consents, consent_id
from greatseal_idp.clients.known import known_now
from greatseal_idp.scopes import Scopes
from greatseal_idp.token.endings import IS_OVER

MOST = 500
"""Applications and sets of scopes that families are looked at for: a person has a handful."""

_FAMILIES = (
    select(
        t.family.c.client_id,
        t.family.c.scopes,
        func.min(t.family.c.created_at).label("since"),
        func.max(t.family.c.rotated_at).label("used"),
    )
    .where(
        t.family.c.subject == param("subject"),
        t.family.c.revoked_at.is_(None),
        t.family.c.expires_at > param("moment"),
        t.family.c.idle_expires_at > param("moment"),
        ~IS_OVER,
    )
    .group_by(t.family.c.client_id, t.family.c.scopes)
    .order_by(t.family.c.client_id)
    .limit(MOST)
)
_ALLOWED = select(t.consent.c.id).where(t.consent.c.id == param("consent"))


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """What the person is shown of one. Moments are microseconds; ``may`` is in the words of the consent page.

    ``used_at`` is when it last took new tokens; None where it holds none that outlive an hour.
    """

    client_id: str
    client_name: str
    may: tuple[str, ...]
    since: int
    used_at: int | None


class _Held(msgspec.Struct, kw_only=True):
    """The live families of a client."""

    scopes: set[str]
    since: int
    used: int
    asked: bool = True
    """Whether there is a consent too."""


class Applications:
    """Lists them; :meth:`Consents.withdraw` disconnects one."""

    def __init__(self, host: Host, consents: Consents, clients: Clients, scopes: Scopes) -> None:
        self._host = host
        self._consents = consents
        self._clients = clients
        self._scopes = scopes

    async def of(self, subject: str, page: Page) -> tuple[list[Application], str | None]:
        """A page of them, and the key of the next one: what was allowed, oldest first, and before it what nobody had to be asked for."""
        consents = await self._consents.of(subject, page.moment(), page.wanted)
        held = await self._host.db.read(_families, subject)
        shown, last = consents[: page.limit], consents[page.limit - 1] if len(consents) > page.limit else None
        known = {one.name: one.description or one.name for one in (await self._scopes.all()).values()}
        unasked = [] if page.after else [client_id for client_id, one in held.items() if not one.asked]
        applications = [
            *[await self._application(client_id, None, held, known) for client_id in unasked],
            *[await self._application(one.client_id, one, held, known) for one in shown],
        ]
        return applications, moment_key(last.granted_at, last.client_id) if last is not None else None

    async def _application(
        self, client_id: str, consent: Consent | None, held: Mapping[str, _Held], known: Mapping[str, str]
    ) -> Application:
        client = await known_now(self._clients, client_id)
        family = held.get(client_id)
        scopes = consent.named if consent is not None else sorted(family.scopes if family is not None else ())
        since = [*([consent.granted_at] if consent is not None else []), *([family.since] if family is not None else [])]
        return Application(
            client_id=client_id,
            client_name=(client.client_name if client is not None else "") or client_id,
            may=tuple(known.get(name, name) for name in scopes),
            since=min(since),
            used_at=None if family is None else family.used,
        )


@scan
def _families(tx: Tx, subject: str) -> Mapping[str, _Held]:
    found: dict[str, _Held] = {}
    for row in tx.all(_FAMILIES, subject=subject, moment=tx.now):
        scopes: Sequence[str] = msgspec.json.decode(row.scopes)
        one = found.setdefault(row.client_id, _Held(scopes=set(), since=row.since, used=row.used))
        one.scopes.update(scopes)
        one.since, one.used = min(one.since, row.since), max(one.used, row.used)
    for client_id, one in found.items():
        one.asked = tx.one(_ALLOWED, consent=consent_id(subject, client_id)) is not None
    return found
