"""GET /acme/eab: credentials for whoever a ticket or a trusted proxy proves. With a KDC: tests/peers/test_peers_eab_kerberos.py."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from rig.tickets import install_tickets, negotiate

from greatseal.api.kerberos import NotConfigured, Ready, Unusable
from greatseal.api.problems import StartProblem
from greatseal.jose.compact import b64url_encode
from greatseal.testing.desk import Answer, Desk, forgetful
from greatseal.testing.plugin import StartService
from greatseal_eab.principals import health
from greatseal_eab.tables import key as keys

ALICE, WEB, SLOW, ODD = "alice@EXAMPLE.COM", "host/web1.example.com@EXAMPLE.COM", "bob@EXAMPLE.COM", "host/@EXAMPLE.COM"
KID, HMAC_KEY = "6Q6MBMjWXeS9qGmjo8Nr6g", "lr8OoH2IrwP-y-7tW-ZdIPyHjYAI9wSw4lPo8r1qTHw"
"""Of ALICE."""
MASTER = {"eab_master_secret": b64url_encode(bytes(range(32)))}
GIVEN = {"principal": ALICE, "kid": KID, "hmac_key": HMAC_KEY, "alg": "HS256"}
PATH = "/acme/eab"
HEADER = "X-Remote-User"
NOBODY = "WELLKNOWN/ANONYMOUS@WELLKNOWN:ANONYMOUS"
Open = Callable[..., Awaitable[Desk]]


@pytest.fixture
async def open_desk(start_service: StartService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    """``await open_desk(tickets=False, server=..., eab=...)``"""
    monkeypatch.syspath_prepend(tmp_path / "installed")
    feature = install_tickets(tmp_path / "installed", ALICE, WEB, ODD, legs=(SLOW,))

    async with forgetful() as http:

        async def start(*, tickets: bool = True, features: tuple[str, ...] = (), **sections: Any) -> Desk:
            return Desk(await start_service("eab", *((feature,) if tickets else ()), *features, **sections), http)

        yield start


@pytest.fixture
async def desk(open_desk: Open, database_url: str) -> Desk:
    return await open_desk(server=MASTER, database={"url": database_url, "migrate": "auto"})


async def ask(desk: Desk, principal: str) -> Answer:
    return await desk.get(PATH, headers=negotiate(principal))


async def test_ca_109_ca_111_ca_112_ca_191_a_ticket_gives_the_credentials_of_its_principal(desk: Desk) -> None:
    answers = await asyncio.gather(*(ask(desk, ALICE) for _ in range(10)))
    other = await ask(desk, WEB)

    assert [(one.status, one.json) for one in answers] == [(200, GIVEN)] * 10
    assert answers[0].headers.getall("WWW-Authenticate") == ["Negotiate done"]
    assert answers[0].headers["Cache-Control"] == "no-store"
    assert (other.json["principal"], len(other.json["kid"]), len(other.json["hmac_key"])) == (WEB, 22, 43)
    assert {row.kid: row.bound_principal for row in await desk.rows(keys)} == {KID: ALICE, other.json["kid"]: WEB}
    events = [(one.event_type, one.sub, one.principal, one.outcome) for one in await desk.events("eab.create", "eab.obtain")]
    assert events.count(("eab.create", KID, ALICE, "success")) == 1
    assert events.count(("eab.obtain", KID, ALICE, "success")) == 10


async def test_ca_110_without_the_master_secret_it_is_the_name_alone(open_desk: Open) -> None:
    desk = await open_desk()

    answer = await ask(desk, WEB)

    assert (answer.status, answer.json) == (200, {"principal": WEB})
    assert not await desk.rows(keys)


async def test_ca_113_what_was_used_is_409_with_the_proof_of_the_server(desk: Desk) -> None:
    await ask(desk, ALICE)
    eab: Any = desk.service.kernel.hooks.instances["eab"]
    await desk.service.host("eab").db.write(eab.keys(desk.service.host("eab")).use_up, KID)

    answer = await ask(desk, ALICE)

    assert (answer.status, answer.headers["WWW-Authenticate"]) == (409, "Negotiate done")
    assert answer.headers["Content-Type"] == "application/problem+json"
    last = (await desk.events("eab.obtain"))[-1]
    assert (last.sub, last.principal, last.outcome) == (KID, ALICE, "failure")
    assert (await ask(desk, WEB)).status == 200


@pytest.mark.parametrize("token", ["TlRMTVNTUAAB", "", "not base64!", "carol@EXAMPLE.COM", ODD, "Alice@EXAMPLE.COM"])
async def test_s081_s086_a_ticket_that_proves_nobody_is_403(desk: Desk, token: str) -> None:
    answer = await ask(desk, token)

    assert (answer.status, answer.json["type"]) == (403, "urn:ietf:params:acme:error:unauthorized")
    assert token not in answer.text or not token
    assert not await desk.rows(keys)


async def test_r71_r72_404_503_401_400_in_their_order(desk: Desk) -> None:
    negotiator = sys.modules["greatseal_tickets"].NEGOTIATOR
    host = desk.service.host("eab")
    for state, asked, answered, ok in (
        (NotConfigured(), 404, 404, True),
        (Unusable(reason="the keytab is gone"), 503, 503, False),
        (Ready(), 401, 200, True),
    ):
        negotiator.state = state
        bare, ticket = await desk.get(PATH), await ask(desk, ALICE)
        assert (bare.status, ticket.status) == (asked, answered)
        assert "keytab" not in bare.text
        assert health(host, derives=True).ok is ok
    assert (await desk.get(PATH)).headers["WWW-Authenticate"] == "Negotiate"
    assert (await desk.get(PATH, headers={"Authorization": "Basic eDp5"})).status == 401
    assert (await ask(desk, "x" * 50_000)).status == 400


async def test_two_legs_on_one_connection(desk: Desk) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as one:
        first = await Desk(desk.service, one).get(PATH, headers=negotiate(SLOW))
        second = await Desk(desk.service, one).get(PATH, headers=negotiate("more"))

    assert (first.status, first.headers["WWW-Authenticate"]) == (401, "Negotiate more")
    assert (second.status, second.json["principal"]) == (200, SLOW)


async def test_refused_tickets_are_limited_by_address_and_accepted_ones_by_their_owner(open_desk: Open) -> None:
    desk = await open_desk(server={**MASTER, "auth_rate_limit": 1})

    accepted = [(await ask(desk, ALICE)).status for _ in range(11)]
    refused = [(await ask(desk, "carol@EXAMPLE.COM")) for _ in range(2)]
    others = await ask(desk, WEB)

    assert accepted == [200] * 10 + [429]
    assert [one.status for one in refused] == [403, 429]
    assert (refused[1].json["type"], others.status) == ("urn:ietf:params:acme:error:rateLimited", 429)
    assert 0 < int(refused[1].headers["Retry-After"]) <= 300


async def test_a_proxy_brings_so_many_of_each_principal(open_desk: Open) -> None:
    server = {"trusted_proxies": ["127.0.0.1/32"], "auth_rate_limit": 1, **MASTER}
    desk = await open_desk(tickets=False, eab={"identity_header": HEADER}, server=server)

    assert [(await desk.get(PATH, headers={HEADER: ALICE})).status for _ in range(11)] == [200] * 10 + [429]
    assert (await desk.get(PATH, headers={HEADER: WEB})).status == 200


# ---- by a proxy


async def test_ca_109_ca_191_r9_a_trusted_proxy_names_the_principal(open_desk: Open) -> None:
    desk = await open_desk(tickets=False, eab={"identity_header": HEADER}, server={"trusted_proxies": ["127.0.0.1/32"], **MASTER})

    async def named(*values: str) -> Answer:
        return await desk.get(PATH, headers=dict(zip([HEADER], values, strict=False)))

    found = await named(ALICE)
    assert (found.status, found.json) == (200, GIVEN)
    assert (await named()).status == 401
    for name in (NOBODY, "alice", "alice@", "@EXAMPLE.COM", "host/@EXAMPLE.COM", "(null)", "", "alice\\"):
        assert (await named(name)).status == 403, name
    assert (await desk.get(PATH, headers=negotiate(ALICE))).status == 401
    assert len(await desk.rows(keys)) == 1


async def test_s091_a_header_that_comes_twice_is_403(open_desk: Open) -> None:
    desk = await open_desk(tickets=False, eab={"identity_header": HEADER}, server={"trusted_proxies": ["127.0.0.1/32"], **MASTER})
    host, port = desk.url.removeprefix("http://").rsplit(":", 1)

    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{HEADER}: {ALICE}\r\n{HEADER}: {WEB}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()

    assert answer.startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize("proxies", [["192.0.2.0/24"], ["unix"]])
async def test_s091_ca_191_nobody_else_is_believed(open_desk: Open, proxies: list[str]) -> None:
    desk = await open_desk(tickets=False, eab={"identity_header": HEADER}, server={"trusted_proxies": proxies, **MASTER})

    for more in ({}, {"X-Forwarded-For": "192.0.2.1"}):
        answer = await desk.get(PATH, headers={HEADER: ALICE, **more})
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Negotiate")
    assert not await desk.rows(keys)


async def test_r71_without_any_of_both_there_is_nothing(open_desk: Open) -> None:
    desk = await open_desk(tickets=False, server=MASTER)

    assert (await desk.get(PATH, headers={HEADER: ALICE, **negotiate(ALICE)})).status == 404


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"gssapi": {"gssproxy": True}, "server": {"trusted_proxies": ["unix"]}}, "leave out one of them"),
        ({}, "nobody is believed"),
    ],
)
async def test_r9_a_header_that_cannot_count_stops_the_start(open_desk: Open, sections: Any, words: str) -> None:
    features = ("gssapi",) if "gssapi" in sections else ()
    if features:
        pytest.importorskip("greatseal_gssapi")

    with pytest.raises(StartProblem, match=words):
        await open_desk(tickets=False, features=features, eab={"identity_header": HEADER}, **sections)
