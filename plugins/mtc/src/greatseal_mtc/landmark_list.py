"""The list of landmarks that relying parties read (draft-ietf-plants-merkle-tree-certs-05 s6.4.3, and as -07 has it)."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from greatseal_mtc.merkle import MAX_SIZE, Range, cover
from greatseal_mtc.note import BadNote, parse_number

__all__ = ["LandmarkList", "dated_list"]

MAX_LANDMARKS = 100_000
MAX_LIST = MAX_LANDMARKS * 16


class LandmarkList(msgspec.Struct, frozen=True):
    """The active landmarks of a log: the number of the last one, and sizes of the log from the newest landmark on.

    The last size is that of the landmark before the oldest active one, which is 0 before the first landmark. Landmark 0 has no entries.
    """

    last: int = 0
    sizes: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, last: int, sizes: Sequence[int], max_active: int) -> "LandmarkList":
        """The list after landmark ``last``. ``sizes`` are those of the newest landmarks, newest first, with one more than are active where
        there was one, down to landmark 0."""
        return cls(last, tuple(sizes[: min(max_active, last) + 1]))

    @property
    def text(self) -> str:
        """The list."""
        return "".join(f"{line}\n" for line in (f"{self.last} {len(self.sizes) - 1}", *self.sizes))

    @classmethod
    def parse(cls, text: str) -> "LandmarkList":
        """A list. Raises BadNote."""
        if len(text) > MAX_LIST:
            raise BadNote(f"a list of landmarks of more than {MAX_LIST} characters")
        first, *rest = text.split("\n")
        counts = [parse_number(one) for one in first.split(" ")]
        if len(counts) != 2 or counts[1] > counts[0]:
            raise BadNote("the first line is: the last landmark, and how many are active, which are no more")
        if len(rest) != counts[1] + 2 or rest[-1]:
            raise BadNote(f"{counts[1]} active landmarks have {counts[1] + 1} sizes, each on its line")
        sizes = tuple(map(parse_number, rest[:-1]))
        if sizes[0] > MAX_SIZE or any(one <= other for one, other in pairwise(sizes)):
            raise BadNote("the sizes are not strictly decreasing")
        return cls(counts[0], sizes)

    def subtrees(self) -> list[tuple[int, Range]]:
        """The subtrees that a relying party may trust once it has their hashes, each with the number of its landmark, newest first."""
        return [(number, one) for number, before, size in self._active() for one in cover(before, size)]

    def covering(self, index: int) -> tuple[int, Range] | None:
        """The landmark that first had the entry, and its subtree that holds it; None where it is not active (yet, or any more)."""
        for number, before, size in self._active():
            if before <= index < size:
                return number, next(one for one in cover(before, size) if one[0] <= index < one[1])
        return None

    def _active(self) -> Iterator[tuple[int, int, int]]:
        """Number, size before and size of each active landmark."""
        numbers = range(self.last, self.last - len(self.sizes), -1)
        return ((number, before, size) for number, (size, before) in zip(numbers, pairwise(self.sizes), strict=False))


def dated_list(last: int, landmarks: Sequence[tuple[int, int]], now: int) -> str:
    """The list of plants-07: the number of the last landmark, and of each from there on its size and when it expires, in seconds.

    ``landmarks`` end with one that has expired, such as landmark 0 with size 0 at moment 0: the list ends with the first that has at
    ``now``. No landmark expires after a newer one, whatever the clock was when it was made.
    """
    lines, expires = [str(last)], MAX_SIZE - 1
    for size, at in landmarks:
        expires = min(expires, at)
        lines.append(f"{size} {expires}")
        if expires < now:
            break
    return "".join(f"{line}\n" for line in lines)
