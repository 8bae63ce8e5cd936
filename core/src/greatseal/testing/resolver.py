"""A resolver for tests: the same promises as the real service, no network. And the contract of validators that read TXT records."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from greatseal.api.acme import Attempt, ChallengeValidator
from greatseal.api.problems import DnsFailure
from greatseal.api.services import CaaRecord, Found, Resolver
from greatseal.testing.validators import ChallengeValidatorContract, Conduct, Peer

__all__ = ["FakeResolver", "TxtValidatorContract"]

HERE = "the test's resolver"
FLOOD = "\x00\xff\r\n\x1b[31m" * 40


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
            raise DnsFailure(f"A {name}: {'NXDOMAIN' if found is None else 'no address'} from {HERE}")
        return found

    async def txt(self, name: str, *, server: str | None = None) -> Found[str]:
        return await self.query(name, "TXT", server=server)

    async def caa(self, name: str) -> Found[CaaRecord]:
        return Found(self._found("CAA", name) or (), HERE)

    async def query(self, name: str, kind: str, *, server: str | None = None) -> Found[Any]:
        self.tables.setdefault(kind, {})
        return Found(self._existing(kind, name), HERE if server is None else server)

    def _existing(self, kind: str, name: str) -> Sequence[Any]:
        found = self._found(kind, name)
        if found is None:
            raise DnsFailure(f"{kind} {name}: NXDOMAIN from {HERE}")
        return found

    def _found(self, kind: str, name: str) -> Sequence[Any] | None:
        self.asked.append((kind, name))
        answers = self.tables[kind].get(name)
        if not answers:
            return None
        return answers.pop(0) if len(answers) > 1 else answers[0]


class TxtValidatorContract(ChallengeValidatorContract):
    """:class:`~greatseal.testing.validators.ChallengeValidatorContract` of a validator that asks the resolver for a TXT record.

    .. code-block:: python

        class TestDns01(TxtValidatorContract):
            def asking(self, resolver):
                return Dns01(resolver)

            def right(self, attempt):
                return f"_acme-challenge.{attempt.identifier.base}", digest(attempt.key_authorization)
    """

    @abstractmethod
    def asking(self, resolver: Resolver) -> ChallengeValidator:
        """The validator, with that resolver."""

    @abstractmethod
    def right(self, attempt: Attempt) -> tuple[str, str]:
        """The name of the record that proves control, and its value."""

    def validator(self, port: int) -> ChallengeValidator:  # noqa: ARG002
        return self.asking(FakeResolver())

    async def answer(self, attempt: Attempt, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Nobody connects."""
        raise NotImplementedError

    @asynccontextmanager
    async def peer(self, conduct: Conduct) -> AsyncIterator[Peer]:
        """A resolver that gives what it has from a zone of that conduct."""
        reached = asyncio.Event()
        name, value = self.right(self._attempt(self.validator(1)))
        yield Peer(self.asking(_Conducted(conduct, name, value, reached)), reached)


class _Conducted(FakeResolver):
    def __init__(self, conduct: Conduct, name: str, value: str, reached: asyncio.Event) -> None:
        values = {Conduct.RIGHT: [value], Conduct.WRONG: [value[::-1], "v=spf1 -all"], Conduct.FLOODS: [FLOOD] * 200}
        super().__init__(txt={name: values[conduct]} if conduct in values else {})
        self.conduct = conduct
        self.reached = reached

    async def query(self, name: str, kind: str, *, server: str | None = None) -> Found[Any]:
        self.reached.set()
        match self.conduct:
            case Conduct.CLOSED:
                raise DnsFailure(f"{kind} {name}: SERVFAIL from {HERE}")
            case Conduct.HANGS_UP:
                raise DnsFailure(f"{kind} {name}: no answer from {HERE} within 5 s")
            case Conduct.SILENT:
                await asyncio.Event().wait()
        return await super().query(name, kind, server=server)
