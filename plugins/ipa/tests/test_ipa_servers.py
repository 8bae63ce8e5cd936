"""Addresses, servers that DNS names, and answers that are used again."""

import asyncio
from types import SimpleNamespace

import pytest
import structlog

from greatseal.api.directory import DirectoryUnavailable
from greatseal.api.problems import DnsFailure, Unavailable
from greatseal.testing import FakeClock
from greatseal_ipa import servers as module
from greatseal_ipa.ldap3_link import Ldap3
from greatseal_ipa.library import Outcome, Query, Server, Terms
from greatseal_ipa.pool import Pool
from greatseal_ipa.recent import Recent
from greatseal_ipa.servers import Servers, is_of_this_machine, server_of


@pytest.mark.parametrize(
    ("uri", "server"),
    [
        ("ldap://ipa.example.com", Server("ldap", "ipa.example.com", 389)),
        ("ldaps://ipa.example.com", Server("ldaps", "ipa.example.com", 636)),
        ("ldap://ipa.example.com:3890/", Server("ldap", "ipa.example.com", 3890)),
        ("ldaps://[2001:db8::1]:6360", Server("ldaps", "2001:db8::1", 6360)),
        ("ldapi://%2Frun%2Fslapd.sock", Server("ldapi", "", 0, "/run/slapd.sock")),
    ],
)
def test_an_address(uri, server):
    assert server_of(uri) == server


@pytest.mark.parametrize(
    "uri", ["", "x.example", "http://x", "ldap://", "ldapi://x", "ldap://x/dc=y", "ldap://x?y", "ldap://a@x", "ldap://x:99999", "ldap://[x"]
)
def test_what_is_no_address_is_refused(uri):
    with pytest.raises(ValueError, match=r"."):
        server_of(uri)


@pytest.mark.parametrize(
    ("uri", "here"),
    [
        ("ldap://localhost", True),
        ("ldap://127.0.0.2", True),
        ("ldap://[::1]", True),
        ("ldapi://%2Fx", True),
        ("ldap://10.0.0.1", False),
        ("ldap://localhost.example.com", False),
    ],
)
def test_which_servers_are_of_this_machine(uri, here):
    assert is_of_this_machine(server_of(uri)) is here


class Dns:
    """RESOLVER with these SRV records: priority, weight, port, target."""

    def __init__(self, *records):
        self.records = records
        self.asked = 0

    async def query(self, name, kind):
        assert (name, kind) == ("_ldap._tcp.example.com", "SRV")
        self.asked += 1
        if not self.records:
            raise DnsFailure("no answer")
        made = (SimpleNamespace(priority=p, weight=w, port=port, target=target) for p, w, port, target in self.records)
        return SimpleNamespace(records=list(made))


def found(dns):
    return Servers([], "EXAMPLE.COM", dns, structlog.get_logger())


async def test_servers_of_dns_are_asked_in_their_order_and_only_those_of_the_domain():
    foreign = [(0, 0, 389, name) for name in ("ldap.evil.example.", "xexample.com.", "example.com.evil.example.")]
    dns = Dns((20, 0, 389, "b.example.com."), (10, 0, 3890, "A.example.com."), *foreign)
    servers = found(dns)
    await servers.find()
    await servers.find()

    assert servers.all == (Server("ldap", "a.example.com", 3890), Server("ldap", "b.example.com", 389))
    assert dns.asked == 1


async def test_of_one_priority_the_heavier_comes_first_as_its_weight_says(monkeypatch):
    monkeypatch.setattr(module.random, "random", lambda: 0.5)
    servers = found(Dns((0, 1, 389, "a.example.com"), (0, 9, 389, "b.example.com"), (0, 0, 389, "c.example.com")))
    await servers.find()

    assert [server.host[0] for server in servers.all] == ["b", "a", "c"]


async def test_dns_that_fails_leaves_what_was_found(monkeypatch):
    dns = Dns((0, 0, 389, "a.example.com"))
    servers = found(dns)
    await servers.find()
    dns.records = ()
    monkeypatch.setattr(module, "SRV_SECONDS", 0.0)
    await servers.find()

    assert [server.host for server in servers.all] == ["a.example.com"]


async def test_servers_of_the_configuration_are_not_looked_for():
    dns = Dns((0, 0, 389, "a.example.com"))
    servers = Servers([Server("ldap", "b.example.com", 389)], "EXAMPLE.COM", dns, structlog.get_logger())
    await servers.find()

    assert [server.host for server in servers.all] == ["b.example.com"]
    assert dns.asked == 0


async def test_where_no_server_is_known_it_says_so():
    servers = found(None)
    await servers.find()

    assert servers.all == ()
    assert servers.why() == "no server is known"


async def test_no_more_servers_of_dns_are_asked_than_stated():
    servers = found(Dns(*((0, 0, 389, f"a{number}.example.com") for number in range(module.MOST + 1))))
    await servers.find()

    assert len(servers.all) == module.MOST


async def test_dns_without_servers_is_an_outage():
    pool = Pool(Ldap3(), found(Dns()), Terms(), bind=lambda _: Outcome(0), blocking=SimpleNamespace(run=None), size=1)
    with pytest.raises(DirectoryUnavailable) as problem:
        await pool.search(Query(base="", attributes=()))
    await pool.look()

    assert problem.value.cause == "no answer"


class Source:
    def __init__(self):
        self.asked = 0
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self):
        self.asked += 1
        self.begun.set()
        value = self.asked
        await self.go.wait()
        return value


async def begun(recent, source):
    """A question that waits for its answer."""
    source.go.clear()
    waiting = asyncio.ensure_future(recent.get("a", source))
    await source.begun.wait()
    return waiting


async def test_an_answer_is_used_for_its_time_and_no_longer():
    clock, source = FakeClock(), Source()
    recent = Recent(5.0, clock.monotonic)

    assert [await recent.get("a", source), await recent.get("a", source)] == [1, 1]
    clock.advance(4.9)
    assert await recent.get("a", source) == 1
    clock.advance(0.1)
    assert await recent.get("a", source) == 2
    assert await recent.get("a", source, fresh=True) == 3
    recent.forget("a")
    assert await recent.get("a", source) == 4


async def test_an_answer_is_as_old_as_its_question():
    clock, source = FakeClock(), Source()
    recent = Recent(5.0, clock.monotonic)
    waiting = await begun(recent, source)
    clock.advance(5)
    source.go.set()
    await waiting

    assert await recent.get("a", source) == 2


async def test_who_comes_meanwhile_gets_the_same_and_who_goes_takes_nothing():
    recent, source = Recent(5.0, FakeClock().monotonic), Source()
    first = await begun(recent, source)
    others = [asyncio.ensure_future(recent.get("a", source)) for _ in range(4)]
    first.cancel()
    source.go.set()

    assert await asyncio.gather(*others) == [1, 1, 1, 1]


async def test_what_changed_while_it_was_asked_is_not_kept():
    recent, source = Recent(5.0, FakeClock().monotonic), Source()
    waiting = await begun(recent, source)
    recent.forget("a")
    source.go.set()
    await waiting

    assert await recent.get("a", source) == 2


async def test_a_failure_is_told_to_all_and_kept_for_nobody():
    recent = Recent(5.0, FakeClock().monotonic)

    async def fails():
        raise Unavailable("no")

    for _ in range(2):
        with pytest.raises(Unavailable):
            await recent.get("a", fails)
    assert await recent.get("a", Source()) == 1


async def test_memory_is_bounded():
    recent, source = Recent(5.0, FakeClock().monotonic, most=3), Source()
    for key in "abcd":
        await recent.get(key, source)

    assert len(recent._answers) == 3
    assert await recent.get("a", source) == 5
