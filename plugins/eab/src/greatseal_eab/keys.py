"""The keys that accounts can be bound to, each good for one account."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec
from sqlalchemy import delete, func, select

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.problems import Conflict, NotFound
from greatseal.api.store import Refuse, Row, Tx, operation, scan
from greatseal.db.tables import insert_new, param
from greatseal.host import Host
from greatseal_eab import tables as t
from greatseal_eab.derivation import Credentials, derive

T = TypeVar("T")
K = TypeVar("K", bound="Kid")

CONFIGURATION = "configuration"
"""Who made a key that the configuration names, for the audit log."""
BITE = 100
"""Configured keys that one transaction stores."""

_FIND = select(t.key).where(t.key.c.kid == param("kid"))
_USED = select(t.use.c.kid).where(t.use.c.kid == param("kid"))
_USE = insert_new(t.use)
_FORGET_USE = delete(t.use).where(t.use.c.kid == param("kid"))
_PAGE = select(t.key).order_by(t.key.c.created_at, t.key.c.kid).limit(param("limit")).offset(param("offset"))
_COUNT = select(func.count().label("total"), func.count(t.key.c.used_at).label("used")).select_from(t.key)
_LISTINGS = {None: _PAGE, True: _PAGE.where(t.key.c.used_at.is_not(None)), False: _PAGE.where(t.key.c.used_at.is_(None))}


class EabKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret. Moments are microseconds; ``used_at`` None is available, ``profile_grants`` None no restriction."""

    kid: str
    created_at: int
    used_at: int | None
    profile_grants: tuple[str, ...] | None
    bound_principal: str | None


class Kid(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the node that decides about a key."""

    kid: str


class NewKey(Kid, frozen=True, kw_only=True):
    """A key to be stored; ``hmac_key_b64u`` is canonical. ``by`` is who makes it, for the audit log."""

    hmac_key_b64u: str
    by: str
    profile_grants: tuple[str, ...] | None = None
    bound_principal: str | None = None


class OldKey(Kid, frozen=True, kw_only=True):
    """A key to be deleted; ``by`` is who does it."""

    by: str


class Principal(Kid, frozen=True, kw_only=True):
    """Whose credentials are derived; ``kid`` is the one that comes out."""

    name: str


class EabKeys:
    """Keys, made and used up. Whatever changes one runs on the node that its kid names."""

    def __init__(self, host: Host, configured: Mapping[str, str], master_secret: bytes | None) -> None:
        self._host = host
        self._configured = configured
        self._master_secret = master_secret
        self.create = self._decided("eab.create", self._create)
        """Store a :class:`NewKey`. Raises ``Refuse(Conflict)`` where the kid exists."""
        self.delete = self._decided("eab.delete", self._delete)
        """Delete the key of a :class:`OldKey`, a used one too. Raises ``Refuse(NotFound)``."""
        self.obtain = self._decided("eab.obtain", self._obtain)
        """The :class:`Credentials` of a :class:`Principal`; see :meth:`principal`. Raises ``Refuse(Conflict)`` when they were used."""

    @property
    def derives(self) -> bool:
        """Whether principals get credentials."""
        return self._master_secret is not None

    def owner(self, kid: str) -> str:
        """The label of the node that decides about the kid."""
        return self._host.handles.owner_of_key(f"eab:{kid}")

    def principal(self, name: str) -> Principal:
        """What :attr:`obtain` takes, for a principal with its realm."""
        return Principal(name=name, kid=self._derive(name).kid)

    def find(self, tx: Tx, kid: str) -> EabKey | None:
        """The key of that id."""
        row = tx.one(_FIND, kid=kid)
        return _key(row) if row else None

    @scan
    def listed(self, tx: Tx, used: bool | None, limit: int, offset: int) -> Sequence[EabKey]:
        """Keys in the order in which they were made: what is made meanwhile shifts no page."""
        return [_key(row) for row in tx.all(_LISTINGS[used], limit=limit, offset=offset)]

    async def count(self) -> Mapping[str, int]:
        """How many there are, used and not."""
        total, used = await self._host.db.read(_counted)
        return {"total": total, "used": used, "unused": total - used}

    def secret(self, tx: Tx, kid: str) -> str:
        """The HMAC key of a key that exists, as it is stored."""
        row = tx.one(_FIND, kid=kid)
        assert row is not None  # it was found in this transaction
        return self._host.keys.open(row.hmac_key_b64u, table="eab_key", row=kid, field="hmac_key_b64u").decode()

    def use_up(self, tx: Tx, kid: str) -> None:
        """Consume a key for the account that this transaction makes. Raises ``Refuse(Conflict)`` when it was consumed meanwhile."""
        if not tx.count(_USE, kid=kid, used_at=tx.now):
            raise Refuse(Conflict("the key of this kid was used meanwhile, by another new account"))
        faults.point("eab.used")
        tx.put(t.KEY, kid, used_at=tx.now)
        tx.audit(AuditEvent(event_type="eab.use", service="ca", sub=kid))

    async def store_configured(self) -> None:
        """Store what the configuration names and nobody has: each node those that it decides about."""
        absent = await self._host.db.read(self._absent)
        for start in range(0, len(absent), BITE):
            await self._host.db.write(self._store_absent, absent[start : start + BITE])

    @scan
    def _absent(self, tx: Tx) -> list[str]:
        return [kid for kid in self._configured if self.owner(kid) == self._host.node_id and self._is_absent(tx, kid)]

    def _is_absent(self, tx: Tx, kid: str) -> bool:
        """Neither there nor used once: a key that was used and then deleted does not come back by a restart."""
        return tx.one(_FIND, kid=kid) is None and tx.one(_USED, kid=kid) is None

    @scan
    def _store_absent(self, tx: Tx, kids: Sequence[str]) -> None:
        for kid in kids:
            if self._is_absent(tx, kid):
                self._put(tx, NewKey(kid=kid, hmac_key_b64u=self._configured[kid], by=CONFIGURATION))

    def _decided(self, name: str, fn: Callable[[Tx, K], T]) -> Callable[[Tx, K], T]:
        """The function as an operation of the node that the kid of its argument names."""

        def owner(about: K) -> str:
            return self.owner(about.kid)

        return operation(name, owner)(fn)

    def _create(self, tx: Tx, new: NewKey) -> EabKey:
        if self.find(tx, new.kid) is not None:
            raise Refuse(Conflict("a key of this kid exists; delete it first, or choose another kid"))
        tx.run(_FORGET_USE, kid=new.kid)
        return self._put(tx, new)

    def _delete(self, tx: Tx, name: OldKey) -> EabKey:
        found = self.find(tx, name.kid)
        if found is None:
            raise Refuse(NotFound("there is no key of this kid"))
        tx.remove(t.KEY, name.kid)
        if name.kid not in self._configured:
            tx.run(_FORGET_USE, kid=name.kid)
        tx.audit(AuditEvent(event_type="eab.delete", service="ca", sub=name.kid, principal=name.by))
        return found

    def _obtain(self, tx: Tx, principal: Principal) -> Credentials:
        found, credentials = self.find(tx, principal.kid), self._derive(principal.name)
        if found is not None and found.used_at is not None:
            problem = Conflict("these credentials were used; an operator can delete their key, so that they are good once more")
            raise Refuse(problem, [_obtained(principal, "failure")])
        if found is None:
            new = NewKey(kid=credentials.kid, hmac_key_b64u=credentials.hmac_key, by=principal.name, bound_principal=principal.name)
            self._create(tx, new)
        tx.audit(_obtained(principal, "success"))
        return credentials

    def _put(self, tx: Tx, new: NewKey) -> EabKey:
        sealed = self._host.keys.seal(new.hmac_key_b64u.encode(), table="eab_key", row=new.kid, field="hmac_key_b64u")
        grants = msgspec.json.encode(new.profile_grants).decode() if new.profile_grants else None
        tx.put(
            t.KEY,
            new.kid,
            hmac_key_b64u=sealed,
            created_at=tx.now,
            used_at=None,
            profile_grants=grants,
            bound_principal=new.bound_principal,
        )
        tx.audit(AuditEvent(event_type="eab.create", service="ca", sub=new.kid, principal=new.by))
        made = self.find(tx, new.kid)
        assert made is not None  # put just now
        return made

    def _derive(self, name: str) -> Credentials:
        assert self._master_secret is not None  # asked by whoever saw that it derives
        return derive(self._master_secret, name)


@scan
def _counted(tx: Tx) -> tuple[int, int]:
    row = tx.one(_COUNT)
    assert row is not None  # an aggregate has a row
    return row.total, row.used


def _obtained(principal: Principal, outcome: Literal["success", "failure"]) -> AuditEvent:
    return AuditEvent(event_type="eab.obtain", service="ca", outcome=outcome, sub=principal.kid, principal=principal.name)


def _key(row: Row) -> EabKey:
    return EabKey(
        kid=row.kid,
        created_at=row.created_at,
        used_at=row.used_at,
        profile_grants=None if row.profile_grants is None else msgspec.json.decode(row.profile_grants, type=tuple[str, ...]),
        bound_principal=row.bound_principal,
    )
