"""What the head of a log says besides size and root: how the log was made, its right edge, and what its last commits left to do."""

import msgspec

from greatseal.api.log import LogCorrupt, LogHead
from greatseal_mtc.hashes import HASHES, Hash
from greatseal_mtc.tiles import FULL, Edge, TileName, parse_path, root_of

__all__ = ["OTHER_DATABASE", "RECOVER", "Batch", "Made", "State", "Tree", "entries_of", "is_full", "made_otherwise", "staged_name"]

RECOVER = "put back the whole log, or open the next log number with 'greatseal log recover'"
"""What to do with a log that is not what it was."""
OTHER_DATABASE = "put back the database of the log's time, or open the next log number with 'greatseal log recover'"
"""What to do with a log that is newer than the database."""


class Made(msgspec.Struct, frozen=True, array_like=True):
    """How a log was made. It stays so: each of these is in the hashes, or in the numbers of the certificates.

    ``hash`` is a name of :data:`greatseal_mtc.hashes.HASHES`, ``dialect`` that of a dialect, ``number`` that of the log, ``anchor`` the
    trust anchor ID of the CA in its ASCII form.
    """

    hash: str
    dialect: str
    number: int
    anchor: str


KEYS = {"hash": "hash_alg", "dialect": "dialect", "number": "log_number", "anchor": "trust_anchor_id"}
"""Where the configuration says how."""


def made_otherwise(name: str, found: Made, wanted: Made) -> list[str]:
    """How a log that is there differs from the configuration, a line for each."""
    return [
        f"log {name} was made with {key} {getattr(found, field)!r}, the configuration says {getattr(wanted, field)!r}: "
        "a log keeps what it was made with; set it back, or open the next log number with 'greatseal log recover'"
        for field, key in KEYS.items()
        if getattr(found, field) != getattr(wanted, field)
    ]


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Entries that were committed together, from ``start`` on: the ids that they were appended with, in order."""

    start: int
    ids: tuple[str, ...]

    @property
    def end(self) -> int:
        """Behind the last one."""
        return self.start + len(self.ids)


class State(msgspec.Struct, frozen=True, array_like=True):
    """The ``edge`` of a :class:`greatseal.api.log.LogHead`."""

    made: Made
    edge: bytes
    """:meth:`greatseal_mtc.tiles.Edge.encode`: hashes alone."""
    last: Batch
    """Whether its rows were written, a start has to look."""
    staged: tuple[int, ...] = ()
    """Where the objects begin that hold the entries of the partial bundle."""
    partials: tuple[str, ...] = ()
    """The partial tiles and bundles of published checkpoints: their full ones are not there."""
    superseded: tuple[str, ...] = ()
    """Objects that are to be discarded."""

    def encode(self) -> bytes:
        """For the head."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, head: LogHead) -> "State":
        """That of a head. Raises LogCorrupt."""
        try:
            return msgspec.msgpack.decode(head.edge, type=cls)
        except msgspec.DecodeError as error:
            raise LogCorrupt(f"the head of the log, at size {head.size}, cannot be read: {error}") from error


class Tree(msgspec.Struct, frozen=True):
    """A log at one moment. Its edge has the hashes, and its partial bundle where it is known."""

    head: LogHead
    state: State
    edge: Edge
    hash: Hash
    peaks: tuple[bytes, ...] = ()
    """:meth:`greatseal_mtc.tiles.Edge.peaks`."""

    @property
    def size(self) -> int:
        """Entries."""
        return self.head.size

    @classmethod
    def of(cls, head: LogHead, bundle: bytes = b"") -> "Tree":
        """What a head says. Raises LogCorrupt."""
        state = State.decode(head)
        try:
            hash = HASHES[state.made.hash]
            edge = Edge.decode(hash, state.edge, bundle)
        except (KeyError, ValueError) as error:
            raise LogCorrupt(f"the head of the log, at size {head.size}, cannot be read: {error}") from error
        peaks = edge.peaks(hash)
        if edge.size != head.size or root_of(hash, peaks) != head.root:
            raise LogCorrupt(f"the head of the log says size {head.size}, and its edge has another size or root")
        return cls(head, state, edge, hash, peaks)

    def grown(self, edge: Edge, state: State) -> "Tree":
        """The log with that edge, of which this one is the beginning, and with that state."""
        peaks = edge.grown_peaks(self.hash, self.edge, self.peaks)
        head = LogHead(size=edge.size, root=root_of(self.hash, peaks), edge=state.encode())
        return Tree(head, state, edge, self.hash, peaks)

    def part(self, name: TileName) -> bytes | None:
        """A partial tile, from the edge; None when it is not of the right edge, or wider."""
        if name.level is None or name.level >= len(self.edge.levels) or name.number != self.size >> 8 * (name.level + 1):
            return None
        wanted = name.width * self.hash.size
        hashes = self.edge.levels[name.level]
        return hashes[:wanted] if len(hashes) >= wanted else None

    def is_full(self, name: TileName) -> bool:
        """Whether the full tile, or bundle, of that number is there."""
        return name.number < self.size >> 8 * ((name.level or 0) + 1)


def is_full(path: str, size: int) -> bool:
    """Whether a log of that size has the full tile, or bundle, of the number in the path."""
    name = parse_path(path)
    return name.number < size >> 8 * ((name.level or 0) + 1)


def staged_name(start: int) -> str:
    """The object with the entries from ``start`` on, up to the next one or the end."""
    return f"staged/{start}"


def entries_of(bundle: bytes, count: int = FULL) -> tuple[list[bytes], int]:
    """At most ``count`` entries of a bundle, and where the last of them ends. Raises LogCorrupt for one that is cut off."""
    entries, at = list[bytes](), 0
    while at < len(bundle) and len(entries) < count:
        end = at + 2 + int.from_bytes(bundle[at : at + 2])
        if end > len(bundle):
            raise LogCorrupt("a bundle of entries is cut off")
        entries.append(bundle[at + 2 : end])
        at = end
    return entries, at
