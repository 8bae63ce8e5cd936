"""Rows S122 to S126 through whole orders: what is never connected to, and what a failed probe tells whoever has to mend it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from rig.acme import AcmeClient, Site, acme_site

from greatseal.api.acme import ChallengeValidator
from greatseal.net import AddressPolicy
from greatseal.testing.dns import Answer, ScriptedDns, scripted_dns

PRIVATE = {
    "loopback": ["127.0.0.1"],
    "loopback6": ["::1"],
    "metadata": ["169.254.169.254"],
    "lan": ["10.0.0.1"],
    "shared": ["100.64.0.1"],
    "mapped": ["::ffff:127.0.0.1"],
    "nat64": ["64:ff9b::7f00:1"],
    "sixtofour": ["2002:7f00:1::"],
    "multicast": ["224.0.0.1"],
    "mixed": ["127.0.0.1", "192.0.2.1"],
}
WEB, SILENT, NOBODY = "127.0.0.2", "127.0.0.3", "127.0.0.4"
MARK = "\x1b[31m\u202eleave"


class Internet(AddressPolicy, frozen=True):
    """The real table, and three public addresses beside it."""

    def refusal(self, address: str) -> str | None:
        return None if address in {WEB, SILENT, NOBODY} else AddressPolicy.refusal(self, address)


class Pages:
    """Listeners on WEB, SILENT and, as traps, on 127.0.0.1 and ::1, all on one port."""

    def __init__(self) -> None:
        self.port = 0
        self.trapped = 0
        self.answers: dict[str, bytes] = {}

    @asynccontextmanager
    async def served(self) -> AsyncIterator["Pages"]:
        async with AsyncExitStack() as stack:
            web = await stack.enter_async_context(await asyncio.start_server(self._serve, WEB, 0))
            self.port = web.sockets[0].getsockname()[1]
            for address in ("127.0.0.1", "::1"):
                await stack.enter_async_context(await asyncio.start_server(self._trap, address, self.port))
            silent = stack.enter_context(socket.create_server((SILENT, self.port)))
            silent.listen(100)
            yield self

    async def _trap(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.trapped += 1
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        host = next(line for line in head.split("\r\n") if line.lower().startswith("host:")).split(":")[1].strip()
        writer.write(self.answers.get(host, page(b"Not here", "404 Not Found")))
        await writer.drain()
        writer.close()


def page(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *more])
    return f"{head}\r\n\r\n".encode() + body


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    async with Pages().served() as pages:
        yield pages


@pytest.fixture
async def dns() -> AsyncIterator[ScriptedDns]:
    async with scripted_dns() as dns:
        yield dns


@pytest.fixture
async def site(start_service, pages, dns) -> AsyncIterator[Site]:
    server = {
        "http_validation_port": pages.port,
        "http_validation_allow_private_ips": False,
        "dns_resolver_addr": dns.address,
        "validate_dnssec": False,
    }
    async with acme_site(start_service, server=server) as site:
        yield site


def records(dns: ScriptedDns, name: str, *addresses: str) -> None:
    dns.records(name, "A", *(one for one in addresses if ":" not in one))
    dns.records(name, "AAAA", *(one for one in addresses if ":" in one))


async def probe(client: AcmeClient, name: str) -> dict[str, str]:
    """The error of the challenge after a failed validation, and everything became invalid."""
    made = await client.order(name)
    assert made.status == 201, made.body
    challenge = await client.challenge(made.json["authorizations"][0])
    await client.post(challenge["url"], {})
    authorization = await client.until(made.json["authorizations"][0], "pending")
    order = (await client.post(made.location)).json
    assert (authorization["status"], order["status"]) == ("invalid", "invalid")
    error: dict[str, str] = authorization["challenges"][0]["error"]
    assert order["error"]["type"] == error["type"]
    assert error["detail"].isprintable()
    return {**error, "type": error["type"].rpartition(":")[2], "token": challenge["token"]}


async def test_s122_s123_an_order_for_a_name_with_a_private_address_connects_nowhere(site, pages, dns):
    client = await site.client()
    for name, addresses in PRIVATE.items():
        records(dns, f"{name}.example", *addresses)

    errors = dict(zip(PRIVATE, await asyncio.gather(*(probe(client, f"{name}.example") for name in PRIVATE)), strict=True))

    assert {error["type"] for error in errors.values()} == {"incorrectResponse"}
    for name, addresses in PRIVATE.items():
        assert any(address in errors[name]["detail"] for address in addresses)
        assert "not public" in errors[name]["detail"]
    assert pages.trapped == 0


async def test_s122_an_address_as_identifier_connects_nowhere(site, pages):
    client = await site.client()

    errors = await asyncio.gather(
        *(probe_ip(client, address) for address in ("127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "64:ff9b::7f00:1"))
    )

    assert {error["type"] for error in errors} == {"urn:ietf:params:acme:error:incorrectResponse"}
    assert pages.trapped == 0


async def probe_ip(client: AcmeClient, address: str) -> dict[str, str]:
    made = await client.order({"type": "ip", "value": address})
    challenge = await client.challenge(made.json["authorizations"][0])
    await client.post(challenge["url"], {})
    error: dict[str, str] = (await client.until(challenge["url"], "processing"))["error"]
    return error


async def test_s124_a_name_that_changes_its_mind_is_never_followed(site, pages, dns):
    make_public(site)
    client = await site.client()
    dns.script("rebind.example", "A", Answer(values=(WEB,)), Answer(values=("127.0.0.1",)))
    dns.records("rebind.example", "AAAA")
    pages.answers["rebind.example"] = page(b"", "302 Found", f"Location: http://rebind.example:{pages.port}/again")

    error = await probe(client, "rebind.example")

    assert error["type"] == "incorrectResponse"
    assert "127.0.0.1" in error["detail"]
    assert pages.trapped == 0


def make_public(site: Site) -> None:
    """Let the three addresses be public for http-01."""
    validator = site.service.host("acme").components(ChallengeValidator)["http-01"]
    validator.policy = Internet()


async def test_bad_input_a_failed_probe_says_what_was_asked_who_answered_and_what_was_found(site, pages, dns):
    make_public(site)
    client = await site.client()
    for name, address in {
        "refused": NOBODY, "silent": SILENT, "missing": WEB, "wrong": WEB, "binary": WEB, "inward": WEB, "elsewhere": WEB, "large": WEB,
    }.items():  # fmt: skip
        records(dns, f"{name}.example", address)
    dns.script("broken.example", "A", Answer(rcode="SERVFAIL"))
    dns.script("broken.example", "AAAA", Answer(rcode="SERVFAIL"))
    pages.answers |= {
        "wrong.example": page(f"<html>{MARK}".encode()),
        "binary.example": page(b"\xff\xfe\x00"),
        "inward.example": page(b"", "301 Moved", f"Location: http://169.254.169.254:{pages.port}/latest/meta-data"),
        "elsewhere.example": page(b"", "302 Found", "Location: http://evil.example:22/"),
        "large.example": page(b"x" * (1 << 20) + b"x"),
    }
    expected = {
        "nowhere": ("dns", ["nowhere.example", "NXDOMAIN", dns.address.split(":")[0]]),
        "broken": ("dns", ["broken.example", "SERVFAIL"]),
        "refused": ("connection", ["http://refused.example", NOBODY, "Connection refused"]),
        "silent": ("connection", ["http://silent.example", SILENT, "10 s"]),
        "missing": ("incorrectResponse", ["http://missing.example", WEB, "404", "Not here"]),
        "wrong": ("incorrectResponse", ["http://wrong.example", WEB, "200", r"<html>\x1b[31m\u202eleave"]),
        "binary": ("incorrectResponse", ["http://binary.example", WEB, "200", "not UTF-8"]),
        "inward": ("incorrectResponse", ["http://inward.example", "169.254.169.254", "not public"]),
        "elsewhere": ("incorrectResponse", ["http://elsewhere.example", "evil.example:22", "port 22"]),
        "large": ("incorrectResponse", ["http://large.example", WEB, "1048576 bytes"]),
    }

    errors = dict(zip(expected, await asyncio.gather(*(probe(client, f"{name}.example") for name in expected)), strict=True))

    for name, (kind, parts) in expected.items():
        assert errors[name]["type"] == kind, errors[name]
        assert not [part for part in parts if part not in errors[name]["detail"]], errors[name]
        assert kind == "dns" or errors[name]["token"] in errors[name]["detail"]
    assert pages.trapped == 0
