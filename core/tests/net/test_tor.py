"""The way to onion services: SOCKS 5, and nothing but addresses of version 3 over it."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest
import trustme

from greatseal.api.problems import IncorrectResponse, Problem, Unreachable
from greatseal.net import AddressPolicy, Blocked, Tor, TorAccess, fetch, open_connection
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.service import free_port
from greatseal.testing.tor import BOUND, FakeTor

NAME = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion"
NOBODY = FakeResolver()
ANY = AddressPolicy(allow_private=True)


@pytest.fixture
async def tor() -> AsyncIterator[FakeTor]:
    async with FakeTor().served() as tor:
        yield tor


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        asked = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        host = next(line for line in asked if line.startswith(b"Host: "))
        moved = b"Location: http://b." + NAME.encode() + b"/there\r\n" if b"/moved" in asked[0] else b""
        writer.write(b"HTTP/1.1 %d x\r\n%bContent-Length: %d\r\n\r\n%b" % (302 if moved else 200, moved, len(host), host))
    except asyncio.IncompleteReadError:
        pass
    writer.close()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with await asyncio.start_server(web, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def way(tor: FakeTor) -> Tor:
    return Tor("127.0.0.1", tor.port)


@pytest.mark.parametrize("bound", [BOUND, bytes.fromhex("05000004") + bytes(18), bytes.fromhex("05000003") + b"\x01a" + bytes(2)])
async def test_names_go_to_tor_as_they_are_and_nothing_is_resolved(tor: FakeTor, port: int, bound: bytes) -> None:
    tor.ports, tor.bound = {80: port}, bound

    found = await fetch(f"http://{NAME}/moved", resolver=NOBODY, tor=way(tor))

    assert (found.status, found.body, found.address) == (200, f"Host: b.{NAME}".encode(), f"b.{NAME}")
    assert tor.asked == [(NAME, 80), (f"b.{NAME}", 80)]
    assert NOBODY.asked == []


async def test_a_redirect_may_lead_out_of_tor_and_into_it(tor: FakeTor, port: int) -> None:
    tor.ports = {80: port}
    resolver = FakeResolver({"a.example": ["127.0.0.1"]})

    found = await fetch(f"http://a.example:{port}/moved", resolver=resolver, policy=ANY, tor=way(tor))

    assert found.body == f"Host: b.{NAME}".encode()
    assert tor.asked == [(f"b.{NAME}", 80)]


async def test_tls_is_made_with_the_service(tor: FakeTor) -> None:
    context, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority = trustme.CA()
    authority.issue_cert(NAME).configure_cert(context)
    authority.configure_trust(trusting)
    async with await asyncio.start_server(web, "127.0.0.1", 0, ssl=context) as server:
        tor.ports = {443: server.sockets[0].getsockname()[1]}
        async with open_connection(NAME.upper() + ".", 443, resolver=NOBODY, tls=trusting, server_hostname=NAME, tor=way(tor)) as peer:
            assert (await peer.ask(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", limit=1000)).endswith(b"Host: x")
        assert (await fetch(f"https://{NAME}/", resolver=NOBODY, tls=trusting, tor=way(tor))).status == 200
    assert tor.asked == [(NAME, 443)] * 2


@pytest.mark.parametrize("name", ["a.onion", "onion", f"{'a' * 56}.onion", NAME.replace("25nj", "25n1")])
async def test_what_is_no_address_never_comes_to_tor(tor: FakeTor, name: str) -> None:
    with pytest.raises(Problem) as raised:
        await fetch(f"http://{name}/", resolver=NOBODY, tor=way(tor))
    assert isinstance(raised.value, Blocked) or name == "onion"
    assert tor.asked == []


@pytest.mark.parametrize(
    ("greeting", "answer", "said"),
    [
        (b"\x05\x00", bytes.fromhex("05040001000000000000"), "Tor says: the service is not reachable"),
        (b"\x05\x00", bytes.fromhex("05f00001000000000000"), "Tor says: the descriptor of the service was not found"),
        (b"\x05\x00", bytes.fromhex("05630001000000000000"), "Tor says: failure 99"),
        (b"\x05\x00", bytes.fromhex("04000001000000000000"), "Tor says: failure 0"),
        (b"\x05\x00", b"\x05", "closed the connection"),
        (b"\x05\xff", None, "asks for a login, or speaks no SOCKS 5"),
        (b"HT", None, "asks for a login, or speaks no SOCKS 5"),
    ],
)
async def test_what_tor_says_is_told(tor: FakeTor, greeting: bytes, answer: bytes | None, said: str) -> None:
    tor.greeting, tor.answer = greeting, answer
    with pytest.raises(Unreachable, match=said) as raised:
        await fetch(f"http://{NAME}/", resolver=NOBODY, tor=way(tor))
    assert "127.0.0.1" not in raised.value.detail
    with pytest.raises(Unreachable, match=said):
        async with open_connection(NAME, 443, resolver=NOBODY, tor=way(tor)):
            pass


async def test_a_tor_client_that_is_not_there_is_told_without_its_address() -> None:
    with pytest.raises(Unreachable, match="the Tor client of this server does not answer") as raised:
        await fetch(f"http://{NAME}/", resolver=NOBODY, tor=Tor("127.0.0.1", free_port()))
    assert "127.0.0.1" not in raised.value.detail


async def test_ports_are_guarded_as_elsewhere(tor: FakeTor) -> None:
    with pytest.raises(IncorrectResponse, match="port 22 is not allowed"):
        await fetch(f"http://{NAME}:22/", resolver=NOBODY, ports={80}, tor=way(tor))
    assert tor.asked == []


@pytest.mark.parametrize("address", ["localhost:9050", "127.0.0.1:0", "127.0.0.1:"])
def test_an_address_of_the_tor_client_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="tor_socks_addr"):
        TorAccess(tor_socks_addr=address)


def test_the_way_is_there_when_it_is_enabled() -> None:
    assert TorAccess().tor is None
    assert TorAccess(tor_connectivity_enabled=True).tor == Tor("127.0.0.1", 9050)
    assert TorAccess(tor_connectivity_enabled=True, tor_socks_addr="[::1]").tor == Tor("::1", 9050)
