"""A resolver for tests: the same promises as the real service, no network."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal.api.problems import DnsFailure
from greatseal.api.services import CaaRecord

__all__ = ["FakeResolver"]


class FakeResolver:
    """Answers from tables; every name that is in none is loopback when ``loopback``, else does not exist.

    >>> resolver = FakeResolver({"a.example": ["192.0.2.1"]}, txt={"_acme-challenge.a.example": ["value"]})

    ``asked`` lists (kind, name) of every question.
    """

    def __init__(
        self,
        addresses: Mapping[str, Sequence[str]] | None = None,
        *,
        txt: Mapping[str, Sequence[str]] | None = None,
        caa: Mapping[str, Sequence[CaaRecord]] | None = None,
        loopback: bool = False,
    ) -> None:
        self.tables: dict[str, dict[str, list[Sequence[Any]]]] = {"A": {}, "TXT": {}, "CAA": {}}
        self.loopback = loopback
        self.asked: list[tuple[str, str]] = []
        for kind, table in (("A", addresses), ("TXT", txt), ("CAA", caa)):
            for name, values in (table or {}).items():
                self.answer(kind, name, values)

    def answer(self, kind: str, name: str, *answers: Sequence[Any]) -> None:
        """Give these answers to that question one after the other; the last one stays (DNS rebinding)."""
        self.tables[kind][name] = list(answers)

    async def addresses(self, name: str) -> Sequence[str]:
        found = self._found("A", name)
        if found is None and self.loopback:
            return ["127.0.0.1"]
        if not found:
            raise DnsFailure(f"A {name}: {'NXDOMAIN' if found is None else 'no address'} from the test's resolver")
        return found

    async def txt(self, name: str, *, server: str | None = None) -> Sequence[str]:  # noqa: ARG002
        return self._existing("TXT", name)

    async def caa(self, name: str) -> Sequence[CaaRecord]:
        return self._found("CAA", name) or []

    async def query(self, name: str, kind: str, *, server: str | None = None) -> Sequence[Any]:  # noqa: ARG002
        self.tables.setdefault(kind, {})
        return self._existing(kind, name)

    def _existing(self, kind: str, name: str) -> Sequence[Any]:
        found = self._found(kind, name)
        if found is None:
            raise DnsFailure(f"{kind} {name}: NXDOMAIN from the test's resolver")
        return found

    def _found(self, kind: str, name: str) -> Sequence[Any] | None:
        self.asked.append((kind, name))
        answers = self.tables[kind].get(name)
        if not answers:
            return None
        return answers.pop(0) if len(answers) > 1 else answers[0]
