"""The way from a leaf to the root as a picture (SVG): on each level the hash that was computed, and the one beside it from the proof."""

from collections.abc import Callable, Sequence
from html import escape

import msgspec

from greatseal_mtc import merkle
from greatseal_mtc.hashes import Hash
from greatseal_mtc.merkle import BadProof, Range

__all__ = ["Step", "picture", "walk"]

WIDTH, MARGIN, BOX, HEIGHT, GAP = 336, 4, 152, 46, 34
"""Of the picture, its boxes and what is between two levels; text of 13 units is readable at 320 pixels."""
SHOWN = 6
"""Bytes of a hash that a box shows."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A level: the hash of ``own``, which the reader can compute, and that of ``other`` beside it, from the proof."""

    own: Range
    hash: bytes
    other: Range
    proof: bytes

    @property
    def is_left(self) -> bool:
        """Whether the computed hash is the left one of the two."""
        return self.own < self.other


def walk(hash: Hash, within: Range, index: int, leaf: bytes, proof: Sequence[bytes]) -> tuple[list[Step], bytes]:
    """Each step from a leaf to the root of the subtree ``within``, and what comes out there. Raises BadProof for a proof of
    another length."""
    try:
        ranges = merkle.inclusion(*within, index)
    except ValueError as error:
        raise BadProof(str(error)) from None
    if len(ranges) != len(proof):
        raise BadProof(f"a proof of {len(proof)} hashes, where {len(ranges)} lead to the root")
    steps, own, found = [], (index, index + 1), leaf
    for other, one in zip(ranges, proof, strict=True):
        step = Step(own=own, hash=found, other=other, proof=one)
        steps.append(step)
        found = hash.node(found, one) if step.is_left else hash.node(one, found)
        own = (min(own[0], other[0]), max(own[1], other[1]))
    return steps, found


def picture(steps: Sequence[Step], root: Range, root_hash: bytes, *, title: str, words: Callable[[Range], str]) -> str:
    """SVG with the root above and the leaf below, in the colours of the style sheet; its words are ``title``, and in the boxes."""
    height = 2 * MARGIN + HEIGHT + len(steps) * (HEIGHT + GAP)
    lines, boxes = [], []
    above_x = WIDTH // 2
    for depth, step in enumerate(reversed(steps), 1):
        y = MARGIN + depth * (HEIGHT + GAP)
        left, right = MARGIN + BOX // 2, WIDTH - MARGIN - BOX // 2
        own_x, other_x = (left, right) if step.is_left else (right, left)
        bottom = y - GAP
        lines += [_line("edge", above_x, bottom, other_x, y), _line("edge own", above_x, bottom, own_x, y)]
        boxes += [
            _box("node proof", other_x, y, words(step.other), step.proof),
            _box("node own", own_x, y, words(step.own), step.hash),
        ]
        above_x = own_x
    boxes.insert(0, _box("node own", WIDTH // 2, MARGIN, words(root), root_hash))
    return (
        f'<svg class="tree" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}" focusable="false">'
        + "".join((*lines, *boxes))
        + "</svg>"
    )


def _line(kind: str, x: int, y: int, to_x: int, to_y: int) -> str:
    return f'<path class="{kind}" d="M{x} {y}L{to_x} {to_y}"/>'


def _box(kind: str, middle: int, y: int, words: str, hash: bytes) -> str:
    return (
        f'<g class="{kind}"><rect x="{middle - BOX // 2}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="6"/>'
        f'<text x="{middle}" y="{y + 19}">{escape(words)}</text>'
        f'<text class="hash" x="{middle}" y="{y + 36}">{hash[:SHOWN].hex()}…</text></g>'
    )
