"""``greatseal log verify``: a whole log against itself and against the database, without the network.

From the entries every tile and the root are computed anew. So each of these is found: an entry that was changed, a tile that is not its
entries', a head that is not its tiles', a checkpoint of another tree, a certificate that is not its entry.
"""

from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
from sqlalchemy import select

from greatseal import der
from greatseal.api.issuance import Issuance
from greatseal.api.log import LogCorrupt
from greatseal.api.store import Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_mtc import tiles
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import DIALECTS
from greatseal_mtc.note import BadNote, Note, NoteKey, open_note
from greatseal_mtc.tables import checkpoint, entry, landmark
from greatseal_mtc.tiles import FULL, Edge, TileName
from greatseal_mtc.views import LogView
from greatseal_mtc.wire import NULL_ENTRY, entry_of_tbs, parse_bundle

__all__ = ["Checked", "Checking", "Wrong"]

_ROWS = (
    select(entry.c.certificate_id, entry.c.position)
    .where(
        entry.c.ca_id == param("ca_id"),
        entry.c.log_number == param("log_number"),
        entry.c.position >= param("start"),
        entry.c.position < param("end"),
    )
    .order_by(entry.c.position)
)
_BEYOND = (
    select(entry.c.position)
    .where(entry.c.ca_id == param("ca_id"), entry.c.log_number == param("log_number"), entry.c.position >= param("size"))
    .order_by(entry.c.position)
    .limit(1)
)
_CHECKPOINTS = (
    select(checkpoint.c.tree_size, checkpoint.c.root_hash, checkpoint.c.note)
    .where(checkpoint.c.ca_id == param("ca_id"), checkpoint.c.log_number == param("log_number"))
    .order_by(checkpoint.c.tree_size)
)
_LANDMARKS = (
    select(landmark.c.sequence_no, landmark.c.tree_size)
    .where(landmark.c.ca_id == param("ca_id"), landmark.c.log_number == param("log_number"), landmark.c.tree_size > param("size"))
    .limit(1)
)


class Wrong(Exception):
    """The first thing that is wrong; ``index`` is that of the first entry which it concerns, where it concerns one."""

    def __init__(self, words: str, index: int | None = None) -> None:
        super().__init__(words)
        self.index = index


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at: entries, those with their certificate in the database, and checkpoints."""

    entries: int
    certificates: int
    checkpoints: int


class Checking:
    """The check of one log of a CA, as it is at this moment."""

    def __init__(self, host: Host, issuance: Issuance, ca_id: str, view: LogView, keys: Sequence[NoteKey]) -> None:
        self._host = host
        self._issuance = issuance
        self._ca_id = ca_id
        self._view = view
        self._keys = keys
        self._anchor = TrustAnchorId(view.made.anchor)
        self._dialect = DIALECTS[view.made.dialect]

    async def run(self, progress: Callable[[int], None]) -> Checked:
        """Check all of it, telling how many entries more were checked. Raises Wrong for the first that is."""
        view, edge, certificates = self._view, Edge(), 0
        async for start, entries in self._bundles():
            await self._leaves(start, entries)
            edge, completed = tiles.append(view.hash, msgspec.structs.replace(edge, bundle=b""), entries)
            await self._tiles(completed)
            certificates += await self._certificates(start, entries)
            progress(len(entries))
        if edge.root(view.hash) != view.root:
            raise Wrong(f"the head of the log says another root than its {view.size} entries make")
        await self._rows()
        return Checked(entries=view.size, certificates=certificates, checkpoints=await self._checkpoints())

    async def _bundles(self) -> AsyncIterator[tuple[int, list[bytes]]]:
        size = self._view.size
        for start in range(0, size, FULL):
            width = min(FULL, size - start)
            name = TileName(None, start >> 8, width)
            try:
                content = await self._view.read(name)
                entries = parse_bundle(content or b"", width)
            except (LogCorrupt, ValueError) as error:
                raise Wrong(f"{name.path} cannot be read: {error}", start) from None
            yield start, entries

    async def _leaves(self, start: int, entries: Sequence[bytes]) -> None:
        """The entries against the hashes of the tree."""
        if start == 0 and entries[0] != NULL_ENTRY:
            raise Wrong("the entry 0 is not the null entry", 0)
        view, name = self._view, TileName(0, start >> 8, len(entries))
        try:
            tile = await view.read(name)
        except LogCorrupt as error:
            raise Wrong(f"{name.path} cannot be read: {error}", start) from None
        size = view.hash.size
        for at, one in enumerate(entries):
            if view.hash.leaf(one) != (tile or b"")[at * size : (at + 1) * size]:
                raise Wrong(f"the entry {start + at} is not the one whose hash is in {name.path}", start + at)

    async def _tiles(self, completed: dict[str, bytes]) -> None:
        """The full tiles above these entries."""
        for path, expected in completed.items():
            name = tiles.parse_path(path)
            if name.level in {None, 0}:
                continue
            try:
                found = await self._view.read(name)
            except LogCorrupt as error:
                raise Wrong(f"{path} cannot be read: {error}", _first(name)) from None
            if found != expected:
                size = self._view.hash.size
                at = next((at for at in range(FULL) if (found or b"")[at * size :][:size] != expected[at * size :][:size]), 0)
                raise Wrong(f"{path} is not made of the tiles below it", _first(name, at))

    async def _certificates(self, start: int, entries: Sequence[bytes]) -> int:
        """The certificates of the database against the entries: how many there are."""
        rows = await self._host.db.read(_rows_of, self._ca_id, self._view.made.number, start, start + len(entries))
        known = 0
        for row in rows:
            found = await self._issuance.certificate(row.certificate_id)
            if found is None or found.der is None:
                continue
            expected = entry_of_tbs(self._dialect, self._anchor, self._view.hash, der.children(found.der)[0])
            if entries[row.position - start] != expected:
                raise Wrong(f"the entry {row.position} is not that of the certificate {row.certificate_id}", row.position)
            known += 1
        # The null entry has no row, and the last batch may be about to get its rows.
        recorded = range(max(start, 1), min(start + len(entries), self._view.tree.state.last.start))
        if missing := set(recorded).difference(row.position for row in rows):
            raise Wrong("the database does not know every entry: an older copy of it was put back", min(missing))
        return known

    async def _rows(self) -> None:
        """Nothing that the database knows of the log lies behind its end."""
        beyond, marked = await self._host.db.read(_beyond, self._ca_id, self._view.made.number, self._view.size)
        if beyond is not None:
            raise Wrong(f"the log has {self._view.size} entries, and the database knows a certificate with the index {beyond}", beyond)
        if marked is not None:
            raise Wrong(f"the log has {self._view.size} entries, and the landmark {marked.sequence_no} has {marked.tree_size}")

    async def _checkpoints(self) -> int:
        """Each stored checkpoint is of this tree, and signed by the log."""
        rows = await self._host.db.read(_checkpoints_of, self._ca_id, self._view.made.number)
        for row in rows:
            size = row.tree_size
            if size > self._view.size:
                raise Wrong(f"the log has {self._view.size} entries, and a checkpoint of {size} was signed")
            if await self._view.root_at(size) != bytes(row.root_hash):
                raise Wrong(f"the checkpoint of {size} entries is of another tree than the log has: the log forked")
            try:
                found, _ = open_note(Note.parse(bytes(row.note)), self._keys)
            except BadNote as error:
                raise Wrong(f"the note of the checkpoint of {size} entries is none to go by: {error}") from None
            if (found.size, found.root) != (size, bytes(row.root_hash)):
                raise Wrong(f"the note of the checkpoint of {size} entries says another tree")
        return len(rows)


def _first(name: TileName, at: int = 0) -> int:
    """The first entry below a hash of a tile."""
    return (name.number * FULL + at) << 8 * (name.level or 0)


@scan
def _rows_of(tx: Tx, ca_id: str, log_number: int, start: int, end: int) -> list[Row]:
    return tx.all(_ROWS, ca_id=ca_id, log_number=log_number, start=start, end=end)


@scan
def _beyond(tx: Tx, ca_id: str, log_number: int, size: int) -> tuple[int | None, Row | None]:
    place = {"ca_id": ca_id, "log_number": log_number, "size": size}
    row = tx.one(_BEYOND, **place)
    return None if row is None else int(row.position), tx.one(_LANDMARKS, **place)


@scan
def _checkpoints_of(tx: Tx, ca_id: str, log_number: int) -> list[Row]:
    return tx.all(_CHECKPOINTS, ca_id=ca_id, log_number=log_number)
