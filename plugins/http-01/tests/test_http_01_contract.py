"""http-01 keeps the promises of every validator."""

import asyncio

import pytest

from greatseal.api.acme import Attempt, Identifier
from greatseal.net import TorAccess
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.validators import ChallengeValidatorContract
from greatseal_http_01.http_01 import Http01
from greatseal_http_01.settings import HttpValidation


class TestHttp01(ChallengeValidatorContract):
    def validator(self, port: int) -> Http01:
        return Http01(
            FakeResolver(loopback=True), HttpValidation(http_validation_port=port, http_validation_allow_private_ips=True), TorAccess()
        )

    async def answer(self, attempt: Attempt, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        assert request.startswith(f"GET /.well-known/acme-challenge/{attempt.token} HTTP/1.1\r\n".encode())
        body = attempt.key_authorization.encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


class TestHttp01OfAnAddress(TestHttp01):
    identifier = Identifier("ip", "127.0.0.1")


@pytest.mark.parametrize(
    ("port", "identifier", "authority"),
    [
        (80, Identifier("dns", "a.example"), "a.example"),
        (5002, Identifier("dns", "a.example"), "a.example:5002"),
        (80, Identifier("ip", "192.0.2.1"), "192.0.2.1"),
        (80, Identifier("ip", "2001:db8::1"), "[2001:db8::1]"),
        (8080, Identifier("ip", "2001:db8::1"), "[2001:db8::1]:8080"),
    ],
)
def test_the_host_carries_brackets_and_no_port_80(port: int, identifier: Identifier, authority: str) -> None:
    assert Http01(FakeResolver(), HttpValidation(http_validation_port=port), TorAccess()).authority(identifier) == authority
