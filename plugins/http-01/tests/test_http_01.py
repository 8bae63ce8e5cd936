"""The lines of the interface document on http-01, against a real web server on loopback."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from greatseal.api.acme import VALID, Attempt, Connection, Dns, Identifier, IncorrectResponse
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.validators import attempt_for
from greatseal_http_01.http_01 import Http01
from greatseal_http_01.plugin import Plugin
from greatseal_http_01.settings import HttpValidation

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Site = Callable[[Handler], Awaitable[Http01]]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """``await site(handler)`` serves it and gives a validator that asks that server."""
    servers = []

    async def start(handler: Handler) -> Http01:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", handler)
        server = TestServer(application, host="127.0.0.1")
        await server.start_server()
        servers.append(server)
        return allowing_private(server.port or 0)

    yield start
    for server in servers:
        await server.close()


def allowing_private(port: int) -> Http01:
    settings = HttpValidation(http_validation_port=port, http_validation_allow_private_ips=True)
    return Http01(FakeResolver({"a.example": ["127.0.0.1"]}), settings)


def challenge(identifier: Identifier | None = None) -> Attempt:
    return attempt_for(allowing_private(80), identifier or Identifier("dns", "a.example"))


def gives(body: str | bytes, status: int = 200) -> Handler:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body if isinstance(body, bytes) else body.encode(), status=status)

    return handle


async def test_ca_209_it_fetches_the_well_known_path_of_the_token(site: Site) -> None:
    asked = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append((request.method, request.host, request.path))
        return web.Response(text=challenge().key_authorization)

    validator = await site(handle)

    assert await validator.validate(challenge()) is VALID
    assert asked == [("GET", f"a.example:{validator.port}", f"/.well-known/acme-challenge/{challenge().token}")]


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"], ["::1"], ["8.8.8.8", "192.168.0.1"]])
async def test_ca_210_an_address_that_is_not_public_is_an_incorrect_response(addresses: list[str]) -> None:
    with pytest.raises(IncorrectResponse, match=r"a\.example has the address .*, which is not public"):
        await Http01(FakeResolver({"a.example": addresses}), HttpValidation()).validate(challenge())


async def test_ca_211_the_setting_lifts_the_check(site: Site) -> None:
    validator = await site(gives(challenge().key_authorization))

    assert await validator.validate(challenge()) is VALID
    with pytest.raises(IncorrectResponse, match="not public"):
        await Http01(validator.resolver, HttpValidation(http_validation_port=validator.port)).validate(challenge())


async def test_ca_212_the_check_covers_literals() -> None:
    with pytest.raises(IncorrectResponse, match=r"127\.0\.0\.1, which is not public: loopback"):
        await Http01(FakeResolver(), HttpValidation()).validate(challenge(Identifier("ip", "127.0.0.1")))


@pytest.mark.parametrize("redirects", [1, 10])
async def test_ca_213_up_to_ten_redirects_are_followed(site: Site, redirects: int) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        done = int(request.query.get("n", "0"))
        if done < redirects:
            raise web.HTTPFound(f"?n={done + 1}")
        return web.Response(text=challenge().key_authorization)

    assert await (await site(handle)).validate(challenge()) is VALID


async def test_ca_213_an_eleventh_redirect_is_an_incorrect_response(site: Site) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(f"?n={int(request.query.get('n', '0')) + 1}")

    with pytest.raises(IncorrectResponse, match="more than 10 redirects"):
        await (await site(handle)).validate(challenge())


@pytest.mark.parametrize("status", [200, 201, 203, 206, 299])
async def test_ca_214_any_2xx_status_serves(site: Site, status: int) -> None:
    assert await (await site(gives(challenge().key_authorization, status))).validate(challenge()) is VALID


@pytest.mark.parametrize("body", [" {}\r\n", "\n\n{}", "{}\t"])
async def test_ca_214_the_body_is_trimmed(site: Site, body: str) -> None:
    assert await (await site(gives(body.format(challenge().key_authorization)))).validate(challenge()) is VALID


async def test_ca_215_a_body_of_1_mib_is_read_and_one_byte_more_refused(site: Site) -> None:
    whole = challenge().key_authorization.ljust(1024 * 1024)

    assert await (await site(gives(whole))).validate(challenge()) is VALID
    with pytest.raises(IncorrectResponse, match="status 200, and a body of over 1048576 bytes"):
        await (await site(gives(whole + " "))).validate(challenge())


async def test_ca_216_a_closed_port_is_a_connection_problem(unused_tcp_port: int) -> None:
    with pytest.raises(Connection, match=f"^http://a.example:{unused_tcp_port}/.*: 127.0.0.1: Connection refused$"):
        await allowing_private(unused_tcp_port).validate(challenge())


async def test_ca_216_a_failed_look_up_is_a_dns_problem() -> None:
    with pytest.raises(Dns, match="NXDOMAIN"):  # ruling R19
        await allowing_private(80).validate(challenge(Identifier("dns", "gone.example")))


@pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 418, 500, 503])
async def test_ca_217_another_status_is_an_incorrect_response(site: Site, status: int) -> None:
    with pytest.raises(IncorrectResponse, match=f"at 127.0.0.1 gave status {status} and .*; expected a 2xx status"):
        await (await site(gives(challenge().key_authorization, status))).validate(challenge())


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"<html>\r\n\x1b[31m", '"<html>\\r\\n\\x1b[31m"'),
        (b"", '""'),
        (b"x" * 5000, f'"{"x" * 100}"...'),
    ],
)
async def test_ca_217_the_problem_shows_what_was_found(site: Site, body: bytes, shown: str) -> None:
    with pytest.raises(IncorrectResponse) as raised:
        await (await site(gives(body))).validate(challenge())

    assert raised.value.detail.endswith(f'gave status 200 and {shown}; expected "{challenge().key_authorization}"')


async def test_ca_217_invalid_utf_8_is_an_incorrect_response(site: Site) -> None:
    with pytest.raises(IncorrectResponse, match=r'and "\\xff\\xfe", which is not UTF-8'):
        await (await site(gives(b"\xff\xfe"))).validate(challenge())


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ValueError, match=r"^http_validation_port: "):
        HttpValidation(http_validation_port=port)


@pytest.mark.parametrize(("name", "offered"), [("a.example", True), ("onion.example", True), ("a.onion", False), ("b.a.onion", False)])
def test_onion_names_are_never_looked_up(name: str, offered: bool) -> None:
    assert allowing_private(80).offers(Identifier("dns", name)) is offered  # RFC 7686 s2


def test_wildcards_are_never_proven() -> None:
    assert not Http01.wildcard  # RFC 8555 s8.3 proves one host


def test_the_plugin_owns_its_keys_and_needs_the_resolver() -> None:
    (owned,) = Plugin().settings()

    assert (owned.section, owned.struct) == ("server", HttpValidation)
    assert [key.name for key in Plugin.requires] == ["resolver"]
