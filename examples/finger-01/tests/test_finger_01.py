"""finger-01 against real finger servers on loopback."""

import asyncio

from greatseal.api.acme import Attempt
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.validators import ChallengeValidatorContract
from greatseal_finger_01 import Finger01, Settings


class TestFinger01(ChallengeValidatorContract):
    def validator(self, port: int) -> Finger01:
        return Finger01(FakeResolver(loopback=True), Settings(allow_private=True, port=port))

    async def answer(self, attempt: Attempt, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == f"{attempt.token}\r\n".encode()
        writer.write(f"{attempt.key_authorization}\r\n".encode())
