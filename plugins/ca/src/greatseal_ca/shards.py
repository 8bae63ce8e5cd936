"""Which list tells of a certificate when it is revoked: fixed when it is reserved, at most :data:`LIMIT` live ones on each (R120)."""

from sqlalchemy import func, select, update

from greatseal.api.issuance import SerialTaken
from greatseal.api.store import Refuse, Tx, scan
from greatseal.db.tables import insert_new, param
from greatseal_ca.pointers import FIRST
from greatseal_ca.tables import certificate, crl

LIMIT = 5_000
OPENED = "ca_crl"
"""The kind of change that tells of a new list: its id is the CA's and the number, joined by ``/``."""

_TAKE = (
    update(crl)
    .where(crl.c.ca_id == param("the_ca"), crl.c.shard == param("the_shard"), crl.c.kid == param("the_kid"), crl.c.used < param("limit"))
    .values(used=crl.c.used + 1)
)
_OPEN = insert_new(crl)
_OF_CA = select(crl.c.shard, crl.c.kid, crl.c.used).where(crl.c.ca_id == param("ca_id")).order_by(crl.c.shard)
_COUNT = select(func.count().label("live")).where(
    certificate.c.ca_id == param("ca_id"), certificate.c.crl_shard == param("shard"), certificate.c.not_after >= param("passed")
)
_SET = update(crl).where(crl.c.ca_id == param("the_ca"), crl.c.shard == param("the_shard")).values(used=param("used"))


class Shards:
    """The lists of every CA that have room. What is in memory may be behind, towards full; the rows decide."""

    def __init__(self) -> None:
        self.limit = LIMIT
        self._room: dict[str, dict[int, int]] = {}
        self._last: dict[str, int] = {}

    def open(self, tx: Tx, ca_id: str, kid: str) -> list[int]:
        """The lists that the key signs, one at least. What it may not sign any more are those of another key."""
        rows = tx.all(_OF_CA, ca_id=ca_id)
        of_key = {row.shard: row.used for row in rows if row.kid == kid and row.shard >= FIRST}
        last = max((row.shard for row in rows), default=FIRST - 1)
        if not of_key:
            last = max(last + 1, FIRST)
            self.add(tx, ca_id, last, kid, used=0)
            of_key[last] = 0
        self._room[ca_id], self._last[ca_id] = of_key, last
        return list(of_key)

    def of_key(self, tx: Tx, ca_id: str, kid: str) -> list[int]:
        """The lists that a key signed, which may be one that signs no certificates any more."""
        return [row.shard for row in tx.all(_OF_CA, ca_id=ca_id) if row.kid == kid and row.shard >= FIRST]

    def choose(self, ca_id: str) -> int | None:
        """A list with room, or the number of the next one; None for a CA that has none."""
        room = self._room.get(ca_id)
        if room is None:
            return None
        while room:
            shard, used = next(iter(room.items()))
            if used < self.limit:
                room[shard] = used + 1
                return shard
            del room[shard]
        self._last[ca_id] += 1
        room[self._last[ca_id]] = 1
        return self._last[ca_id]

    def take(self, tx: Tx, ca_id: str, shard: int, kid: str) -> None:
        """In the transaction of the reservation. Raises ``Refuse(SerialTaken())`` where the list is full: compose again."""
        if tx.count(_TAKE, the_ca=ca_id, the_shard=shard, the_kid=kid, limit=self.limit):
            return
        if not self.add(tx, ca_id, shard, kid, used=1):
            self._room[ca_id].pop(shard, None)
            raise Refuse(SerialTaken("the revocation list of the certificate is full"))
        tx.changed(OPENED, f"{ca_id}/{shard}")

    def add(self, tx: Tx, ca_id: str, shard: int, kid: str, *, used: int) -> bool:
        """A new list; False when there is one of that number."""
        return tx.count(_OPEN, ca_id=ca_id, shard=shard, kid=kid, used=used, revision=0, number=0, made_revision=-1) > 0

    @scan
    def recount(self, tx: Tx, ca_id: str, shard: int, passed: int) -> int:
        """How many certificates of a list have not expired, which makes room on it."""
        row = tx.one(_COUNT, ca_id=ca_id, shard=shard, passed=passed)
        assert row is not None
        tx.run(_SET, the_ca=ca_id, the_shard=shard, used=row.live)
        return int(row.live)

    def recounted(self, ca_id: str, shard: int, used: int) -> None:
        """What :meth:`recount` found, after its commit."""
        self._room[ca_id][shard] = used
