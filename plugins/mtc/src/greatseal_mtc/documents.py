"""What is said of one log over HTTP: its state, proofs, tiles, and the certificates that are made of its entries.

Hashes in JSON are lower-case hexadecimal. What can never change is cached for ever, all else as long as it may be old.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from greatseal.api.http import Call, Reply
from greatseal.api.issuance import Certificate
from greatseal.api.problems import BadRequest, NotFound, Unavailable
from greatseal_mtc import tiles
from greatseal_mtc.merkle import Range
from greatseal_mtc.recording import MTC, Entry
from greatseal_mtc.tiles import FULL, TileName
from greatseal_mtc.views import LogView, OutOfRange

if TYPE_CHECKING:
    from greatseal_mtc.logs import CaLog

__all__ = ["DER", "FOREVER", "HOUR", "NO_STORE", "TEXT", "LogDocuments", "is_published", "number_in"]

DER, TEXT, BYTES = "application/pkix-cert", "text/plain; charset=utf-8", "application/octet-stream"
NO_STORE = ("Cache-Control", "no-store")
FOREVER = ("Cache-Control", "public, max-age=31536000, immutable")
HOUR = ("Cache-Control", "public, max-age=3600")
_NUMBER = re.compile(r"0|[1-9]\d{0,14}", re.ASCII)
_SHAPE = re.compile(r"(?:entries|\d{1,20})/(?:x?\d{1,20}/)*x?\d{1,20}(?:\.p/\d{1,20})?", re.ASCII)
"""What looks like a tile, though there may be none of that name."""


class LogDocuments:
    """The documents of one log of a CA: the one that is written, or one of before."""

    def __init__(self, log: "CaLog", view: LogView) -> None:
        self._log = log
        self._view = view

    def tree_size(self) -> Reply:
        """How many entries the log has now."""
        return Reply.json({"treeSize": self._view.size}).with_headers(NO_STORE)

    def root(self) -> Reply:
        """Size and root of one moment."""
        size, root = self._view.head
        return Reply.json({"treeSize": size, "rootHash": root.hex()}).with_headers(NO_STORE)

    async def inclusion(self, index: int, call: Call) -> Reply:
        """The proof that an entry is in the tree of a size; the one of now where the call names none."""
        asked = number_in(call, "size")
        size, root = self._view.head
        if asked is not None:
            if not index < asked <= size:
                raise BadRequest(f"size: the entry {index} is in trees from {index + 1} to {size} entries")
            size, root = asked, await self._view.root_at(asked)
        proof = await self._view.inclusion(index, 0, size)
        value = {
            "leafIndex": index,
            "treeSize": size,
            "logNumber": self._view.made.number,
            "leafHash": (await self._view.leaf(index)).hex(),
            "rootHash": root.hex(),
            "proof": [{"hash": one.hex()} for one in proof],
        }
        return Reply.json(value).with_headers(NO_STORE if asked is None else FOREVER)

    async def consistency(self, call: Call) -> Reply:
        """The proof that the tree of one size is in that of a larger one (RFC 9162 s2.1.4)."""
        first, second = _required(call, "from"), _required(call, "to")
        size = self._view.size
        if not 0 < first < second <= size:
            raise BadRequest(f"from and to: expected 0 < from < to <= {size}, which is how many entries the log has now")
        proof = await self._view.consistency(0, first, second)
        value = {
            "fromSize": first,
            "toSize": second,
            "fromRoot": (await self._view.root_at(first)).hex(),
            "toRoot": (await self._view.root_at(second)).hex(),
            "proof": [one.hex() for one in proof],
        }
        return Reply.json(value).with_headers(FOREVER)

    async def subtree_root(self, call: Call) -> Reply:
        """The hash of a subtree, and with a size the proof that the tree of that size has it."""
        start, end, size = _required(call, "start"), _required(call, "end"), number_in(call, "size")
        try:
            root = await self._view.subtree_root(start, end)
            proof = None if size is None else await self._view.consistency(start, end, size)
        except OutOfRange as error:
            raise BadRequest(str(error)) from None
        more = {} if proof is None else {"size": size, "consistencyProof": [one.hex() for one in proof]}
        return Reply.json({"start": start, "end": end, "rootHash": root.hex(), **more}).with_headers(FOREVER)

    def revoked_ranges(self, ranges: Sequence[Range]) -> Reply:
        """Half-open ranges of entries whose certificates are revoked."""
        return Reply.json(ranges).with_headers(NO_STORE)

    def checkpoint(self) -> Reply:
        """The newest checkpoint, signed by the log and by its witnesses."""
        return Reply(body=self._published_note(), content_type=TEXT, headers=(NO_STORE,))

    def log_checkpoint(self) -> Reply:
        """The newest checkpoint with the ID of the log as origin, signed by the CA cosigner and by witnesses (C2SP mtc-tlog)."""
        published = self._log.checkpoints.published
        if published is None:
            raise _no_checkpoint()
        return Reply(body=published.log_note, content_type=TEXT, headers=(NO_STORE,))

    def cosignature(self) -> Reply:
        """The newest checkpoint with the signature of the CA cosigner."""
        published = self._log.checkpoints.published
        if published is None:
            raise _no_checkpoint()
        return Reply(body=published.checkpoint.cosigned, content_type=TEXT, headers=(NO_STORE,))

    async def tile(self, path: str) -> Reply:
        """A tile or a bundle of entries of the newest checkpoint (C2SP tlog-tiles)."""
        published = self._log.checkpoints.published
        try:
            name = tiles.parse_path(f"tile/{path}")
        except ValueError as error:
            if _SHAPE.fullmatch(path):
                raise NotFound(f"there is no tile of this name: {error}") from None
            raise BadRequest(str(error)) from None
        content = await self._view.read(name) if published is not None and is_published(name, published.size) else None
        if content is None:
            raise NotFound("the log has no such tile in its newest checkpoint")
        return Reply(body=content, content_type=BYTES, headers=(FOREVER if name.width == FULL else HOUR,))

    def keys(self) -> Reply:
        """The keys of the log and of the CA cosigner, one vkey a line."""
        return Reply(body="".join(f"{one}\n" for one in self._log.vkeys).encode(), content_type=TEXT, headers=(HOUR,))

    def ca_certificate(self) -> Reply:
        """The unsigned certificate of the CA."""
        return Reply(body=self._log.authority.certificate, content_type=DER, headers=(HOUR,))

    def standalone(self, entry: Entry, certificate: Certificate) -> Reply:
        """The standalone certificate, once it is made."""
        der = certificate.der if entry.issue_as == MTC else entry.standalone
        if der is None:
            raise NotFound("the standalone certificate is not made yet: that comes after the next checkpoint")
        return Reply(body=der, content_type=DER, headers=(HOUR,))

    def _published_note(self) -> bytes:
        published = self._log.checkpoints.published
        if published is None:
            raise _no_checkpoint()
        return published.note


def is_published(name: TileName, size: int) -> bool:
    """Whether the tree of that size has all of the tile."""
    return (name.number << 8) + name.width <= size >> 8 * (name.level or 0)


def number_in(call: Call, name: str) -> int | None:
    """A query parameter that is a number; None without it. Raises BadRequest."""
    text = call.query.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise BadRequest(f"{name}: expected a decimal number of at most 15 digits")
    return int(text)


def _required(call: Call, name: str) -> int:
    found = number_in(call, name)
    if found is None:
        raise BadRequest(f"{name}: is missing; expected a number of entries")
    return found


def _no_checkpoint() -> Unavailable:
    return Unavailable("the log has no checkpoint yet")
