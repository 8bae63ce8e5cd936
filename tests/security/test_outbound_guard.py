"""Attacks on validations that connect to what a stranger named: security-checks S122 to S126, with http-01 as the victim, and tls-alpn-01.

The servers are real and listen on loopback. Which addresses the process connects to is seen by the interpreter's audit events, so an
attempt counts even where nothing listens.
"""

import asyncio
import gzip
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import pairwise

import pytest
import trustme

from greatseal.api.acme import VALID, Attempt, Identifier
from greatseal.api.problems import DnsFailure, IncorrectResponse, Unreachable
from greatseal.net import AddressPolicy, TorAccess, fetch
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.validators import attempt_for
from greatseal_http_01.http_01 import Http01
from greatseal_http_01.settings import HttpValidation
from greatseal_tls_alpn_01.settings import Guard, TlsAlpnValidation
from greatseal_tls_alpn_01.tls_alpn_01 import TlsAlpn01

HOME = "127.0.0.2"
"""Stands for the one public address of the internet of these tests."""

ADDRESSES = [
    "127.0.0.1", "0.0.0.0", "10.0.0.1", "100.64.0.1", "168.63.129.16", "169.254.169.254", "172.16.0.1", "192.0.0.8", "192.88.99.1",
    "192.168.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::", "2001:0:7f00:1::", "3fff::1", "5f00::1",
    "fc00::1", "fe80::1", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip
SPELLINGS = ["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "0", "127.0.0.1."]


class Internet(AddressPolicy, frozen=True):
    """The real table, and HOME beside it."""

    def refusal(self, address: str) -> str | None:
        return None if address == HOME else AddressPolicy.refusal(self, address)


class Web:
    """A web server on HOME. ``pages`` maps a path to the bytes of a whole answer, or to an endless supply of them."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes | Callable[[], AsyncIterator[bytes]]] = {}
        self.port = 0
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(request)
            page = self.pages.get(request.split()[1].decode(), b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                async for part in page():
                    writer.write(part)
                    await writer.drain()
        except (OSError, EOFError):
            pass  # the validator left
        finally:
            writer.close()

    def redirect(self, path: str, location: str, status: int = 302) -> None:
        self.pages[path] = f"HTTP/1.1 {status} Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


class Watch:
    """The addresses that sockets were connected to while it is on."""

    on: list[str] | None = None


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.connect" and Watch.on is not None:
        place = arguments[1]
        assert isinstance(place, tuple)
        Watch.on.append(place[0])


sys.addaudithook(_audit)


@pytest.fixture
def connects() -> Iterator[list[str]]:
    Watch.on = []
    yield Watch.on
    Watch.on = None


class Trap:
    """A listener on every address of this machine."""

    def __init__(self) -> None:
        self.port = 0
        self.accepted = 0

    async def accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        writer.close()


@pytest.fixture
async def trap() -> AsyncIterator[Trap]:
    trap = Trap()
    both = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    async with await asyncio.start_server(trap.accept, sock=both) as server:
        trap.port = server.sockets[0].getsockname()[1]
        yield trap


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    site = Web()
    server = await asyncio.start_server(site.serve, HOME, 0)
    site.port = server.sockets[0].getsockname()[1]
    yield site
    server.close()


def public_http_01(resolver: FakeResolver, port: int) -> Http01:
    validator = Http01(resolver, HttpValidation(http_validation_port=port), TorAccess())
    validator.policy = Internet()
    return validator


def challenge(name: str = "a.example") -> Attempt:
    return attempt_for(Http01(FakeResolver(), HttpValidation(), TorAccess()), Identifier("dns", name))


PATH = f"/.well-known/acme-challenge/{challenge().token}"
RIGHT = f"HTTP/1.1 200 OK\r\nContent-Length: {len(challenge().key_authorization)}\r\n\r\n{challenge().key_authorization}".encode()


async def test_the_rig_itself_validates(web: Web, connects: list[str]) -> None:
    web.pages[PATH] = RIGHT

    assert await public_http_01(FakeResolver({"a.example": [HOME]}), web.port).validate(challenge()) is VALID
    assert connects == [HOME]


@pytest.mark.parametrize("address", ADDRESSES)
async def test_s122_ca_210_no_connect_to_a_special_address_in_dns(address: str, trap: Trap, connects: list[str]) -> None:
    validator = Http01(FakeResolver({"a.example": [address]}), HttpValidation(http_validation_port=trap.port), TorAccess())

    with pytest.raises(IncorrectResponse, match="which is not public"):
        await validator.validate(challenge())

    assert (trap.accepted, connects) == (0, [])


@pytest.mark.parametrize("address", ADDRESSES)
async def test_s122_ca_212_no_connect_to_a_special_address_as_identifier(address: str, trap: Trap, connects: list[str]) -> None:
    validator = Http01(FakeResolver(), HttpValidation(http_validation_port=trap.port), TorAccess())

    with pytest.raises(IncorrectResponse, match="which is not public"):
        await validator.validate(attempt_for(validator, Identifier("ip", address)))

    assert (trap.accepted, connects) == (0, [])


async def test_s122_s123_no_connect_to_a_special_address_by_tls_alpn_01(trap: Trap, connects: list[str]) -> None:
    for address in ADDRESSES:
        resolver = FakeResolver({"a.example": [address], "mixed.example": [HOME, address]})
        validator = TlsAlpn01(resolver, TlsAlpnValidation(tls_alpn_validation_port=trap.port), Guard(), TorAccess())
        for identifier in (Identifier("dns", "a.example"), Identifier("dns", "mixed.example"), Identifier("ip", address)):
            with pytest.raises(IncorrectResponse, match="which is not public"):
                await validator.validate(attempt_for(validator, identifier))

    assert (trap.accepted, connects) == (0, [])


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("by_name", [False, True], ids=["literal", "name"])
async def test_s122_ca_212_no_connect_to_a_special_address_by_redirect(address: str, by_name: bool, web: Web, connects: list[str]) -> None:
    host = "inner.example" if by_name else f"[{address}]" if ":" in address else address
    web.redirect(PATH, f"http://{host}:{web.port}/")
    resolver = FakeResolver({"a.example": [HOME], "inner.example": [address]})

    with pytest.raises(IncorrectResponse, match="which is not public"):
        await public_http_01(resolver, web.port).validate(challenge())

    assert connects == [HOME]


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_s122_no_other_spelling_of_an_address_is_read(spelling: str, web: Web, connects: list[str]) -> None:
    web.redirect(PATH, f"http://{spelling}:{web.port}/")
    resolver = FakeResolver({"a.example": [HOME]}, loopback=True)

    with pytest.raises(IncorrectResponse, match="neither a host name nor an IP address"):
        await public_http_01(resolver, web.port).validate(challenge())

    assert connects == [HOME]
    assert resolver.asked == [("A", "a.example")]


@pytest.mark.parametrize("addresses", [[HOME, "10.0.0.1"], ["10.0.0.1", HOME], [HOME] * 20 + ["::1"]])
async def test_s123_one_private_address_among_public_ones_refuses_all(addresses: Sequence[str], web: Web, connects: list[str]) -> None:
    web.pages[PATH] = RIGHT

    with pytest.raises(IncorrectResponse, match="which is not public"):
        await public_http_01(FakeResolver({"a.example": addresses}), web.port).validate(challenge())

    assert connects == []


async def test_s124_a_name_that_changes_its_mind_is_connected_to_where_it_was_checked(web: Web, connects: list[str]) -> None:
    web.pages[PATH] = RIGHT
    resolver = FakeResolver()
    resolver.answer("A", "a.example", [HOME], ["127.0.0.1"])

    assert await public_http_01(resolver, web.port).validate(challenge()) is VALID

    assert resolver.asked == [("A", "a.example")]
    assert connects == [HOME]


async def test_s124_a_redirect_to_the_same_name_is_checked_again(web: Web, connects: list[str]) -> None:
    web.redirect(PATH, "/elsewhere")
    resolver = FakeResolver()
    resolver.answer("A", "a.example", [HOME], ["127.0.0.1"])

    with pytest.raises(IncorrectResponse, match=r"a\.example has the address 127\.0\.0\.1, which is not public"):
        await public_http_01(resolver, web.port).validate(challenge())

    assert connects == [HOME]


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://a.example:22/", "port 22 is not allowed"),
        ("http://a.example:0/", "port 0 is not allowed"),
        ("http://a.example:65536/", "[Pp]ort"),
        ("https://a.example:8443/", "port 8443 is not allowed"),
        ("ftp://a.example/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("gopher://a.example/", "only http and https"),
        ("javascript:alert(1)", "only http and https"),
        ("http://user@a.example/", "user information"),
        ("http://user:password@a.example/", "user information"),
        ("http://@a.example/", "user information"),
        ("http:path", "only http and https"),
        ("http://%31%32%37.0.0.1/", "no host name"),
        ("http://a.example%00.b.example/", "no host name"),
        ("http:///path", "only http and https"),
        ("http://", "only http and https"),
        ("//", "only http and https"),
        ("http://a.example\\@b.example/", "no such characters"),
        ("/\tb.example", "no such characters"),
        ("http://\u0430.example/", "no such characters"),
        ("http://[::1/", "Invalid"),
        ("http://[fe80::1%25eth0]/", "no host name"),
    ],
)
async def test_s125_a_redirect_leads_only_where_the_policy_says(location: str, reason: str, web: Web, connects: list[str]) -> None:
    web.redirect(PATH, location)

    with pytest.raises(IncorrectResponse, match=reason):
        await public_http_01(FakeResolver({"a.example": [HOME], "b.example": [HOME]}), web.port).validate(challenge())

    assert connects == [HOME]


@pytest.mark.parametrize("port", [80, 443])
async def test_s125_ports_80_and_443_are_allowed_beside_the_configured_one(port: int, web: Web, connects: list[str]) -> None:
    web.redirect(PATH, f"http://b.example:{port}/")

    with pytest.raises(Unreachable):  # nothing listens there
        await public_http_01(FakeResolver({"a.example": [HOME], "b.example": [HOME]}), web.port).validate(challenge())

    assert connects == [HOME, HOME]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_s125_ca_213_ten_redirects_are_followed(status: int, web: Web) -> None:
    hops = [PATH, *(f"/{n}" for n in range(1, 11))]
    for here, there in pairwise(hops):
        web.redirect(here, there, status)
    web.pages["/10"] = RIGHT

    assert await public_http_01(FakeResolver({"a.example": [HOME]}), web.port).validate(challenge()) is VALID
    assert len(web.requests) == 11


async def test_s125_ca_213_an_eleventh_redirect_and_a_loop_are_refused(web: Web) -> None:
    web.redirect(PATH, PATH)

    with pytest.raises(IncorrectResponse, match="more than 10 redirects"):
        await public_http_01(FakeResolver({"a.example": [HOME]}), web.port).validate(challenge())

    assert len(web.requests) == 11


async def test_s125_ca_213_https_with_a_certificate_that_nobody_trusts_serves(web: Web) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("other.example").configure_cert(context)
    secure = Web()
    secure.pages["/"] = RIGHT
    server = await asyncio.start_server(secure.serve, HOME, 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    web.redirect(PATH, f"https://a.example:{port}/")
    validator = public_http_01(FakeResolver({"a.example": [HOME]}), web.port)
    validator.ports = None

    assert await validator.validate(challenge()) is VALID
    server.close()


async def test_s125_a_callers_secrets_are_not_sent_anywhere(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    web.pages[PATH] = b"HTTP/1.1 302 Found\r\nLocation: /next\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    web.pages["/next"] = RIGHT

    assert await public_http_01(FakeResolver({"a.example": [HOME]}), web.port).validate(challenge()) is VALID

    names = {line.partition(b":")[0].lower() for line in web.requests[1].split(b"\r\n")[1:] if line}
    assert names == {b"host", b"user-agent", b"accept", b"accept-encoding", b"connection"}


def answered(body: bytes, *headers: bytes, length: int | None = None) -> bytes:
    fields = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (fields, len(body) if length is None else length, body)


AUTHORIZATION = challenge().key_authorization.encode()


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (answered(b"x" * (1024 * 1024 + 1)), "over 1048576 bytes"),
        (answered(b"", length=10**15), "over 1048576 bytes"),
        (answered(AUTHORIZATION + b" " * (1024 * 1024)), "over 1048576 bytes"),
        (answered(gzip.compress(b"\0" * 10_000_000), b"Content-Encoding: gzip"), "expected|not UTF-8"),
        (answered(gzip.compress(AUTHORIZATION), b"Content-Encoding: gzip"), "not UTF-8"),
        (answered(b"\xef\xbb\xbf" + AUTHORIZATION), "expected"),
        (answered(AUTHORIZATION + b"\0"), "expected"),
        (answered(AUTHORIZATION + b"\xff"), "not UTF-8"),
        (answered(AUTHORIZATION.lower()), "expected"),
        (answered(b""), "expected"),
    ],
    ids=["1 MiB + 1", "length", "padding", "bomb", "gzip", "mark", "nul", "utf-8", "case", "empty"],
)
async def test_s126_ca_206_ca_215_ca_217_a_body_that_is_not_the_answer_is_refused(page: bytes, reason: str, web: Web) -> None:
    web.pages[PATH] = page

    with pytest.raises(IncorrectResponse, match=reason):
        await public_http_01(FakeResolver({"a.example": [HOME]}), web.port).validate(challenge())


@pytest.mark.parametrize(
    "body",
    [AUTHORIZATION + b"\r\n", b"\r\n " + AUTHORIZATION + b"\n\n", AUTHORIZATION + b"\t", AUTHORIZATION.ljust(1024 * 1024)],
    ids=["line", "lines", "tab", "1 MiB"],
)
async def test_s126_ca_214_ca_215_white_space_around_the_answer_is_trimmed(body: bytes, web: Web) -> None:
    web.pages[PATH] = answered(body)

    assert await public_http_01(FakeResolver({"a.example": [HOME]}), web.port).validate(challenge()) is VALID


@pytest.mark.parametrize(
    "page",
    [
        answered(AUTHORIZATION, length=len(AUTHORIZATION) + 1),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\n" + b"X" * 100_000,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"",
    ],
    ids=["length", "chunk", "header", "headers", "two lengths", "line", "ssh", "tls", "nothing"],
)
async def test_s126_ca_216_what_is_not_http_is_a_connection_problem(page: bytes, web: Web) -> None:
    web.pages[PATH] = page

    with pytest.raises(Unreachable) as raised:
        await public_http_01(FakeResolver({"a.example": [HOME]}), web.port).validate(challenge())

    assert raised.value.detail.isprintable()
    assert f"at {HOME}: " in raised.value.detail


async def endless_chunks() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    while True:
        yield b"400\r\n" + b"x" * 1024 + b"\r\n"


async def test_s126_chunks_for_ever_end_at_the_limit(web: Web) -> None:
    web.pages[PATH] = endless_chunks

    with pytest.raises(IncorrectResponse, match="over 1048576 bytes"):
        await public_http_01(FakeResolver({"a.example": [HOME]}), web.port).validate(challenge())


async def slow_body() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    while True:
        yield b"x"
        await asyncio.sleep(0.02)  # the attack itself: a byte now and then


async def slow_head() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        yield b"X: y\r\n"
        await asyncio.sleep(0.02)


async def endless_interim() -> AsyncIterator[bytes]:
    while True:
        yield b"HTTP/1.1 103 Early Hints\r\n\r\n"
        await asyncio.sleep(0)


@pytest.mark.parametrize("page", [slow_body, slow_head, endless_interim])
async def test_s126_a_slow_answer_ends_at_the_time_limit(page: Callable[[], AsyncIterator[bytes]], web: Web) -> None:
    web.pages["/"] = page

    with pytest.raises(Unreachable, match=r"at 127\.0\.0\.2: "):
        await fetch(f"http://a.example:{web.port}/", resolver=FakeResolver({"a.example": [HOME]}), policy=Internet(), seconds=0.5)


async def test_s126_redirects_do_not_renew_the_time(web: Web) -> None:
    async def slow_redirect() -> AsyncIterator[bytes]:
        await asyncio.sleep(0.2)
        yield b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"

    web.pages["/"] = slow_redirect

    with pytest.raises(Unreachable, match=r"within 0\.5 s"):
        await fetch(f"http://a.example:{web.port}/", resolver=FakeResolver({"a.example": [HOME]}), policy=Internet(), seconds=0.5)
    assert len(web.requests) < 5


async def test_s126_a_resolver_that_never_answers_ends_at_the_time_limit() -> None:
    class Silent(FakeResolver):
        async def addresses(self, name: str) -> Sequence[str]:
            await asyncio.Event().wait()
            raise AssertionError

    with pytest.raises(DnsFailure, match=r"no answer for the addresses of a\.example within 0\.1 s"):
        await fetch("http://a.example/", resolver=Silent(), seconds=0.1)


def test_s126_the_whole_validation_has_ten_seconds() -> None:
    import inspect

    assert inspect.signature(fetch).parameters["seconds"].default == 10.0  # ruling R81
    assert Http01.deadline > 10.0  # so that the message says how far it came
