"""The contract of challenge validators, inherited by one that keeps something with the challenge."""

import asyncio
import inspect
import textwrap
from collections.abc import Mapping

import msgspec
import pytest

from greatseal.api.acme import VALID, Attempt, Challenge, ChallengeValidator, Verdict
from greatseal.api.problems import IncorrectResponse
from greatseal.api.store import Tx
from greatseal.net import AddressPolicy, open_connection
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.validators import ChallengeValidatorContract, attempt_for


class Asked(msgspec.Struct, frozen=True):
    question: str


class Settings(AddressPolicy, frozen=True):
    port: int = 79


class Asking(ChallengeValidator):
    """Sends the question that ``create`` kept, and expects the key authorization."""

    type = "asking-01"
    identifier_types = frozenset({"dns"})
    kept_as = Asked

    def __init__(self, resolver: FakeResolver, settings: Settings) -> None:
        self.resolver, self.settings = resolver, settings

    def create(self, tx: Tx, challenge: Challenge) -> Asked:
        return Asked("who are you?")

    def accept(self, tx: Tx, challenge: Challenge, payload: Mapping[str, object]) -> Asked:
        return Asked(str(payload["question"]))

    def members(self, challenge: Challenge) -> dict[str, object]:
        return {"token": challenge.token, "question": challenge.kept.question}

    async def validate(self, attempt: Attempt) -> Verdict:
        async with open_connection(attempt.identifier.value, self.settings.port, resolver=self.resolver, policy=self.settings) as peer:
            found = await peer.ask(f"{attempt.kept.question}\r\n".encode(), limit=1000)
        if found.strip() != attempt.key_authorization.encode():
            raise IncorrectResponse("another answer")
        return VALID


class TestAsking(ChallengeValidatorContract):
    kept = Asked("what is the word?")

    def validator(self, port: int) -> Asking:
        return Asking(FakeResolver(loopback=True), Settings(allow_private=True, port=port))

    async def answer(self, attempt: Attempt, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == f"{attempt.kept.question}\r\n".encode()
        writer.write(attempt.key_authorization.encode())


class Other(msgspec.Struct, frozen=True):
    """Nothing that the validator keeps."""


class KeepsAnother(TestAsking):
    __test__ = False
    kept = Other()


def test_a_kept_that_the_validator_never_returns_is_told():
    with pytest.raises(AssertionError, match="kept is no kept_as of the validator"):
        KeepsAnother().test_declares_itself()


async def test_the_example_of_the_docstring_runs():
    text = inspect.getdoc(ChallengeValidatorContract).partition(".. code-block:: python\n")[2].partition("A validator whose")[0]
    names = {
        "ChallengeValidatorContract": ChallengeValidatorContract,
        "FakeResolver": FakeResolver,
        "Settings": Settings,
        "Finger01": Asking,
    }
    exec(textwrap.dedent(text), names)

    validator = names["TestFinger01"]().validator(7979)

    assert validator.settings == Settings(port=7979, allow_private=True)
    assert attempt_for(validator, kept=Asked("?")).kept == Asked("?")


class ReturnsNothing(Asking):
    async def validate(self, attempt: Attempt) -> Verdict:
        await super().validate(attempt)  # and no return


class TestReturnsNothing(TestAsking):
    def validator(self, port: int) -> Asking:
        return ReturnsNothing(FakeResolver(loopback=True), Settings(allow_private=True, port=port))

    async def test_accepts_the_right_answer_again_and_again(self) -> None:
        with pytest.raises(AssertionError, match="validate returned None; it returns VALID or WAIT"):
            await super().test_accepts_the_right_answer_again_and_again()
