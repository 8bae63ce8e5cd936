"""What the fakes keep in place of rows."""

from functools import partial
from typing import Generic, TypeVar

from greatseal.api.store import Tx

__all__ = ["Kept"]

T = TypeVar("T")


class Kept(Generic[T]):
    """Values by id. What a transaction changes it sees itself, and everybody else after its commit."""

    def __init__(self, values: dict[str, T]) -> None:
        self.values = values
        self._writer: Tx | None = None
        self._written: dict[str, T] = {}

    def get(self, tx: Tx, id: str) -> T | None:
        written = self._written if tx is self._writer else {}
        return written.get(id) or self.values.get(id)

    def ids(self, tx: Tx) -> list[str]:
        """Of every value that the transaction sees."""
        return [*self.values, *(self._written if tx is self._writer else ())]

    def put(self, tx: Tx, id: str, value: T) -> None:
        if tx is not self._writer:
            self._writer, self._written = tx, {}
            tx.after_commit(partial(self.values.update, self._written))
        self._written[id] = value
