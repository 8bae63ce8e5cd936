"""Whether what is asked for is within what was authorized: one for one, or one payment would become two."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal.api.details import DetailType

Detail = Mapping[str, Any]


def is_covered(asked: Sequence[Detail], granted: Sequence[Detail], types: Mapping[str, DetailType]) -> bool:
    """Whether each that is asked for narrows one that was granted, and none stands for two (a matching of Kuhn)."""
    fitting = [
        [index for index, whole in enumerate(granted) if whole["type"] == one["type"] and types[one["type"]].narrows(one, whole)]
        for one in asked
    ]
    taken: dict[int, int] = {}

    def place(who: int, tried: set[int]) -> bool:
        for index in fitting[who]:
            if index not in tried:
                tried.add(index)
                if index not in taken or place(taken[index], tried):
                    taken[index] = who
                    return True
        return False

    return all(place(who, set()) for who in range(len(asked)))
