"""Calls of another node: they travel as they came, run there once, and their answer comes back as it was given."""

import asyncio
import gzip
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import structlog

from greatseal.api.http import AuthScheme, Caller, Reply, Route, Rule
from greatseal.api.nodes import Forwarded, Forwarding, OwnerUnavailable, owner_of_path, packed, unpacked, unpacked_problem
from greatseal.api.problems import BadRequest, Forbidden, Problem, Unavailable
from greatseal.api.store import Refused
from greatseal.clock import FakeClock
from greatseal.handles import NodeHandles
from greatseal.http.dispatch import Dispatcher
from greatseal.http.owners import LARGEST, Owners
from greatseal.http.runs import Runs
from greatseal.testing.nodes import Nodes, Wire

LABELS = ("n1", "n2", "n3")


class Named(Rule, frozen=True):
    """Whoever says a name."""


class Naming(AuthScheme):
    """Believes the header X-Name, and marks its answers."""

    rule = Named

    def __init__(self, label: str) -> None:
        self.label = label

    async def authenticate(self, call):
        if "X-Name" not in call.headers:
            raise Forbidden("no name")
        return Caller(subject=call.headers["X-Name"])

    def finish(self, call, reply):
        return reply.with_headers(("X-Finished", self.label))


class Node:
    """One node without a database: its routes, and its side of the wires."""

    def __init__(self, label: str, nodes: Nodes, routes: Callable[["Node"], list[Route]]) -> None:
        self.label = label
        self.handles = NodeHandles(label, FakeClock(), LABELS)
        self.seen: list[str] = []
        self.release = asyncio.Event()
        self.release.set()
        self.begun = asyncio.Event()
        self.wire = Wire(nodes, label)
        self.owners = Owners(self.wire, self.handles.new_id)
        self.routes = routes(self)

    @property
    def host(self) -> Any:
        return self

    def runs(self, **more: Any) -> Runs:
        log = structlog.get_logger()
        dispatcher = Dispatcher(
            self.routes,
            {Named: Naming(self.label)},
            base_url="https://id.example.org",
            max_body_bytes=2 * LARGEST,
            trusted_proxies=(),
            log=log,
            owners=self.owners,
        )
        boot = f"boot-of-{self.label}"
        return Runs(boot, self.wire, dispatcher.handle_forwarded, sender_of=self.handles.owner_of_id, log=log, **more)

    async def answer(self, call: Any) -> Reply:
        body = await call.raw()
        self.seen.append(body.decode())
        self.begun.set()
        await self.release.wait()
        told = {
            "node": self.label,
            "count": len(self.seen),
            "method": call.method,
            "url": call.url,
            "id": call.path.get("id"),
            "query": dict(call.query),
            "remote": call.remote,
            "headers": [[name.lower(), value] for name, value in call.headers.items()],
            "twice": call.header_values("X-Twice"),
            "body": body.decode(),
            "has_body": call.has_body,
        }
        return Reply.json(told, headers={"X-Of": self.label})


def routes_of(node: Node) -> list[Route]:
    owner = owner_of_path(node.host, "id")
    common: dict[str, Any] = {"owner": owner, "content_types": ()}
    return [
        Route("POST", "/things/{id}", node.answer, **common),
        Route("GET", "/things/{id}", node.answer, **common),
        Route("POST", "/named/{id}", node.answer, auth=Named(), **common),
        Route("POST", "/typed/{id}", node.answer, owner=owner),
        *(Route("POST", f"/{style}/{{id}}", node.answer, style=style, **common) for style in ("oauth", "acme", "api", "page")),
    ]


class Lab:
    """Three nodes; n1 has a listener."""

    def __init__(self, serve: Any) -> None:
        self.serve = serve
        self.nodes = Nodes([], LABELS)
        self.n1, self.n2, self.n3 = (Node(label, self.nodes, routes_of) for label in LABELS)

    async def open(self, *, routes: list[Route] | None = None, **more: Any) -> Any:
        runs: dict[str, Runs] = {}
        for node in (self.n2, self.n3):
            runs[node.label] = node.runs(**more)
            self.nodes.start(node.label, f"boot-of-{node.label}", runs[node.label].answer)
        self.of_n2 = runs["n2"]
        schemes = {Named: Naming("n1")}
        settings = {"max_body_bytes": 2 * LARGEST, "trusted_proxies": ("127.0.0.1/32",)}
        self.served = await self.serve(routes or self.n1.routes, schemes, owners=self.n1.owners, **settings)
        return self.served

    def path(self, of: Node | None = None, prefix: str = "things") -> str:
        return f"/{prefix}/{(of or self.n2).handles.new_id()}"

    def ask(self, path: str = "", *, body: bytes | None = b"hello", method: str = "POST", **more: Any) -> Any:
        return self.served.ask(method, path or self.path(), body=body, **more)


@pytest.fixture
def lab(serve):
    return Lab(serve)


async def test_a_call_travels_as_it_came_and_its_answer_comes_back_as_it_was_given(lab):
    await lab.open()
    path = lab.path()
    client = await lab.served.client()
    body = gzip.compress(b'{"a": 1}')
    await client.send(
        f"POST {path}?scope=a+b HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
        "X-Twice: one\r\nX-Twice: two\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n"
        "X-Forwarded-For: 192.0.2.7\r\nForwarded: for=192.0.2.7\r\nX-Forwarded-Proto: https\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    answer = await client.answer()

    assert (answer.status, answer.headers["x-of"]) == (200, "n2")
    told = answer.json
    assert (told["node"], told["method"], told["url"]) == ("n2", "POST", f"https://id.example.org{path}?scope=a+b")
    assert (told["query"], told["remote"], told["body"], told["has_body"]) == ({"scope": "a b"}, "192.0.2.7", '{"a": 1}', True)
    assert told["twice"] == ["one", "two"]
    assert {name for name, _ in told["headers"]} == {"host", "content-type", "x-twice"}
    (line,) = [line for line in lab.served.log if line["event"] == "request"]
    assert (line["status"], line["owner"], line["op_id"]) == (200, "n2", lab.nodes.calls[0].op_id)


async def test_what_this_node_owns_what_nobody_owns_and_what_is_no_id_stays_here(lab):
    await lab.open()
    stranger = NodeHandles("other", FakeClock()).new_id()

    for id in (lab.n1.handles.new_id(), stranger, "no-id"):
        answer = await lab.ask(f"/things/{id}")
        assert (answer.status, answer.json["node"]) == (200, "n1")
    assert not lab.nodes.calls


async def test_without_peers_the_owner_is_not_asked(serve):
    async def never(_call):
        raise AssertionError

    async def answer(_call):
        return Reply.text("here")

    served = await serve([Route("GET", "/x", answer, owner=never)])

    assert (await served.ask("GET", "/x")).body == b"here"


async def test_the_owner_proves_the_caller_and_it_alone_finishes_the_answer(lab):
    await lab.open()

    unknown = await lab.ask(lab.path(prefix="named"))
    known = await lab.ask(lab.path(prefix="named"), headers={"X-Name": "ann"})

    assert [(one.status, one.headers["x-finished"]) for one in (unknown, known)] == [(403, "n2"), (200, "n2")]
    assert lab.n2.seen == ["hello"]
    assert not lab.n1.seen


async def test_a_get_and_a_head_travel_too(lab):
    await lab.open()

    assert (await lab.ask(method="GET", body=None)).json["has_body"] is False
    client = await lab.served.client()
    assert (await client.ask("HEAD", lab.path())).status == 200
    assert [call.method for call in lab.nodes.calls] == ["GET", "HEAD"]


async def test_the_body_is_read_by_the_rules_of_the_route_before_it_travels(lab):
    await lab.open()

    refused = await lab.ask(lab.path(prefix="typed"), headers={"Content-Type": "text/plain"})
    large = await lab.ask(body=b"x" * (LARGEST + 1))

    assert (refused.status, large.status) == (415, 413)
    assert not lab.nodes.calls


async def test_the_certificate_that_a_proxy_has_seen_goes_with_the_call(lab):
    await lab.open()

    await lab.ask(headers={"Client-Cert": ":MIIB:"})

    assert lab.nodes.calls[0].certificate == b64decode("MIIB")


async def test_a_lost_reply_is_asked_for_once_more_and_comes_in_the_same_bytes(lab):
    await lab.open()
    lab.nodes.replies_to_lose = 1

    answer = await lab.ask()

    assert (answer.status, answer.json["count"], len(lab.n2.seen)) == (200, 1, 1)
    first, second = lab.nodes.calls
    assert first.op_id == second.op_id


async def test_two_lost_replies_are_an_outage_and_nothing_ran_twice(lab):
    await lab.open()
    lab.nodes.replies_to_lose = 2

    answer = await lab.ask()

    assert (answer.status, answer.json["error"]) == (503, "temporarily_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert (len(lab.nodes.calls), len(lab.n2.seen)) == (2, 1)


async def test_a_restarted_owner_runs_nothing_of_before(lab):
    await lab.open()
    lab.nodes.boots["n2"] = "the-one-before"

    answer = await lab.ask()

    assert (answer.status, answer.json["error"]) == (503, "temporarily_unavailable")
    assert not lab.n2.seen


async def test_an_owner_that_restarted_after_a_lost_reply_runs_nothing_again(lab):
    await lab.open()
    lab.nodes.replies_to_lose = 1
    ask = lab.nodes._answerers["n2"]
    again = lab.n2.runs()

    async def answer_and_restart(forwarded: Forwarded) -> Forwarding:
        lab.nodes.start("n2", "the-next", Runs("the-next", lab.n2.wire, again.answer, sender_of=str, log=structlog.get_logger()).answer)
        return await ask(forwarded)

    lab.nodes._answerers["n2"] = answer_and_restart
    answer = await lab.ask()

    assert (answer.status, answer.json["error"]) == (503, "temporarily_unavailable")
    assert (len(lab.nodes.calls), len(lab.n2.seen)) == (2, 1)


async def test_a_busy_owner_begins_nothing(lab):
    await lab.open(most=1)
    lab.n2.release.clear()
    first = asyncio.create_task(lab.ask(body=b"first"))
    await lab.n2.begun.wait()

    second = await lab.ask(body=b"second")
    lab.n2.release.set()

    assert second.status == 503
    assert (await first).status == 200
    assert lab.n2.seen == ["first"]


async def test_what_was_passed_on_is_never_passed_on_again(lab):
    n1 = Node("n1", lab.nodes, lambda node: [Route("POST", "/things/{id}", node.answer, owner=says_n2, content_types=())])
    await lab.open(routes=n1.routes)

    answer = await lab.ask(lab.path(lab.n3))  # n2 knows better whose it is

    assert (answer.status, answer.json["error"]) == (503, "temporarily_unavailable")
    assert len(lab.nodes.calls) == 1
    assert not [*lab.n2.seen, *lab.n3.seen]


async def says_n2(_call):
    return "n2"


async def test_only_routes_with_an_owner_answer_other_nodes(lab):
    await lab.open()
    reachable = [Route("POST", path, lab.n1.answer, owner=says_n2, content_types=()) for path in ("/things/{id}", "/plain", "/nothing")]
    lab.n2.routes.append(Route("POST", "/plain", lab.n2.answer, content_types=()))
    await lab.open(routes=reachable)

    assert [(await lab.ask(path)).status for path in (lab.path(), "/plain", "/nothing")] == [200, 503, 503]
    assert len(lab.n2.seen) == 1


async def test_the_owner_waits_for_the_changes_that_its_sender_had(lab):
    await lab.open()
    lab.nodes._heard["n1"] = 3
    lab.nodes.held = True
    asking = asyncio.create_task(lab.ask())
    await lab.nodes.catching_up.wait()
    assert not lab.n2.seen

    async with lab.nodes._settled:
        lab.nodes._sent["n1"] = 3
        lab.nodes._settled.notify_all()

    assert (await asking).status == 200


async def test_an_owner_that_does_not_catch_up_in_time_begins_nothing(lab):
    await lab.open()

    late = await lab.of_n2.answer(a_call(lab, seen=3, deadline_ms=1))
    await lab.of_n2.stop(60)

    assert late == Forwarding(outcome="busy")
    assert not lab.n2.seen


async def test_what_no_node_of_ours_sent_is_not_run(lab):
    await lab.open()

    assert await lab.of_n2.answer(a_call(lab, op_id=NodeHandles("other", FakeClock()).new_id())) == Forwarding(outcome="not_mine")
    assert not lab.n2.seen


@pytest.mark.parametrize(
    ("style", "content_type", "says"),
    [
        ("oauth", "application/json", b'"error":"temporarily_unavailable"'),
        ("api", "application/json", b'"error":"temporarily_unavailable"'),
        ("acme", "application/problem+json", b"urn:ietf:params:acme:error:serverInternal"),
        ("page", "text/html; charset=utf-8", b"<html"),
    ],
)
async def test_an_owner_out_of_reach_is_an_outage_in_the_style_of_the_route(lab, style, content_type, says):
    await lab.open()
    lab.nodes.unreachable.add("n2")

    answer = await lab.ask(lab.path(prefix=style))

    assert (answer.status, answer.headers["content-type"]) == (503, content_type)
    assert says in answer.body
    assert b"n2" not in answer.body
    assert int(answer.headers["retry-after"]) > 0


async def test_an_outage_is_finished_by_the_node_that_tells_it(lab):
    await lab.open()
    lab.nodes.unreachable.add("n2")

    assert (await lab.ask(lab.path(prefix="named"))).headers["x-finished"] == "n1"


async def test_an_answer_that_is_too_large_does_not_travel(lab):
    async def large(_call):
        return Reply(body=b"x" * (LARGEST + 1))

    lab.n2.routes[0] = msgspec.structs.replace(lab.n2.routes[0], handler=large)
    await lab.open()

    assert (await lab.ask()).status == 503


async def test_a_run_goes_on_when_nobody_waits_any_more_and_the_stop_waits_for_it(lab):
    await lab.open()
    lab.n2.release.clear()
    asking = asyncio.create_task(lab.nodes.ask("n2", a_call(lab)))
    await lab.n2.begun.wait()
    asking.cancel()

    stopping = asyncio.create_task(lab.of_n2.stop(60))
    await asyncio.sleep(0)  # it begins
    assert (await lab.of_n2.answer(a_call(lab))).outcome == "busy"
    assert not stopping.done()
    lab.n2.release.set()
    await stopping

    assert len(lab.n2.seen) == 1


async def test_the_stop_cancels_what_takes_longer(lab):
    await lab.open()
    lab.n2.release.clear()
    asking = asyncio.create_task(lab.of_n2.answer(a_call(lab)))
    await lab.n2.begun.wait()

    await lab.of_n2.stop(0)

    assert (await asking).outcome == "busy"


async def test_an_answer_is_forgotten_after_its_time(lab):
    await lab.open(kept_seconds=0)
    call = a_call(lab)

    first = await lab.of_n2.answer(call)
    await asyncio.sleep(0)  # the time to keep it is none
    await asyncio.sleep(0)
    second = await lab.of_n2.answer(call)

    assert (first.outcome, second.outcome, len(lab.n2.seen)) == ("reply", "reply", 2)


def a_call(lab: Lab, **changes: Any) -> Forwarded:
    """One of n1 for n2."""
    call = Forwarded(
        op_id=lab.n1.handles.new_id(), boot="boot-of-n2", method="POST", target=lab.path(), headers=(), body=b"", remote="::1",
        certificate=None, seen=0, deadline_ms=10_000,
    )  # fmt: skip
    return msgspec.structs.replace(call, **changes)


@pytest.mark.parametrize(
    "problem",
    [
        BadRequest("x"),
        Unavailable("later", cause="a secret of ours", retry_after=7),
        OwnerUnavailable("later"),
        Forbidden("no", members={"instance": "y"}, headers={"Link": "z"}, identifier={"type": "dns"}, subproblems=[BadRequest("of it")]),
    ],
)
def test_a_problem_travels_as_a_value_and_keeps_its_class(problem):
    inside = unpacked(packed(Refused(problem)), Refused).problem
    raised = unpacked_problem(packed(problem))

    for one in (inside, raised):
        assert type(one) is type(problem)
        assert said(one) == said(problem)


def test_a_problem_of_a_class_that_is_not_known_here_says_the_same():
    class OfAPlugin(Problem):
        status, error, type = 418, "teapot", "teapot"

    content = packed(OfAPlugin("short and stout")).replace(b"OfAPlugin", b"OfAnother")

    assert said(unpacked_problem(content)) == (418, "teapot", "teapot", "short and stout", "", {}, {}, None, [])


def said(problem: Problem) -> tuple[Any, ...]:
    kind = (problem.status, problem.error, problem.type)
    told = (problem.detail, problem.cause, problem.headers, problem.members, problem.identifier)
    return (*kind, *told, [said(one) for one in problem.subproblems])


@pytest.mark.parametrize("value", [3, "text", {"a": 1}, object()])
def test_what_is_no_struct_does_not_travel(value):
    with pytest.raises(TypeError):
        packed(value)
