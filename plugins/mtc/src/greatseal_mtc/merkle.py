"""The tree of a log (RFC 9162 s2.1) and its subtrees (draft-ietf-plants-merkle-tree-certs-05 s4).

A proof is named by the ranges of leaves whose roots it holds: whoever can give the root of a range can give the proof. The hash of a range
``(start, end)`` is that of a tree with these leaves alone.
"""

from collections.abc import Sequence

from greatseal_mtc.hashes import Hash

__all__ = ["MAX_SIZE", "BadProof", "Range", "consistency", "cover", "evaluate", "inclusion", "is_subtree", "root", "verify_consistency"]

MAX_SIZE = 1 << 48
"""An index has 48 bits in a certificate."""

Range = tuple[int, int]
"""Leaves from the first number up to the second one, without it."""


class BadProof(ValueError):
    """A proof that does not prove what it should."""


def root(hash: Hash, leaves: Sequence[bytes]) -> bytes:
    """The root over the hashes of leaves."""
    if not leaves:
        return hash.empty
    node, level = hash.node, list(leaves)
    while len(level) > 1:
        odd = level[-1:] if len(level) & 1 else []
        level = [*map(node, level[::2], level[1::2]), *odd]
    return level[0]


def is_subtree(start: int, end: int) -> bool:
    """Whether the range is a subtree of every tree that reaches to ``end`` (s4.1)."""
    return 0 <= start < end <= MAX_SIZE and start % _ceil(end - start) == 0


def cover(start: int, end: int) -> tuple[Range, ...]:
    """One or two subtrees that together hold ``[start, end)`` (s4.5.1). What they hold beside it lies before ``start``."""
    if not 0 <= start < end <= MAX_SIZE:
        raise ValueError(f"[{start}, {end}) is no range of leaves")
    last = end - 1
    if start == last:
        return ((start, end),)
    split = (start ^ last).bit_length() - 1
    middle = last >> split << split
    missing = (~start & ((1 << split) - 1)).bit_length()
    return ((start >> missing << missing, middle), (middle, end))


def inclusion(start: int, end: int, index: int) -> list[Range]:
    """The ranges of the inclusion proof of a leaf in a subtree, from the leaf to the root (s4.3.1)."""
    _require(start, end, index)
    ranges = []
    while end - start > 1:
        middle = start + _below(end - start)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    ranges.reverse()
    return ranges


def consistency(start: int, end: int, size: int) -> list[Range]:
    """The ranges of the proof that a subtree is one of the tree of ``size`` leaves (s4.4.1); from 0 on it is that of RFC 9162 s2.1.4."""
    if not is_subtree(start, end) or end > size or size > MAX_SIZE:
        raise ValueError(f"[{start}, {end}) is no subtree of a tree with {size} leaves")
    ranges = []
    low, high, known = 0, size, True
    while (low, high) != (start, end):
        middle = low + _below(high - low)
        if end <= middle:
            ranges.append((middle, high))
            high = middle
        elif start >= middle:
            ranges.append((low, middle))
            low = middle
        else:  # the subtree begins here and has no node of its own in this tree
            ranges.append((low, middle))
            low = start = middle
            known = False
    if not known:
        ranges.append((low, high))
    ranges.reverse()
    return ranges


def evaluate(hash: Hash, start: int, end: int, index: int, *, leaf: bytes, proof: Sequence[bytes]) -> bytes:
    """The hash that the subtree has when the proof is right (s4.3.2). ``leaf`` is the hash of the leaf. Raises BadProof."""
    try:
        _require(start, end, index)
    except ValueError as error:
        raise BadProof(str(error)) from None
    at, last = index - start, end - start - 1
    width = (at ^ last).bit_length()
    if len(proof) != width + (at >> width).bit_count():
        raise BadProof(f"an inclusion proof of {len(proof)} hashes for leaf {index} of [{start}, {end})")
    node, found = hash.node, leaf
    for one in proof:
        if len(one) != hash.size:
            raise BadProof(f"a hash of {len(one)} bytes in the proof, not {hash.size}")
        if at & 1 or at == last:
            found = node(one, found)
            while not at & 1:
                at >>= 1
                last >>= 1
        else:
            found = node(found, one)
        at >>= 1
        last >>= 1
    return found


def verify_consistency(hash: Hash, start: int, end: int, size: int, *, subtree: bytes, root: bytes, proof: Sequence[bytes]) -> None:
    """Check that the subtree with the hash ``subtree`` is one of the tree of ``size`` leaves with ``root`` (s4.4.3). Raises BadProof."""
    try:
        expected = len(consistency(start, end, size))
    except ValueError as error:
        raise BadProof(str(error)) from None
    if len(proof) != expected:
        raise BadProof(f"a consistency proof of {len(proof)} hashes, not {expected}, for [{start}, {end}) in {size}")
    if any(len(one) != hash.size for one in (subtree, root, *proof)):
        raise BadProof(f"a hash that is not of {hash.size} bytes")
    old, new = _both_roots(hash, (start, end - 1, size - 1), subtree, proof)
    if old != subtree:
        raise BadProof(f"the proof is not of the subtree [{start}, {end})")
    if new != root:
        raise BadProof(f"the subtree [{start}, {end}) is not one of the tree of {size} leaves")


def _both_roots(hash: Hash, numbers: tuple[int, int, int], subtree: bytes, proof: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The hashes of the subtree and of the tree, as a proof of the right length has them.

    ``numbers`` are the first and the last leaf of the subtree, and the last one of the tree.
    """
    first, second, last = numbers
    # Up to the subtree's own node, or to the last full part of it.
    while first != second and (second == last or second & 1):
        first, second, last = first >> 1, second >> 1, last >> 1
    hashes = iter(proof)
    old = new = subtree if first == second else next(hashes)
    for one in hashes:
        if second & 1 or second == last:
            if first < second:
                old = hash.node(one, old)
            new = hash.node(one, new)
            while not second & 1:
                first, second, last = first >> 1, second >> 1, last >> 1
        else:
            new = hash.node(new, one)
        first, second, last = first >> 1, second >> 1, last >> 1
    return old, new


def _require(start: int, end: int, index: int) -> None:
    if not is_subtree(start, end) or not start <= index < end:
        raise ValueError(f"{index} is no leaf of a subtree [{start}, {end})")


def _below(number: int) -> int:
    """The largest power of two below ``number``, which is 2 or more."""
    return 1 << (number - 1).bit_length() - 1


def _ceil(number: int) -> int:
    """The smallest power of two that is not below ``number``."""
    return 1 << (number - 1).bit_length()
