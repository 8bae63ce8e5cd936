"""Follows a tiled log (C2SP tlog-tiles), ours or another's: reads every entry, and holds each tree that the log signs against them.

What is kept of a log is the last checkpoint and the right edge of the tree that its entries made: some kilobytes, whatever its size.
"""

import asyncio
import base64
import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from greatseal.api.problems import Problem
from greatseal.net import AddressPolicy, NameResolver, fetch
from greatseal_mtc import tiles
from greatseal_mtc.hashes import Hash
from greatseal_mtc.merkle import MAX_SIZE, BadProof, consistency, verify_consistency
from greatseal_mtc.note import MAX_NOTE, BadNote, Checkpoint, Note, NoteKey, open_note
from greatseal_mtc.tiles import FULL, Edge, MissingTile, Reader, TileCache, TileName
from greatseal_mtc.wire import parse_bundle

__all__ = ["Follower", "HttpSource", "Lie", "Seen", "Source", "load", "save"]

MAX_BUNDLE = FULL * (2 + tiles.MAX_ENTRY)
SECONDS = 30.0
"""For one object."""
AHEAD = 8
"""Bundles that are asked for at once."""
CACHE_BYTES = 8 * 1024 * 1024
OK, NOT_FOUND = 200, frozenset((404, 410))
ANYWHERE = AddressPolicy(allow_private=True)
"""Whoever runs a monitor names the log: it may be inside the organisation."""


class Lie(Exception):
    """The log is not what it signed. ``notes`` are the checkpoints that prove it, where they do."""

    def __init__(self, words: str, *notes: bytes) -> None:
        super().__init__(words)
        self.notes = notes


class Away(Exception):
    """The log could not be asked, or does not have what its checkpoint says: it may be different in a moment."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was last seen of a log: the state file, as JSON. ``edge`` is :meth:`greatseal_mtc.tiles.Edge.encode` of the tree at ``size``."""

    origin: str
    size: int
    root: bytes
    edge: bytes
    note: bytes


class Source(ABC):
    """A log to read from. Raises Away."""

    @abstractmethod
    async def checkpoint(self) -> bytes:
        """The note that the log publishes now."""

    @abstractmethod
    async def object(self, name: TileName, limit: int) -> bytes | None:
        """A tile or a bundle of at most ``limit`` bytes; None when it is not there."""


class HttpSource(Source):
    """A log below an URL, such as ``https://ca.example/acme/mtc/tlog``."""

    def __init__(self, url: str, resolver: NameResolver, *, ca_file: Path | None = None) -> None:
        """Raises ValueError for what is no URL of http or https."""
        if urlsplit(url).scheme not in {"http", "https"}:
            raise ValueError(f"{url} is no http or https URL")
        self._url = url.rstrip("/")
        self._resolver = resolver
        self._tls: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca_file) if ca_file else True

    async def checkpoint(self) -> bytes:
        found = await self._get("checkpoint", MAX_NOTE)
        if found is None:
            raise Away(f"{self._url}/checkpoint: there is none")
        return found

    async def object(self, name: TileName, limit: int) -> bytes | None:
        return await self._get(name.path, limit)

    async def _get(self, path: str, limit: int) -> bytes | None:
        try:
            found = await fetch(
                f"{self._url}/{path}", resolver=self._resolver, policy=ANYWHERE, redirects=2, seconds=SECONDS, max_body=limit, tls=self._tls
            )
        except Problem as problem:
            raise Away(problem.detail) from None
        if found.status in NOT_FOUND:
            return None
        if found.status != OK:
            raise Away(f"{self._url}/{path}: status {found.status}")
        return found.body


Read = Callable[[int, Sequence[bytes]], Awaitable[None]]
"""Told of entries in their order: the index of the first one, and what they are."""


class Follower:
    """One log, by the keys that it signs with. Cosignatures of ``witnesses`` must be on a checkpoint, at least ``quorum`` of them."""

    def __init__(self, source: Source, hash: Hash, keys: Sequence[NoteKey], *, witnesses: Sequence[NoteKey] = (), quorum: int = 0) -> None:
        self._source = source
        self.hash = hash
        self._keys = keys
        self._witnesses = witnesses
        self._quorum = quorum

    async def checkpoint(self) -> tuple[Checkpoint, bytes]:
        """What the log says now. Raises Lie for a note that its keys, or too few witnesses, did not sign, and Away."""
        note = await self._source.checkpoint()
        try:
            found, signed = open_note(Note.parse(note), [*self._keys, *self._witnesses])
        except BadNote as error:
            raise Lie(f"the checkpoint is none to go by: {error}", note) from None
        signers = [key for key, _ in signed]
        if not any(key in signers for key in self._keys):
            raise Lie("the checkpoint is not signed by a key of the log", note)
        if len(found.root) != self.hash.size or found.size > MAX_SIZE:
            raise Lie(f"the checkpoint has a root of {len(found.root)} bytes and {found.size} entries: not a log of {self.hash.name}", note)
        by = sum(witness in signers for witness in self._witnesses)
        if by < self._quorum:
            raise Lie(f"the checkpoint of {found.size} entries is cosigned by {by} of the witnesses, not by {self._quorum}", note)
        return found, note

    async def begin(self) -> Seen:
        """The log as it is now, without reading what is in it. Raises Lie and Away."""
        checkpoint, note = await self.checkpoint()
        size = checkpoint.size
        levels = []
        for level in range((size.bit_length() + 7) // 8):
            width = size >> 8 * level & 0xFF
            levels.append(await self._tile(TileName(level, size >> 8 * level + 8, width)) if width else b"")
        edge = Edge(size, tuple(levels))
        if edge.root(self.hash) != checkpoint.root:
            raise Lie(f"the tiles of the log make another root than its checkpoint of {size} entries says", note)
        return self._seen(checkpoint, note, edge)

    def nothing(self, origin: str) -> Seen:
        """Before the first entry."""
        return Seen(origin=origin, size=0, root=self.hash.empty, edge=Edge().encode(), note=b"")

    async def step(self, seen: Seen, read: Read) -> Seen:
        """Read what came since. Returns what was seen now, ``seen`` itself when nothing came.

        Raises Lie for a fork and for entries that are not those of the tree, Away for what cannot be told now.
        """
        checkpoint, note = await self.checkpoint()
        if checkpoint.origin != seen.origin:
            raise Lie(f"the log calls itself {checkpoint.origin}, and was {seen.origin}", note)
        if checkpoint.size < seen.size:
            await self._older(seen, checkpoint, note)
            return seen
        if checkpoint.size == seen.size:
            if checkpoint.root != seen.root:
                raise Lie(f"the log forked: it signed two trees of {seen.size} entries", seen.note, note)
            return seen
        edge = Edge.decode(self.hash, seen.edge, b"")
        async for start, entries in self._entries(seen.size, checkpoint.size):
            edge, _ = tiles.append(self.hash, msgspec.structs.replace(edge, bundle=b""), entries)
            await read(start, entries)
        if edge.root(self.hash) != checkpoint.root:
            raise await self._why(seen, checkpoint, note)
        return self._seen(checkpoint, note, edge)

    async def _older(self, seen: Seen, checkpoint: Checkpoint, note: bytes) -> None:
        """An older checkpoint is what a cache may show; it must be one of the tree that was seen."""
        shown = f"the log shows its checkpoint of {checkpoint.size} entries; the one of {seen.size} was seen before"
        found = self._kept(seen, checkpoint.size)
        if found is None:
            try:
                found = await self._root(seen.size, checkpoint.size, seen.root)
            except Away as away:
                raise Away(f"{shown}, and {away}") from None
        if found != checkpoint.root:
            raise Lie(
                f"the log forked: the tree of {checkpoint.size} entries that it signed is none of its tree of {seen.size}", seen.note, note
            )
        raise Away(shown)

    def _kept(self, seen: Seen, older: int) -> bytes | None:
        """The root of an older size, by what is kept of the tree alone: a log that forked may not have its tiles. None where it is not."""
        if older >> 8 != seen.size >> 8:
            return None
        leaves, *above = Edge.decode(self.hash, seen.edge, b"").levels
        return Edge(older, (leaves[: (older & 0xFF) * self.hash.size], *above)).root(self.hash)

    async def _root(self, size: int, older: int, root: bytes) -> bytes:
        """The root of an older size of the tree with ``root``, by the tiles of the log."""
        if older == 0:
            return self.hash.empty
        reader = Reader(
            "", self.hash, size, TileCache(CACHE_BYTES), lambda name: self._source.object(tiles.parse_path(name), FULL * self.hash.size)
        )
        try:
            found, *proof = await reader.hashes([(0, older), *consistency(0, older, size)])
            verify_consistency(self.hash, 0, older, size, subtree=found, root=root, proof=proof)
        except MissingTile as missing:
            raise Away(str(missing)) from None
        except BadProof:  # so nobody can tell what the older tree was: not by these tiles
            raise Lie(f"the tiles of the log are not those of its tree of {size} entries") from None
        return found

    async def _why(self, seen: Seen, checkpoint: Checkpoint, note: bytes) -> Lie:
        """What is wrong with a tree that the entries do not make."""
        if await self._root(checkpoint.size, seen.size, checkpoint.root) != seen.root:
            return Lie(f"the log forked: its tree of {checkpoint.size} entries does not hold that of {seen.size}", seen.note, note)
        async for start, entries in self._entries(seen.size, checkpoint.size):
            number, size = start >> 8, self.hash.size
            tile = await self._tile(TileName(0, number, min(FULL, checkpoint.size - (number << 8))))
            for index, entry in enumerate(entries, start):
                at = (index & 0xFF) * size
                if self.hash.leaf(entry) != tile[at : at + size]:
                    return Lie(f"the entry {index} is not the one in the tree", note)
        return Lie("the entries changed while they were read", note)

    async def _tile(self, name: TileName) -> bytes:
        """A tile of that width, or the start of the full one where the partial one is gone."""
        size = name.width * self.hash.size
        found = await self._source.object(name, size)
        if found is None and name.width < FULL:
            whole = await self._source.object(TileName(name.level, name.number), FULL * self.hash.size)
            found = whole[:size] if whole is not None and len(whole) == FULL * self.hash.size else None
        if found is None:
            raise Away(f"{name.path} is not there")
        if len(found) != size:
            raise Lie(f"{name.path} has {len(found)} bytes, not {size}")
        return found

    async def _entries(self, start: int, end: int) -> AsyncIterator[tuple[int, list[bytes]]]:
        """The entries of ``[start, end)`` by bundles, with the index of the first of each."""
        numbers = range(start >> 8, (end + 0xFF) >> 8)
        pending: list[asyncio.Task[list[bytes]]] = []
        try:
            for at, number in enumerate(numbers):
                while len(pending) < AHEAD and at + len(pending) < len(numbers):
                    ahead = numbers[at + len(pending)]
                    pending.append(asyncio.create_task(self._bundle(ahead, min(FULL, end - (ahead << 8)))))
                entries = await pending.pop(0)
                first = max(start, number << 8)
                yield first, entries[first - (number << 8) :]
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _bundle(self, number: int, width: int) -> list[bytes]:
        name = TileName(None, number, width)
        found, count = await self._source.object(name, MAX_BUNDLE), width
        if found is None and width < FULL:
            found, count = await self._source.object(TileName(None, number), MAX_BUNDLE), FULL
        if found is None:
            raise Away(f"{name.path} is not there")
        try:
            return parse_bundle(found, count)[:width]
        except ValueError as error:
            raise Lie(f"{name.path} is no bundle of {count} entries: {error}") from None

    def _seen(self, checkpoint: Checkpoint, note: bytes, edge: Edge) -> Seen:
        return Seen(origin=checkpoint.origin, size=checkpoint.size, root=checkpoint.root, edge=edge.encode(), note=note)


def load(file: Path, hash: Hash) -> Seen | None:
    """What :func:`save` wrote; None where there is no file. Raises ValueError for another one: by it no log is accused; and OSError."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    try:
        seen = msgspec.json.decode(content, type=Seen)
        edge = Edge.decode(hash, seen.edge, b"")
    except ValueError as error:
        raise ValueError(f"{file} is no state of a monitor: {error}") from None
    if (edge.size, edge.root(hash)) != (seen.size, seen.root):
        raise ValueError(f"{file} is no state of a monitor of a log of {hash.name}: its size and root are not those of its edge")
    return seen


def save(file: Path, seen: Seen) -> None:
    """Replace the state: whoever reads it later sees the old one or the new one, whole. Raises OSError."""
    draft = file.with_name(f".{file.name}.draft")
    with draft.open("wb") as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(seen)))
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def describe(seen: Seen) -> str:
    """One line of what was seen."""
    return f"{seen.origin}: {seen.size} entries, root {base64.b64encode(seen.root).decode()}"
