"""Key rings: the signing keys of each purpose, sealed in the database and held as a snapshot."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
import structlog
from sqlalchemy import select

from greatseal.api.keys import KeyInfo, KeyState, Signer, WithKey
from greatseal.api.problems import Internal, StartProblem
from greatseal.api.store import Database, Row, Tx
from greatseal.db.core_tables import KEYS, key
from greatseal.db.tables import param
from greatseal.host import Blocking, Changes, Clock
from greatseal.keys.cluster import ClusterKey
from greatseal.keys.sealed import Sealer
from greatseal.keys.software import (
    KEY_TYPES,
    POOL,
    SoftwareSigner,
    info_of,
    private_from_der,
    private_to_der,
    signer_from_file,
)

_LIVE = select(key).where(key.c.state != "revoked").order_by(key.c.created_at.desc(), key.c.kid)
_ACTIVE = select(key.c.kid).where(key.c.purpose == param("purpose"), key.c.state == "active")
_OF_PURPOSE = select(key).where(key.c.kid == param("kid"), key.c.purpose == param("purpose"))
_TABLE, _FIELD = key.name, key.c.private.name


class KeyRings:
    """All rings of this node (:class:`greatseal.api.keys.Keys`). :meth:`load` once before use, :meth:`follow` for later changes."""

    def __init__(
        self, db: Database, cluster_key: ClusterKey, clock: Clock, log: structlog.stdlib.BoundLogger, *, blocking: Blocking
    ) -> None:
        self.db = db
        self.clock = clock
        self.log = log
        self.blocking = blocking
        self.sealer = Sealer(cluster_key)
        self._signers: Mapping[str, tuple[SoftwareSigner, ...]] = MappingProxyType({})
        self._rings: dict[str, PurposeRing] = {}
        self._reading = asyncio.Lock()
        self._wanted = self._seen = 0
        self._catching_up: asyncio.Task[None] | None = None

    def ring(self, purpose: str) -> "PurposeRing":
        """See :meth:`greatseal.api.keys.Keys.ring`."""
        return self._rings.setdefault(purpose, PurposeRing(self, purpose))

    def signers(self, purpose: str) -> tuple[SoftwareSigner, ...]:
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

    async def _catch_up_logged(self) -> None:
        try:
            await self._catch_up()
        except Exception:
            self.log.exception("the key rings could not be read again")

    async def _catch_up(self) -> None:
        async with self._reading:
            while self._seen < self._wanted:
                wanted = self._wanted
                self._signers = self._opened(await self.db.read(_live_keys))
                self._seen = wanted

    def _opened(self, rows: list[Row]) -> Mapping[str, tuple[SoftwareSigner, ...]]:
        known = {signer.info.kid: signer for signers in self._signers.values() for signer in signers}
        found: dict[str, list[SoftwareSigner]] = {}
        for row in rows:
            info = _info(row)
            before = known.get(info.kid)
            if before is not None:
                signer = before if before.info == info else before.with_info(info)
            elif row.private is None:
                continue  # its private half is in a KeyStore
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
    def active(self) -> SoftwareSigner | None:
        """The key that signs; None while there is none."""
        return next((signer for signer in self.all() if signer.info.state == "active"), None)

    def all(self) -> tuple[SoftwareSigner, ...]:
        """Every key that is not revoked, newest first."""
        return self._rings.signers(self.purpose)

    async def make(self, algorithm: str, *, also: WithKey | None = None) -> SoftwareSigner:
        """See :meth:`greatseal.api.keys.KeyRing.make`. Raises ValueError for an unknown key type."""
        rings = self._rings
        if algorithm not in KEY_TYPES:
            raise ValueError(f"the key type {algorithm!r} is none of {', '.join(KEY_TYPES)}")
        private = await rings.blocking.run(POOL, KEY_TYPES[algorithm].make)
        info = info_of(private, purpose=self.purpose, created_at=rings.clock.now())
        sealed = rings.seal(private_to_der(private), table=_TABLE, row=info.kid, field=_FIELD)
        await rings.db.write(_activate, info, sealed, also)
        await rings.load()
        return next(signer for signer in self.all() if signer.info.kid == info.kid)

    async def revoke(self, kid: str, *, also: WithKey | None = None) -> bool:
        """See :meth:`greatseal.api.keys.KeyRing.revoke`. The private half is destroyed with it."""
        if not await self._rings.db.write(_revoke, self.purpose, kid, also):
            return False
        await self._rings.load()
        return True


def _info(row: Row) -> KeyInfo:
    return KeyInfo(
        kid=row.kid,
        purpose=row.purpose,
        algorithm=row.algorithm,
        state=row.state,
        created_at=row.created_at,
        spki=bytes(row.spki),
    )


def _live_keys(tx: Tx) -> list[Row]:
    return tx.all(_LIVE)


def _activate(tx: Tx, info: KeyInfo, sealed: bytes, also: WithKey | None) -> None:
    retained: KeyState = "retained"
    for row in tx.all(_ACTIVE, purpose=info.purpose):
        tx.put(KEYS, row.kid, state=retained)
    record = msgspec.structs.asdict(info)
    tx.put(KEYS, record.pop("kid"), **record, private=sealed)
    if also is not None:
        also(tx, info)


def _revoke(tx: Tx, purpose: str, kid: str, also: WithKey | None) -> bool:
    row = tx.one(_OF_PURPOSE, kid=kid, purpose=purpose)
    if row is None:
        return False
    revoked: KeyState = "revoked"
    tx.put(KEYS, kid, state=revoked, private=None)
    if also is not None:
        also(tx, msgspec.structs.replace(_info(row), state=revoked))
    return True
