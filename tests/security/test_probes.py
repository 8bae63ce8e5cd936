"""Rows S122 to S125 through whole orders, whose rules test_outbound_guard tests: what a failed probe tells whoever has to mend it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from rig.acme import AcmeClient, Site, acme_site

from greatseal.api.acme import ChallengeValidator
from greatseal.net import AddressPolicy
from greatseal.testing.dns import Answer, ScriptedDns, scripted_dns

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


async def probe(client: AcmeClient, name: str | dict[str, str]) -> dict[str, str]:
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


def make_public(site: Site) -> None:
    """Let the three addresses be public for http-01."""
    validator = site.service.host("acme").components(ChallengeValidator)["http-01"]
    validator.policy = Internet()


async def test_s122_s123_s124_ca_216_ca_217_a_failed_probe_says_what_was_asked_who_answered_and_what_was_found(site, pages, dns):
    make_public(site)
    client = await site.client()
    at_web = ("missing", "wrong", "binary", "inward", "elsewhere", "large")
    apart = {"loopback": "::1", "metadata": "169.254.169.254", "refused": NOBODY, "silent": SILENT}
    for name, address in (dict.fromkeys(at_web, WEB) | apart).items():
        records(dns, f"{name}.example", address)
    records(dns, "mixed.example", "10.0.0.1", WEB)
    dns.script("rebind.example", "A", Answer(values=(WEB,)), Answer(values=("127.0.0.1",)))
    dns.records("rebind.example", "AAAA")
    dns.script("broken.example", "A", Answer(rcode="SERVFAIL"))
    dns.script("broken.example", "AAAA", Answer(rcode="SERVFAIL"))
    pages.answers |= {
        "wrong.example": page(f"<html>{MARK}".encode()),
        "binary.example": page(b"\xff\xfe\x00"),
        "inward.example": page(b"", "301 Moved", f"Location: http://169.254.169.254:{pages.port}/latest/meta-data"),
        "elsewhere.example": page(b"", "302 Found", "Location: http://evil.example:22/"),
        "rebind.example": page(b"", "302 Found", f"Location: http://rebind.example:{pages.port}/again"),
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
        "rebind": ("incorrectResponse", ["http://rebind.example", "127.0.0.1", "not public"]),
        "loopback": ("incorrectResponse", ["http://loopback.example", "::1", "not public"]),
        "metadata": ("incorrectResponse", ["http://metadata.example", "169.254.169.254", "not public"]),
        "mixed": ("incorrectResponse", ["http://mixed.example", "10.0.0.1", "not public"]),
        "elsewhere": ("incorrectResponse", ["http://elsewhere.example", "evil.example:22", "port 22"]),
        "large": ("incorrectResponse", ["http://large.example", WEB, "1048576 bytes"]),
    }

    errors = dict(zip(expected, await asyncio.gather(*(probe(client, f"{name}.example") for name in expected)), strict=True))

    for name, (kind, parts) in expected.items():
        assert errors[name]["type"] == kind, errors[name]
        assert not [part for part in parts if part not in errors[name]["detail"]], errors[name]
        assert kind == "dns" or errors[name]["token"] in errors[name]["detail"]
    inside = await probe(client, {"type": "ip", "value": "127.0.0.1"})
    assert (inside["type"], "not public" in inside["detail"]) == ("incorrectResponse", True)
    assert pages.trapped == 0
