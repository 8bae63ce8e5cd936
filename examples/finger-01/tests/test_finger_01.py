"""finger-01 against real finger servers on loopback."""

import asyncio

from greatseal.api.acme import Attempt, ChallengeValidator
from greatseal.testing.plugin import StartService
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.validators import ChallengeValidatorContract
from greatseal_finger_01 import Finger01, Settings


class TestFinger01(ChallengeValidatorContract):
    def validator(self, port: int) -> Finger01:
        return Finger01(FakeResolver(loopback=True), Settings(allow_private=True, port=port))

    async def answer(self, attempt: Attempt, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == f"{attempt.token}\r\n".encode()
        writer.write(f"{attempt.key_authorization}\r\n".encode())


async def test_the_configuration_enables_it(start_service: StartService) -> None:
    service = await start_service("resolver", "finger-01", **{"finger-01": {"port": 7979}})

    found = service.host("finger-01").components(ChallengeValidator)["finger-01"]

    assert isinstance(found, Finger01)
    assert found.settings == Settings(port=7979)
