"""Servers that answer and servers that do not, and connections that are kept."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
import structlog

from greatseal.api.declarations import Secret
from greatseal.api.directory import DirectoryUnavailable
from greatseal.testing.negotiate import FakeTickets
from greatseal_ipa import pool as module
from greatseal_ipa import servers as servers_module
from greatseal_ipa.assembly import Binding
from greatseal_ipa.library import Down, Entry, Found, NoTicket, Outcome, Oversized, Query, Refused, Server, Terms, Unusable
from greatseal_ipa.pool import Pool
from greatseal_ipa.servers import Servers

ONE, TWO = Server("ldap", "one", 389), Server("ldap", "two", 389)
QUERY = Query(base="dc=x", attributes=("cn",))


class Threads:
    """Two of them."""

    def __init__(self):
        self.executor = ThreadPoolExecutor(2)

    async def run(self, pool, fn, /, *args):
        return await asyncio.get_running_loop().run_in_executor(self.executor, fn, *args)


class FakeLink:
    def __init__(self, library, server):
        self.library = library
        self.server = server
        self.closed = False

    def bind(self, dn, password):
        self.library.said.append((self.server.host, "bind", dn))
        return self.library.outcomes.get(dn, Outcome(0))

    def bind_gssapi(self, credentials):
        self.library.said.append((self.server.host, "gssapi", credentials(f"ldap@{self.server.host}")))
        return Outcome(0)

    def search(self, query):
        self.library.said.append((self.server.host, "search", query.base))
        if self.closed or self in self.library.stale:
            raise Down("closed")
        if (wrong := self.library.wrong.get(self.server.host)) is not None:
            raise wrong
        return Found([Entry(self.server.host)])

    def close(self):
        self.closed = True


class FakeLibrary:
    """``down`` are the hosts that cannot be reached, ``wrong`` what their searches raise, ``stale`` links that were cut."""

    def __init__(self):
        self.down = {}
        self.wrong = {}
        self.outcomes = {}
        self.stale = set()
        self.links = []
        self.said = []

    def open(self, server, terms):
        self.said.append((server.host, "open", ""))
        if server.host in self.down:
            raise self.down[server.host]
        self.links.append(FakeLink(self, server))
        return self.links[-1]

    def count(self, what):
        return sum(1 for _, kind, _ in self.said if kind == what)


@pytest.fixture
def library():
    return FakeLibrary()


@pytest.fixture
def pool(library):
    threads = Threads()
    servers = Servers([ONE, TWO], "X", None, structlog.get_logger())
    made = Pool(library, servers, Terms(), bind=lambda link: link.bind("service", "p"), blocking=threads, size=2)
    yield made
    made.close()
    threads.executor.shutdown()


async def host(pool):
    return (await pool.search(QUERY)).entries[0].dn


async def test_a_connection_is_bound_once_and_used_again(pool, library):
    for _ in range(3):
        assert await host(pool) == "one"

    assert (library.count("open"), library.count("bind"), library.count("search")) == (1, 1, 3)


async def test_the_next_server_answers_when_the_first_is_down_which_is_asked_no_more(pool, library):
    library.down["one"] = Down("refused")

    for _ in range(3):
        assert await host(pool) == "two"

    assert [one for one in library.said if one[0] == "one"] == [("one", "open", "")]


async def test_f14_who_waits_while_a_server_hangs_does_not_wait_for_it_again(pool, library):
    library.down |= {"one": Down("silent", silent=True), "two": Down("silent", silent=True)}

    done = await asyncio.gather(*(pool.search(QUERY) for _ in range(50)), return_exceptions=True)

    assert all(isinstance(one, DirectoryUnavailable) for one in done)
    assert library.count("open") <= 4  # two threads, two servers


async def test_a_server_that_was_seen_to_answer_is_the_first_again(pool, library):
    library.down["one"] = Down("refused")
    assert await host(pool) == "two"
    await pool.look()
    assert await host(pool) == "two"
    library.down.clear()
    await pool.look()

    assert await host(pool) == "one"
    assert library.count("open") == 4  # one, two, a look, and the look whose connection is used


async def test_a_server_that_nobody_looks_after_is_asked_again_after_a_while(pool, library, monkeypatch):
    library.down |= {"one": Down("refused"), "two": Down("refused")}
    with pytest.raises(DirectoryUnavailable, match="cannot be reached"):
        await host(pool)
    library.down.clear()
    with pytest.raises(DirectoryUnavailable) as problem:
        await host(pool)
    assert "refused" in problem.value.cause

    monkeypatch.setattr(servers_module, "AGAIN_SECONDS", -1.0)
    assert await host(pool) == "one"


async def test_a_kept_connection_that_was_cut_costs_one_more(pool, library):
    await host(pool)
    library.stale.update(library.links)

    assert await host(pool) == "one"
    assert library.count("open") == 2
    assert not pool.servers.down()


async def test_a_kept_connection_that_is_silent_is_not_tried_twice(pool, library):
    await host(pool)
    library.wrong["one"] = Down("silent", silent=True)

    assert await host(pool) == "two"
    assert library.said.count(("one", "open", "")) == 1


@pytest.mark.parametrize("wrong", [Unusable("a referral"), Refused(50, "no rights"), Refused(1, "operations error")])
async def test_what_one_server_does_not_answer_another_may(pool, library, wrong):
    library.wrong["one"] = wrong

    assert await host(pool) == "two"
    assert not pool.servers.down()
    library.wrong["two"] = wrong
    with pytest.raises(DirectoryUnavailable) as problem:
        await host(pool)
    assert problem.value.cause == str(wrong)


async def test_an_answer_that_is_too_long_is_too_long_everywhere(pool, library):
    library.wrong["one"] = Oversized("far")

    with pytest.raises(Oversized):
        await host(pool)
    assert ("two", "open", "") not in library.said


@pytest.mark.parametrize(("code", "down"), [(49, []), (51, [ONE, TWO]), (52, [ONE, TWO])])
async def test_a_service_that_may_not_bind_asks_nothing(pool, library, code, down):
    library.outcomes["service"] = Outcome(code, "why")

    with pytest.raises(DirectoryUnavailable) as problem:
        await host(pool)

    assert "why" in problem.value.cause
    assert library.count("search") == 0
    assert pool.servers.down() == down
    assert all(link.closed for link in library.links)


async def test_a_service_that_cannot_say_who_it_is_leaves_no_connection(pool, library):
    def nobody(link):
        raise Down("no ticket")

    pool._bind = nobody
    with pytest.raises(DirectoryUnavailable) as problem:
        await host(pool)

    assert problem.value.cause == "no ticket; no ticket"
    assert [link.closed for link in library.links] == [True, True]


async def test_users_bind_on_connections_of_their_own(pool, library):
    await host(pool)
    library.outcomes["alice"] = Outcome(49)

    assert await pool.as_user("alice", "wrong", lambda _, outcome: outcome.code) == 49
    assert library.links[1].closed
    assert await host(pool) == "one"
    assert library.count("open") == 2


async def test_a_server_that_is_busy_checks_no_password(pool, library):
    library.outcomes["alice"] = Outcome(51, "busy")

    with pytest.raises(DirectoryUnavailable):
        await pool.as_user("alice", "p", lambda _, outcome: outcome.code)
    assert pool.servers.down() == [ONE, TWO]


async def test_no_more_connections_are_kept_than_stated(pool, library):
    for _ in range(4):
        pool._keep(ONE, module._Kept(FakeLink(library, ONE), 0.0, 0.0))

    assert len(pool._idle[ONE]) == 2


@pytest.mark.parametrize("limit", ["RECYCLE_SECONDS", "IDLE_SECONDS"])
async def test_an_old_connection_is_let_go(pool, library, monkeypatch, limit):
    await host(pool)
    monkeypatch.setattr(module, limit, 0.0)
    await host(pool)

    assert library.links[0].closed
    assert library.count("open") == 2


async def test_a_look_at_one_server_is_on_a_new_connection(pool, library):
    assert (await pool.probe(TWO, QUERY)).entries[0].dn == "two"
    assert library.links[0].closed


async def test_a_server_that_refuses_the_service_answers(pool, library):
    library.down["one"] = Down("refused")
    await host(pool)
    library.down.clear()
    library.outcomes["service"] = Outcome(49)
    await pool.look()

    assert not pool.servers.down()


def test_the_service_is_its_entry_else_its_ticket(library):
    link = FakeLink(library, ONE)

    assert Binding("cn=service", Secret("p"), FakeTickets())(link).ok
    assert Binding("", None, FakeTickets())(link).ok
    assert [kind for _, kind, _ in library.said] == ["bind", "gssapi"]


def test_without_a_ticket_the_directory_is_not_asked(library):
    tickets = FakeTickets()
    tickets.down = True

    for binding in (Binding("", None, tickets), Binding("", None, None)):
        with pytest.raises(NoTicket):
            binding(FakeLink(library, ONE))


@pytest.mark.parametrize(("error", "said"), [(NoTicket("x"), "is not asked"), (Down("x"), "does not answer")])
def test_the_log_blames_no_server_for_a_ticket(error, said):
    servers = Servers([ONE], "X", None, structlog.get_logger())
    with structlog.testing.capture_logs() as lines:
        servers.failed(ONE, error)

    assert [line["event"] for line in lines] == [f"a server of the directory {said}"]
