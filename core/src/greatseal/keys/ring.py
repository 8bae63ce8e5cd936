"""Key rings: the signing keys of each purpose, sealed in the database and held as a snapshot."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
import structlog
from sqlalchemy import select

from greatseal.api.keys import KeyInfo, KeyState, KeyStore, Signer, WithKey, in_store
from greatseal.api.problems import Internal, StartProblem, Unavailable
from greatseal.api.store import Database, Row, Tx
from greatseal.db.core_tables import KEYS, key
from greatseal.db.tables import param
from greatseal.host import Blocking, Changes, Clock
from greatseal.keys.cluster import ClusterKey
from greatseal.keys.sealed import Sealer
from greatseal.keys.software import (
    KEY_TYPES,
    MAKING,
    SoftwareSigner,
    info_of,
    private_from_der,
    private_to_der,
    signer_from_file,
)
from greatseal.keys.stores import KeyStores, Recorded

_Held = SoftwareSigner | Recorded

_LIVE = select(key).where(key.c.state != "revoked").order_by(key.c.created_at.desc(), key.c.kid)
_ACTIVE = select(key.c.kid).where(key.c.purpose == param("purpose"), key.c.state == "active")
_OF_PURPOSE = select(key).where(key.c.kid == param("kid"), key.c.purpose == param("purpose"))
_TO_DESTROY = select(key.c.kid, key.c.store).where(key.c.state == "revoked", key.c.store.is_not(None))
_TABLE, _FIELD = key.name, key.c.private.name


class KeyRings:
    """All rings of this node (:class:`greatseal.api.keys.Keys`). :meth:`load` once before use, :meth:`follow` for later changes."""

    def __init__(
        self,
        db: Database,
        cluster_key: ClusterKey,
        clock: Clock,
        log: structlog.stdlib.BoundLogger,
        *,
        blocking: Blocking,
        stores: Mapping[str, KeyStore] = MappingProxyType({}),
    ) -> None:
        self.db = db
        self.clock = clock
        self.log = log
        self.blocking = blocking
        self.sealer = Sealer(cluster_key)
        self.stores = KeyStores(stores)
        self._signers: Mapping[str, tuple[_Held, ...]] = MappingProxyType({})
        self._rings: dict[str, PurposeRing] = {}
        self._reading = asyncio.Lock()
        self._wanted = self._seen = 0
        self._catching_up: asyncio.Task[None] | None = None

    def ring(self, purpose: str) -> "PurposeRing":
        """See :meth:`greatseal.api.keys.Keys.ring`."""
        return self._rings.setdefault(purpose, PurposeRing(self, purpose))

    def signers(self, purpose: str) -> tuple[_Held, ...]:
        """The keys of the snapshot that are not revoked, newest first."""
        return self._signers.get(purpose, ())

    def seal(self, secret: bytes, *, table: str, row: str, field: str) -> bytes:
        """See :meth:`greatseal.api.keys.Keys.seal`."""
        return self.sealer.seal(secret, table=table, row=row, field=field)

    def open(self, sealed: bytes, *, table: str, row: str, field: str) -> bytes:
        """See :meth:`greatseal.api.keys.Keys.open`."""
        return self.sealer.open(sealed, table=table, row=row, field=field)

    def from_file(self, path: Path, *, purpose: str, password: bytes | None = None) -> Signer:
        """See :meth:`greatseal.api.keys.Keys.from_file`."""
        return signer_from_file(path, password=password, purpose=purpose, blocking=self.blocking)

    async def signer(self, reference: str, *, purpose: str, password: bytes | None = None) -> Signer:
        """See :meth:`greatseal.api.keys.Keys.signer`."""
        stored = in_store(reference)
        if stored is None:
            return self.from_file(Path(reference), purpose=purpose, password=password)
        if password is not None:
            raise StartProblem(f"{reference}: the key is in a key store, which asks for no password here")
        return await self.stores.find(*stored, purpose=purpose)

    async def load(self) -> None:
        """Read the snapshot as it is now. Raises StartProblem when a key was sealed under another cluster key."""
        self._wanted += 1
        await self._catch_up()

    def follow(self, changes: Changes) -> None:
        """Read again when a key changes, whoever changed it."""
        changes.subscribe(KEYS.name, self._changed)

    def _changed(self, _id: str) -> None:
        self._wanted += 1
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = asyncio.get_running_loop().create_task(self._catch_up_logged())

    async def destroy_revoked(self) -> None:
        """Destroy the revoked keys that are still in key stores; those of a store that cannot be reached are left for the next start."""
        for row in await self.db.read(_to_destroy):
            try:
                await self.stores.destroy(row.store, row.kid)
            except Unavailable as problem:
                self.log.warning("a revoked key is still in its key store until a restart", kid=row.kid, cause=problem.cause)
            else:
                await self.db.write(_destroyed, row.kid)

    async def _catch_up_logged(self) -> None:
        try:
            await self._catch_up()
        except Exception:
            self.log.exception("the key rings could not be read again")

    async def _catch_up(self) -> None:
        async with self._reading:
            while self._seen < self._wanted:
                wanted = self._wanted
                self._signers = await self._opened(await self.db.read(_live_keys))
                self._seen = wanted

    async def _opened(self, rows: list[Row]) -> Mapping[str, tuple[_Held, ...]]:
        known = {signer.info.kid: signer for signers in self._signers.values() for signer in signers}
        found: dict[str, list[_Held]] = {}
        for row in rows:
            info = _info(row)
            before = known.get(info.kid)
            signer: _Held
            if before is not None:
                signer = before if before.info == info else before.with_info(info)
            elif info.store is not None:
                signer = await self.stores.load(info)
            else:
                signer = self._open_key(info, bytes(row.private))
            found.setdefault(info.purpose, []).append(signer)
        return MappingProxyType({purpose: tuple(signers) for purpose, signers in found.items()})

    def _open_key(self, info: KeyInfo, sealed: bytes) -> SoftwareSigner:
        try:
            der = self.open(sealed, table=_TABLE, row=info.kid, field=_FIELD)
        except Internal as error:
            raise StartProblem(
                f"the key {info.kid} of {info.purpose} cannot be opened: {error.cause}; put back the cluster key file of this database"
            ) from None
        return SoftwareSigner(private_from_der(der), info, self.blocking)


class PurposeRing:
    """The keys of one purpose (:class:`greatseal.api.keys.KeyRing`): a view of the snapshot."""

    def __init__(self, rings: KeyRings, purpose: str) -> None:
        self._rings = rings
        self.purpose = purpose

    @property
    def active(self) -> _Held | None:
        """The key that signs; None while there is none."""
        return next((signer for signer in self.all() if signer.info.state == "active"), None)

    def all(self) -> tuple[_Held, ...]:
        """Every key that is not revoked, newest first."""
        return self._rings.signers(self.purpose)

    async def make(self, algorithm: str, *, store: str | None = None, also: WithKey | None = None) -> _Held:
        """See :meth:`greatseal.api.keys.KeyRing.make`."""
        rings = self._rings
        if algorithm not in KEY_TYPES:
            raise ValueError(f"the key type {algorithm!r} is none of {', '.join(KEY_TYPES)}")
        if store is None:
            private = await rings.blocking.run(MAKING, KEY_TYPES[algorithm].make)
            made = info_of(private, purpose=self.purpose, created_at=rings.clock.now())
            sealed = rings.seal(private_to_der(private), table=_TABLE, row=made.kid, field=_FIELD)
        else:
            made = (await rings.stores.make(store, self.purpose, algorithm)).info
            sealed = None
        info = msgspec.structs.replace(made, purpose=self.purpose, state="active", created_at=rings.clock.now(), store=store)
        await rings.db.write(_record, info, sealed, also)
        await rings.load()
        return next(signer for signer in self.all() if signer.info.kid == info.kid)

    async def revoke(self, kid: str, *, also: WithKey | None = None) -> bool:
        """See :meth:`greatseal.api.keys.KeyRing.revoke`. Of a key in a store that cannot be reached now, the next start destroys it."""
        info = await self._rings.db.write(_revoke, self.purpose, kid, also)
        if info is None:
            return False
        await self._rings.load()
        if info.store is not None:
            await self._rings.destroy_revoked()
        return True


def _info(row: Row) -> KeyInfo:
    return KeyInfo(
        kid=row.kid,
        purpose=row.purpose,
        algorithm=row.algorithm,
        state=row.state,
        created_at=row.created_at,
        spki=bytes(row.spki),
        store=row.store,
    )


def _live_keys(tx: Tx) -> list[Row]:
    return tx.all(_LIVE)


def _record(tx: Tx, info: KeyInfo, sealed: bytes | None, also: WithKey | None) -> None:
    _retain_active(tx, info.purpose)
    record = msgspec.structs.asdict(info)
    tx.put(KEYS, record.pop("kid"), **record, private=sealed)
    if also is not None:
        also(tx, info)


def _retain_active(tx: Tx, purpose: str) -> None:
    retained: KeyState = "retained"
    for row in tx.all(_ACTIVE, purpose=purpose):
        tx.put(KEYS, row.kid, state=retained)


def _revoke(tx: Tx, purpose: str, kid: str, also: WithKey | None) -> KeyInfo | None:
    row = tx.one(_OF_PURPOSE, kid=kid, purpose=purpose)
    if row is None:
        return None
    revoked: KeyState = "revoked"
    tx.put(KEYS, kid, state=revoked, private=None)
    info = msgspec.structs.replace(_info(row), state=revoked)
    if also is not None:
        also(tx, info)
    return info


def _to_destroy(tx: Tx) -> list[Row]:
    return tx.all(_TO_DESTROY)


def _destroyed(tx: Tx, kid: str) -> None:
    tx.put(KEYS, kid, store=None)
