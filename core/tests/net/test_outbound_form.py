"""A form through the guarded client, and the system's resolver."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from greatseal.api.problems import DnsFailure
from greatseal.net import AddressPolicy, Blocked, fetch
from greatseal.net.system import SystemResolver

ANY = AddressPolicy(allow_private=True)


class Taker:
    """Answers every request with a redirect and keeps what it got."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        self.requests.append(head + await reader.readexactly(length))
        writer.write(b"HTTP/1.1 307 Elsewhere\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")
        writer.close()


@pytest.fixture
async def taker() -> AsyncIterator[Taker]:
    taker = Taker()
    async with await asyncio.start_server(taker.take, "127.0.0.1", 0) as server:
        taker.port = server.sockets[0].getsockname()[1]
        yield taker


async def test_a_form_is_posted_once_and_no_redirect_is_followed(taker: Taker) -> None:
    url = f"http://localhost:{taker.port}/logout"

    answer = await fetch(url, resolver=SystemResolver(), policy=ANY, form={"logout_token": "a.b&c", "x": "é"})

    assert (answer.status, answer.redirects) == (307, 0)
    (request,) = taker.requests
    assert request.startswith(b"POST /logout HTTP/1.1\r\n")
    assert b"\r\nContent-Type: application/x-www-form-urlencoded\r\n" in request
    assert request.endswith(b"\r\n\r\nlogout_token=a.b%26c&x=%C3%A9")


async def test_a_form_does_not_go_to_a_private_address(taker: Taker) -> None:
    with pytest.raises(Blocked):
        await fetch(f"http://localhost:{taker.port}/", resolver=SystemResolver(), form={"a": "b"})
    assert taker.requests == []


async def test_a_name_that_the_system_does_not_know() -> None:
    with pytest.raises(DnsFailure):
        await SystemResolver().addresses("a" * 64 + ".invalid")


async def test_json_is_posted_with_the_headers_that_prove_it_and_no_redirect_is_followed(taker: Taker) -> None:
    url = f"http://localhost:{taker.port}/notified"

    answer = await fetch(url, resolver=SystemResolver(), policy=ANY, headers={"Authorization": "Bearer t"}, json={"auth_req_id": "a"})

    assert (answer.status, answer.redirects) == (307, 0)
    (request,) = taker.requests
    assert request.startswith(b"POST /notified HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer t\r\n" in request
    assert b"\r\nContent-Type: application/json\r\n" in request
    assert request.endswith(b'\r\n\r\n{"auth_req_id":"a"}')


async def test_bytes_are_posted_as_they_are_under_their_media_type(taker: Taker) -> None:
    url = f"http://localhost:{taker.port}/"

    answer = await fetch(url, resolver=SystemResolver(), policy=ANY, content=("application/octet-stream", b"\x30\x00\r\n"))

    assert (answer.status, answer.redirects) == (307, 0)
    (request,) = taker.requests
    assert b"\r\nContent-Type: application/octet-stream\r\nContent-Length: 4\r\n" in request
    assert request.endswith(b"\r\n\r\n\x30\x00\r\n")
