"""Guarded connections, beyond what attackers try (tests/security)."""

import asyncio
import contextlib
import errno
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
import trustme
import uvloop
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from greatseal import __version__
from greatseal.api.problems import DnsFailure, IncorrectResponse, TlsFailure, Unreachable
from greatseal.net import AddressPolicy, Blocked, connect, fetch, open_connection, outbound
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.service import free_port

ANY = AddressPolicy(allow_private=True)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read(1000))
    writer.close()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
async def tls_port(authority: trustme.CA) -> AsyncIterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("a.example").configure_cert(context)
    async with await asyncio.start_server(web, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    except asyncio.IncompleteReadError:
        pass  # the client refused the certificate
    writer.close()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_a_conversation(port: int) -> None:
    async with open_connection("a.example", port, resolver=FakeResolver(loopback=True), policy=ANY) as peer:
        assert peer.address == "127.0.0.1"
        assert await peer.ask(b"hello", limit=5) == b"hello"


async def test_an_answer_over_the_limit_is_refused(port: int) -> None:
    with pytest.raises(IncorrectResponse, match=r'^127\.0\.0\.1 answered with over 4 bytes: "hello"$'):
        async with open_connection("a.example", port, resolver=FakeResolver(loopback=True), policy=ANY) as peer:
            await peer.ask(b"hello", limit=4)


async def test_the_next_address_is_tried_when_one_refuses(port: int) -> None:
    resolver = FakeResolver({"a.example": ["::1", "127.0.0.1"]})

    async with open_connection("a.example", port, resolver=resolver, policy=ANY) as peer:
        assert peer.address == "127.0.0.1"


@pytest.fixture
def silent(port: int) -> Iterator[FakeResolver]:
    """A name of an address that takes no connection on ``port``, and of one that does."""
    with socket.create_server(("127.0.0.3", port), backlog=0), contextlib.ExitStack() as waiting:
        for _ in range(3):  # a full queue: the kernel answers no more
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.3", port))
        yield FakeResolver({"a.example": ["127.0.0.3", "127.0.0.1"]})


async def test_a_silent_address_does_not_eat_the_time_of_the_next(port: int, silent: FakeResolver) -> None:
    async with open_connection("a.example", port, resolver=silent, policy=ANY, seconds=1) as peer:
        assert peer.address == "127.0.0.1"


async def test_a_caller_that_goes_away_is_not_connected_to_the_next(port: int, silent: FakeResolver) -> None:
    async def connected() -> str:
        async with open_connection("a.example", port, resolver=silent, policy=ANY, seconds=60) as peer:
            return peer.address

    waiting = asyncio.create_task(connected())
    await asyncio.wait([waiting], timeout=0.05)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_failure_lists_every_address_that_was_tried(unused_tcp_port: int) -> None:
    resolver = FakeResolver({"a.example": ["127.0.0.1", "::1"]})

    with pytest.raises(Unreachable, match=r"^a\.example port \d+: 127\.0\.0\.1: Connection refused; ::1: .*"):
        async with open_connection("a.example", unused_tcp_port, resolver=resolver, policy=ANY):
            pytest.fail("nothing listens there")


async def test_a_name_with_thousands_of_addresses_makes_no_port_scanner_of_us(unused_tcp_port: int) -> None:
    resolver = FakeResolver({"a.example": [f"127.0.{n // 250}.{n % 250 + 1}" for n in range(4000)]})

    with pytest.raises(Unreachable) as raised:
        async with open_connection("a.example", unused_tcp_port, resolver=resolver, policy=ANY):
            pytest.fail("nothing listens there")

    assert raised.value.detail.count("Connection refused") == 8


async def test_private_addresses_are_blocked_and_not_connected_to(port: int) -> None:
    with pytest.raises(Blocked, match=r"a\.example has the address 127\.0\.0\.1, which is not public: loopback"):
        async with open_connection("a.example", port, resolver=FakeResolver(loopback=True)):
            pytest.fail("it was connected to")


async def test_an_empty_answer_of_the_resolver_is_a_dns_problem() -> None:
    class Empty(FakeResolver):
        async def addresses(self, name: str) -> list[str]:
            return []

    with pytest.raises(DnsFailure, match=r"a\.example has no address"):
        async with open_connection("a.example", 79, resolver=Empty(), policy=ANY):
            pytest.fail("there is no address")


async def test_silence_ends_the_whole_block(port: int) -> None:
    with pytest.raises(Unreachable, match=r"^a\.example port \d+ at 127\.0\.0\.1: not finished within 0\.2 s$"):
        async with open_connection("a.example", port, resolver=FakeResolver(loopback=True), policy=ANY, seconds=0.2) as peer:
            await peer.reader.read()


async def test_a_connection_for_a_library_is_checked_and_bounded(port: int) -> None:
    resolver = FakeResolver(loopback=True)
    connected = await connect("a.example", port, resolver=resolver, policy=ANY)
    assert connected.getpeername() == ("127.0.0.1", port)
    connected.close()

    with pytest.raises(Blocked, match=r"127\.0\.0\.1"):
        await connect("a.example", port, resolver=resolver)
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1: Connection refused"):
        await connect("a.example", free_port(), resolver=resolver, policy=ANY)

    class Slow(FakeResolver):
        async def addresses(self, name: str) -> Sequence[str]:
            await asyncio.sleep(30)
            raise AssertionError(name)

    with pytest.raises(DnsFailure, match=r"no answer for the addresses of a\.example within 0\.1 s"):
        await connect("a.example", port, resolver=Slow(), policy=ANY, seconds=0.1)


async def test_an_incomplete_answer_is_a_connection_problem(port: int) -> None:
    with pytest.raises(Unreachable, match="closed before the answer was complete"):
        async with open_connection("a.example", port, resolver=FakeResolver(loopback=True), policy=ANY) as peer:
            await peer.reader.readexactly(len(await peer.ask(b"x", limit=1)))


async def test_a_reset_inside_of_the_block_is_a_connection_problem(port: int) -> None:
    with pytest.raises(Unreachable, match="Connection reset by peer"):
        async with open_connection("a.example", port, resolver=FakeResolver(loopback=True), policy=ANY):
            raise ConnectionResetError(errno.ECONNRESET, "as a read of the stream raises it")


async def test_a_callers_own_failure_passes_through(port: int) -> None:
    with pytest.raises(LookupError):
        async with open_connection("a.example", port, resolver=FakeResolver(loopback=True), policy=ANY):
            raise LookupError


async def test_tls_is_checked_under_the_name_that_was_asked_for(tls_port: int, authority: trustme.CA) -> None:
    resolver = FakeResolver(loopback=True)

    async with open_connection("a.example", tls_port, resolver=resolver, policy=ANY, tls=trusting(authority)) as peer:
        assert peer.writer.get_extra_info("ssl_object").getpeercert()["subjectAltName"] == (("DNS", "a.example"),)
    async with open_connection(
        "127.0.0.1", tls_port, resolver=resolver, policy=ANY, tls=trusting(authority), server_hostname="a.example"
    ) as peer:
        assert peer.address == "127.0.0.1"


async def test_a_failed_handshake_is_a_tls_problem(tls_port: int, port: int, authority: trustme.CA) -> None:
    resolver = FakeResolver(loopback=True)

    with pytest.raises(TlsFailure, match="certificate verify failed"):
        async with open_connection("b.example", tls_port, resolver=resolver, policy=ANY, tls=trusting(authority)):
            pytest.fail("the name is another")
    with pytest.raises(TlsFailure):
        async with open_connection("a.example", port, resolver=resolver, policy=ANY, tls=trusting(authority)):
            pytest.fail("that is no TLS server")
    with pytest.raises(TlsFailure):
        async with open_connection(
            "a.example", tls_port, resolver=resolver, policy=ANY, tls=trusting(authority), server_hostname="." * 300
        ):
            pytest.fail("TLS cannot send that name")


async def test_fetch_verifies_certificates_unless_told_otherwise(tls_port: int, authority: trustme.CA) -> None:
    url = f"https://a.example:{tls_port}/"
    resolver = FakeResolver(loopback=True)

    with pytest.raises(Unreachable, match="certificate verify failed"):
        await fetch(url, resolver=resolver, policy=ANY)
    with pytest.raises(Unreachable, match="certificate verify failed"):
        await fetch(f"https://b.example:{tls_port}/", resolver=resolver, policy=ANY, tls=trusting(authority))
    assert (await fetch(url, resolver=resolver, policy=ANY, tls=trusting(authority))).body == b"ok"
    assert (await fetch(url, resolver=resolver, policy=ANY, tls=False)).body == b"ok"


async def test_fetch_tells_who_answered_what() -> None:
    async with await asyncio.start_server(web, "127.0.0.1", 0) as server:
        url = f"http://a.example:{server.sockets[0].getsockname()[1]}/path#fragment"
        found = await fetch(url, resolver=FakeResolver(loopback=True), policy=ANY, headers={"Accept": "text/plain"})

    assert found.url == url
    assert (found.address, found.status, found.body, found.redirects) == ("127.0.0.1", 200, b"ok", 0)
    assert found.headers["content-length"] == "2"


async def test_fetch_sends_one_plain_request_and_passes_over_interim_answers() -> None:
    asked = []

    async def hesitating(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
        writer.close()

    async with await asyncio.start_server(hesitating, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        found = await fetch(f"http://a.example:{port}/a path?b=ü", resolver=FakeResolver(loopback=True), policy=ANY)

    assert (found.status, found.body) == (200, b"until the end")
    first, *fields = asked[0].decode().removesuffix("\r\n\r\n").split("\r\n")
    assert first == "GET /a%20path?b=%C3%BC HTTP/1.1"
    assert sorted(fields) == [
        "Accept-Encoding: identity",
        "Accept: */*",
        "Connection: close",
        f"Host: a.example:{port}",
        f"User-Agent: greatseal/{__version__}",
    ]


async def test_no_header_can_end_its_line(port: int) -> None:
    with pytest.raises(ValueError, match="control characters"):
        await fetch(f"http://127.0.0.1:{port}/", resolver=FakeResolver(), policy=ANY, headers={"X-Note": "a\r\nX-Other: b"})


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Len", r": Server disconnected$", id="head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", r": the body ended early$", id="body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", r": the body ended early$", id="chunk"),
    ],
)
async def test_what_ends_early_is_a_connection_problem(sent: bytes, says: str) -> None:
    async def cut_short(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        writer.close()

    async with await asyncio.start_server(cut_short, "127.0.0.1", 0) as server:
        with pytest.raises(Unreachable, match=says):
            await fetch(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", resolver=FakeResolver(), policy=ANY)


def test_the_loop_of_production_fetches_too(authority: trustme.CA) -> None:
    """Its transports are not asyncio's."""

    async def both() -> list[bytes]:
        secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("a.example").configure_cert(secure)
        found = []
        for scheme, context in (("http", None), ("https", secure)):
            async with await asyncio.start_server(web, "127.0.0.1", 0, ssl=context) as server:
                url = f"{scheme}://a.example:{server.sockets[0].getsockname()[1]}/"
                answer = await fetch(url, resolver=FakeResolver(loopback=True), policy=ANY, tls=trusting(authority))
                found.append(answer.body)
        return found

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(both()) == [b"ok", b"ok"]


@pytest.mark.parametrize(
    "url",
    ["", "a.example", "/path", "ftp://a.example/", "http://", "http://user@a.example/", "http://a.example:99999/", "http://a.example:0/"],
)
async def test_fetch_refuses_what_is_no_web_url(url: str) -> None:
    with pytest.raises(IncorrectResponse):
        await fetch(url, resolver=FakeResolver(loopback=True), policy=ANY)


async def test_fetch_takes_no_redirect_when_none_is_allowed() -> None:
    async def away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://b.example/\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(away, "127.0.0.1", 0) as server:
        url = f"http://a.example:{server.sockets[0].getsockname()[1]}/"
        resolver = FakeResolver(loopback=True)
        with pytest.raises(IncorrectResponse, match="more than 0 redirects"):
            await fetch(url, resolver=resolver, policy=ANY, redirects=0)

    assert resolver.asked == [("A", "a.example")]


PIECES = [
    "http:",
    "https:",
    "ftp:",
    "/",
    "//",
    "@",
    ":",
    "80",
    "81",
    "a.example",
    "[::1]",
    "[",
    "]",
    "%31",
    "%00",
    "..",
    "?",
    "#",
    "\\",
    "\t",
]
PLAIN = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(80|443)?)?([/?][!-~]*)?", re.IGNORECASE)


def followed(location: str) -> str | None:
    trail = outbound._Trail("http://o.example/x", 1.0)
    try:
        target = outbound._follow(URL("http://o.example/x"), location, trail)
        outbound._check_hop(target, {80, 443}, trail)
    except IncorrectResponse:
        return None
    return str(target)


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=8).map("".join))
@example("http://a.example:80#@b.example:81/")
@example("http://a.example:80?@b.example:81/")
def test_any_location_is_refused_or_leads_to_one_plain_place(location: str) -> None:
    target = followed(location)

    assert target is None or PLAIN.fullmatch(target)
