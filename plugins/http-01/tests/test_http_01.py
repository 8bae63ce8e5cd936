"""The lines of the interface document on http-01, against a real web server on loopback."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from greatseal.api.acme import VALID, Attempt, Identifier
from greatseal.api.problems import IncorrectResponse
from greatseal.net import TorAccess
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.tor import FakeTor
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
    return Http01(FakeResolver({"a.example": ["127.0.0.1"]}), settings, TorAccess())


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


async def test_ca_211_the_setting_lifts_the_check(site: Site) -> None:
    validator = await site(gives(challenge().key_authorization))

    assert await validator.validate(challenge()) is VALID
    with pytest.raises(IncorrectResponse, match="not public"):
        await Http01(validator.resolver, HttpValidation(http_validation_port=validator.port), TorAccess()).validate(challenge())


@pytest.mark.parametrize("status", [200, 201, 203, 206, 299])
async def test_ca_214_any_2xx_status_serves(site: Site, status: int) -> None:
    assert await (await site(gives(challenge().key_authorization, status))).validate(challenge()) is VALID


@pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 418, 500, 503])
async def test_ca_206_ca_217_another_status_is_an_incorrect_response(site: Site, status: int) -> None:
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


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ValueError, match=r"^http_validation_port: "):
        HttpValidation(http_validation_port=port)


@pytest.mark.parametrize(("name", "offered"), [("a.example", True), ("onion.example", True), ("a.onion", False), ("b.a.onion", False)])
def test_onion_names_are_never_looked_up(name: str, offered: bool) -> None:
    assert allowing_private(80).offers(Identifier("dns", name)) is offered  # RFC 7686 s2
    assert Http01(FakeResolver(), HttpValidation(), TorAccess(tor_connectivity_enabled=True)).offers(Identifier("dns", name))


async def test_an_onion_service_is_asked_by_tor(site: Site) -> None:
    onion = Identifier("dns", "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion")
    server = await site(gives(challenge(onion).key_authorization))
    async with FakeTor().served() as tor:
        tor.ports = {80: server.port}
        access = TorAccess(tor_connectivity_enabled=True, tor_socks_addr=f"127.0.0.1:{tor.port}")
        assert await Http01(FakeResolver(), HttpValidation(), access).validate(challenge(onion)) is VALID
    assert tor.asked == [(onion.value, 80)]


def test_wildcards_are_never_proven() -> None:
    assert not Http01.wildcard  # RFC 8555 s8.3 proves one host


def test_the_plugin_owns_its_keys_and_needs_the_resolver() -> None:
    assert [(one.section, one.struct) for one in Plugin().settings()] == [("server", HttpValidation), ("server", TorAccess)]
    assert [key.name for key in Plugin.requires] == ["resolver"]
