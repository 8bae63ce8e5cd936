"""What every challenge validator must do, as a test class to inherit."""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, ClassVar

import msgspec
import pytest

from greatseal.api.acme import VALID, AccountView, Attempt, Challenge, ChallengeValidator, Identifier, Verdict
from greatseal.api.problems import Problem

__all__ = ["ChallengeValidatorContract", "Conduct", "Peer", "ResponseValidatorContract", "ValidatorPromises", "attempt_for"]

TOKEN = "wUIsjCEhF0wLJ6J0JoSLXDdPpTjbYYLKPGJ5sUn3CzI"  # noqa: S105 (a challenge's token is public)
THUMBPRINT = "evxCJqYQX0cbZTRN7ZcPVmaBxkBSUKBkSd3XoYVbOIk"
FLOOD_BYTES = 2 * 1024 * 1024
STRANGE = {
    "dns": ("a.example", "*.a.example", "localhost", "xn--bcher-kva.example", f"{'a' * 63}.{'b' * 63}.{'c' * 63}.example", "a.onion"),
    "ip": ("192.0.2.1", "127.0.0.1", "2001:db8::1", "::1"),
    "email": ("someone@a.example", "some.one+tag@xn--bcher-kva.example"),
}
NAMES = {"dns": "a.example", "ip": "127.0.0.1", "email": "someone@a.example"}


class Conduct(Enum):
    """How the target of a validation behaves."""

    RIGHT = "right"
    WRONG = "wrong"
    CLOSED = "closed"
    HANGS_UP = "hangs up"
    FLOODS = "floods"
    SILENT = "silent"


class Peer:
    """A target and the validator that asks it. ``reached`` is set when the validator came to it."""

    def __init__(self, validator: ChallengeValidator, reached: asyncio.Event) -> None:
        self.validator = validator
        self.reached = reached


def attempt_for(validator: ChallengeValidator, identifier: Identifier | None = None, *, token: str = TOKEN, kept: Any = None) -> Attempt:
    """A validation of ``identifier`` (by default one of the first type that the validator knows)."""
    if identifier is None:
        kind = min(validator.identifier_types)
        identifier = Identifier(kind, NAMES.get(kind, "a.example"))
    challenge = Challenge(
        id="0b0f0b0e-0000-8000-8000-000000000001",
        type=validator.type,
        status="processing",
        token=token,
        identifier=Identifier(identifier.type, identifier.base),
        wildcard=identifier.wildcard,
        authorization_id="0b0f0b0e-0000-8000-8000-000000000002",
        account_id="0b0f0b0e-0000-8000-8000-000000000003",
        account_url="https://ca.example/acme/account/0b0f0b0e-0000-8000-8000-000000000003",
        expires=4_102_444_800_000_000,
        kept=kept,
    )
    account = AccountView(id=challenge.account_id, url=challenge.account_url, status="valid", thumbprint=THUMBPRINT)
    return Attempt(challenge=challenge, key_authorization=f"{token}.{THUMBPRINT}", account=account)


class ValidatorPromises(ABC):
    """What is asked of every validator; inherit one of the two classes below it."""

    identifier: ClassVar[Identifier | None] = None
    """What the attempts name; by default ``a.example``, ``127.0.0.1`` or ``someone@a.example``."""
    strange: ClassVar[Mapping[str, Sequence[str]]] = STRANGE
    """Values by identifier type that ``offers`` is asked about; a validator for other types than dns, ip and email names some of theirs."""
    kept: ClassVar[Any] = None
    """What ``create`` or ``accept`` would have returned: the attempts carry it as ``kept``."""
    verdict: ClassVar[Verdict] = VALID
    """What a right answer leads to; WAIT for validators whose answer comes another way."""

    @abstractmethod
    def _made(self) -> ChallengeValidator:
        """A validator to look at."""

    def _attempt(self, validator: ChallengeValidator) -> Attempt:
        return attempt_for(validator, self.identifier, kept=self.kept)

    def test_declares_itself(self) -> None:
        validator = self._made()

        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", validator.type)
        assert isinstance(validator.identifier_types, frozenset)
        assert validator.identifier_types <= self.strange.keys()
        assert validator.identifier_types
        assert isinstance(validator.wildcard, bool)
        assert not validator.wildcard or "dns" in validator.identifier_types
        assert validator.deadline > 0
        assert self.kept is None or isinstance(self.kept, validator.kept_as or ()), "kept is no kept_as of the validator"

    def test_members_are_json_and_stable(self) -> None:
        validator = self._made()
        challenge = self._attempt(validator).challenge

        members = validator.members(challenge)

        assert json.loads(json.dumps(members)) == members
        assert validator.members(challenge) == members
        assert not members.keys() & {"type", "url", "status", "validated", "error"}  # the kernel writes these (RFC 8555 s8)

    def test_offers_decides_for_every_identifier(self) -> None:
        validator = self._made()

        for kind in validator.identifier_types:
            for value in self.strange[kind]:
                assert isinstance(validator.offers(Identifier(kind, value)), bool)


class ChallengeValidatorContract(ValidatorPromises):
    """Inherit, say how to make the validator and how a peer that proves control answers, and the rest is tested.

    .. code-block:: python

        class TestFinger01(ChallengeValidatorContract):
            def validator(self, port):
                return Finger01(FakeResolver(loopback=True), Settings(port=port, allow_private=True))

            async def answer(self, attempt, reader, writer):
                await reader.readline()
                writer.write(attempt.key_authorization.encode())

    A validator whose target is no TCP server overrides :meth:`peer`; one that asks nobody inherits :class:`ResponseValidatorContract`.
    """

    @abstractmethod
    def validator(self, port: int) -> ChallengeValidator:
        """The validator, asking ``port`` of 127.0.0.1 whatever the identifier is."""

    def _made(self) -> ChallengeValidator:
        return self.validator(1)

    @abstractmethod
    async def answer(self, attempt: Attempt, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What a peer that proves control does with a connection; it is closed afterwards."""

    async def wrong_answer(self, attempt: Attempt, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The same protocol with the key authorization of another account."""
        stranger = msgspec.structs.replace(attempt, key_authorization=f"{attempt.token}.{THUMBPRINT[::-1]}")
        await self.answer(stranger, reader, writer)

    @asynccontextmanager
    async def peer(self, conduct: Conduct) -> AsyncIterator[Peer]:
        """A target of that conduct, and the validator that asks it."""
        reached = asyncio.Event()
        async with _tcp_server(self._handler(conduct), reached) as (server, port):
            if conduct is Conduct.CLOSED:
                server.close()
            yield Peer(self.validator(port), reached)

    def _handler(self, conduct: Conduct) -> "Handler":
        attempt = self._attempt(self.validator(1))

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            match conduct:
                case Conduct.RIGHT:
                    await self.answer(attempt, reader, writer)
                case Conduct.WRONG:
                    await self.wrong_answer(attempt, reader, writer)
                case Conduct.FLOODS:
                    writer.write(b"\x00\xff\r\n\x1b[31m" * (FLOOD_BYTES // 9))
                    await writer.drain()
                case Conduct.SILENT:
                    await asyncio.Event().wait()

        return handle

    async def _validate(self, peer: Peer) -> Verdict:
        return await _verdict(peer.validator, self._attempt(peer.validator))

    @pytest.mark.asyncio
    async def test_accepts_the_right_answer_again_and_again(self) -> None:
        async with no_task_left(), self.peer(Conduct.RIGHT) as peer:
            assert await self._validate(peer) is self.verdict
            assert await self._validate(peer) is self.verdict  # a validation is repeated after a crash

    @pytest.mark.asyncio
    @pytest.mark.parametrize(
        "conduct", [Conduct.WRONG, Conduct.CLOSED, Conduct.HANGS_UP, Conduct.FLOODS], ids=lambda conduct: conduct.value
    )
    async def test_says_what_is_wrong(self, conduct: Conduct) -> None:
        async with no_task_left(), self.peer(conduct) as peer:
            with pytest.raises(Problem) as raised:
                await self._validate(peer)

        _check_problem(raised.value)

    @pytest.mark.asyncio
    async def test_can_be_stopped_while_the_peer_is_silent(self) -> None:
        async with no_task_left(), self.peer(Conduct.SILENT) as peer:
            validation = asyncio.create_task(self._validate(peer))
            await peer.reached.wait()
            validation.cancel()

            with pytest.raises(asyncio.CancelledError):
                await validation


class ResponseValidatorContract(ValidatorPromises):
    """As :class:`ChallengeValidatorContract`, for a validator that judges what the client sent, or waits, and connects to nobody.

    ``kept`` is what a right response left, ``wrong`` has what wrong ones left.
    """

    wrong: ClassVar[Sequence[Any]] = ()

    @abstractmethod
    def validator(self) -> ChallengeValidator:
        """The validator."""

    def _made(self) -> ChallengeValidator:
        return self.validator()

    @pytest.mark.asyncio
    async def test_accepts_the_right_response_again_and_again(self) -> None:
        validator = self.validator()

        for _ in range(2):
            assert await _verdict(validator, self._attempt(validator)) is self.verdict

    @pytest.mark.asyncio
    async def test_says_what_is_wrong(self) -> None:
        validator = self.validator()

        for kept in self.wrong:
            with pytest.raises(Problem) as raised:
                await _verdict(validator, attempt_for(validator, self.identifier, kept=kept))
            _check_problem(raised.value)


async def _verdict(validator: ChallengeValidator, attempt: Attempt) -> Verdict:
    async with asyncio.timeout(validator.deadline):
        found: object = await validator.validate(attempt)
    # Whatever else it is, also the None of a forgotten return, the service takes for a fault of the validator.
    assert isinstance(found, Verdict), f"validate returned {found!r}; it returns VALID or WAIT, or raises a Problem"
    return found


def _check_problem(problem: Problem) -> None:
    assert 400 <= problem.status < 500
    assert problem.detail.isprintable()
    assert 0 < len(problem.detail) < 2000


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def no_task_left() -> AsyncIterator[None]:
    """Fails when the block leaves a task behind."""
    before = asyncio.all_tasks()
    yield
    left = [task for task in asyncio.all_tasks() - before if not task.done()]
    assert not left, f"tasks were left running: {left}"


@asynccontextmanager
async def _tcp_server(handler: Handler, reached: asyncio.Event) -> AsyncIterator[tuple[asyncio.Server, int]]:
    """A server on loopback whose connections end with the block."""
    connections: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        reached.set()
        try:
            await handler(reader, writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the validator may leave whenever it likes
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections)  # an assertion that failed in an answer fails the test
