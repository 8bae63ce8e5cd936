"""`make bench-instructions`: instructions of the server for each request, by callgrind. `ARGS='--base REV'` compares with another revision.

Instructions do not depend on what else the machine does, so one run says whether a change of a few percent is one. Each figure is a run of
300 requests less one of 100 (30 orders less 10), one after another on one connection, with PYTHONHASHSEED=0.
"""

import argparse
import asyncio
import contextlib
import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import requests
from bench.acme import Responses, clients
from bench.tokens import CREDENTIALS, FORM, REFRESH, Ours
from rig.postgres import bench_cluster
from rig.provider import Person, Provider
from rig.server import Server

RESULT = Path("var/bench-instructions.json")
REQUESTS, ORDERS = (100, 300), (10, 30)
REPEATS = 3
"""The least of them counts: what the server does by itself now and then is no request's."""
LIMIT = 1.03
# Everything takes fifty times as long: nothing may be taken for long work because of that, and clients wait until a challenge is decided.
MAIN = """
import contextlib, sys
for module, names in (("writer", ("BRIEF", "TURN")), ("serializable", ("LONG",))):
    with contextlib.suppress(ImportError):
        found = __import__("greatseal.db." + module, fromlist=["x"])
        for name in names:
            setattr(found, name, 3600.0)
from greatseal.__main__ import main
sys.exit(main())
"""
PAUSE_SECONDS = 1.5
PATIENCE = 600.0

Send = Callable[[], None]


class Instrumented:
    """A server under callgrind."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def cost(self, send: Send, runs: tuple[int, int] = REQUESTS) -> float:
        """Instructions of one call of ``send``."""

        def work(count: int) -> None:
            for _ in range(count):
                send()

        return self.cost_of(work, runs)

    def cost_of(self, work: Callable[[int], object], runs: tuple[int, int]) -> float:
        """The same; ``work`` makes so many of them."""
        self._control("-i", "on")
        work(runs[0] // 10)
        fewer, more = (min(self._used(work, count) for _ in range(REPEATS)) for count in runs)
        self._control("-i", "off")
        return (more - fewer) / (runs[1] - runs[0])

    def _used(self, work: Callable[[int], object], count: int) -> int:
        before = self._instructions()
        work(count)
        return self._instructions() - before

    def _instructions(self) -> int:
        found = re.findall(r"Th\s+\d+\s+([\d,]+)", self._control("-e"))
        return sum(int(each.replace(",", "")) for each in found)

    def _control(self, *arguments: str) -> str:
        command = ["callgrind_control", *arguments, str(self._pid)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120).stdout


@contextlib.contextmanager
def instrumented(server: Server, tree: Path) -> Iterator[Instrumented]:
    """The server of a source tree, from ready to stopped."""
    callgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"]
    python = str(tree / ".venv/bin/python")
    server.program = [python, "-m", "greatseal"]
    with server.running():
        """The first start, which makes keys."""
    server.program, server.patience = [*callgrind, python, "-c", MAIN], PATIENCE
    with server.running({"PYTHONHASHSEED": "0"}) as process:
        yield Instrumented(process.pid)


def provider_rows(tree: Path, folder: Path, database: str | None, features: str) -> Iterator[tuple[str, float]]:
    """The identity provider."""
    provider = Provider(folder, database=database, features=features)
    with instrumented(provider, tree) as server, requests.Session() as http:
        ours = Ours(provider, 0, folder)
        person = Person(provider.issuer)
        ours.signed_in(ours.logins["ES256"], person)
        for name, send in requests_of(ours, http, person) if database is None else durable_requests_of(ours, http, person):
            yield name, server.cost(send)


def requests_of(ours: Ours, http: requests.Session, person: Person) -> Iterator[tuple[str, Send]]:
    """The rows; introspection takes the tokens that were made before."""

    def asking(path: str) -> Send:
        return lambda: answered(http.get(ours.provider.issuer + path, timeout=60))

    tokens: dict[str, list[str]] = {}

    def granting(format_: str) -> Send:
        kept = tokens.setdefault(format_, [])
        return lambda: kept.append(posted(ours, http, "/token", CREDENTIALS[0], format_)["access_token"])

    def introspecting(format_: str, forms: Iterator[str]) -> Send:
        def send() -> None:
            assert posted(ours, http, "/introspect", f"token={next(forms)}", format_)["active"]

        return send

    yield "discovery", asking("/.well-known/openid-configuration")
    yield "jwks", asking("/jwks")
    yield "client_credentials, RS256", granting("RS256")
    yield "client_credentials, ES256", granting("ES256")
    yield "introspection of fresh tokens", introspecting("ES256", iter(tokens["ES256"]))
    yield "introspection of repeated tokens", introspecting("ES256", itertools.cycle(tokens["ES256"][-10:]))
    yield "client_credentials, opaque", granting("opaque")
    yield "introspection of fresh opaque tokens", introspecting("opaque", iter(tokens["opaque"]))
    yield from durable_requests_of(ours, http, person)


def durable_requests_of(ours: Ours, http: requests.Session, person: Person) -> Iterator[tuple[str, Send]]:
    """The rows that write."""
    token = ours.signed_in(ours.logins["ES256"], person)

    def refresh() -> None:
        nonlocal token
        token = posted(ours, http, "/token", REFRESH + token, "ES256")["refresh_token"]

    yield "refresh with ID token", refresh
    yield "code flow", lambda: void(ours.signed_in(ours.logins["ES256"], person))


def posted(ours: Ours, http: requests.Session, path: str, body: str, format_: str) -> Mapping[str, str]:
    answer = http.post(ours.provider.issuer + path, body, auth=ours.logins[format_], headers=FORM, timeout=60)
    answered(answer)
    found: Mapping[str, str] = answer.json()
    return found


def answered(answer: requests.Response) -> None:
    assert answer.status_code == 200, answer.text


def void(_: object) -> None:
    """Nobody wants it."""


def order_rows(tree: Path, folder: Path, database: str | None, _: str) -> Iterator[tuple[str, float]]:
    """ACME."""
    server = Server(folder, [], database=database)
    with instrumented(server, tree) as process:
        numbers = itertools.count()

        async def order(count: int) -> None:
            responses = Responses()
            async with responses.served(server.validation_port), clients(server.directory, 1, responses) as (client,):
                client.pause = PAUSE_SECONDS
                for _ in range(count):
                    await client.certificate(f"order-{next(numbers)}.localhost")

        yield "ACME order", process.cost_of(lambda count: asyncio.run(order(count)), ORDERS)


def all_rows(tree: Path, features: str) -> Iterator[tuple[str, float]]:
    """Each as soon as it is known, on SQLite and on PostgreSQL."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        cluster = stack.enter_context(bench_cluster())
        for number, measured in enumerate((provider_rows, order_rows)):
            stores = {"": None} if cluster is None else {"": None, ", PostgreSQL": cluster.make()}
            for label, database in stores.items():
                place = folder / f"{number}{label.strip(', ')}"
                place.mkdir()
                for row, cost in measured(tree, place, database, features):
                    print(f"  {row + label:<52}{cost:>14,.0f}", flush=True)
                    yield row + label, cost


@contextlib.contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The source tree of a revision with an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "base"
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", str(tree), revision], check=True)
        try:
            sync = [str(Path(".uv/bin/uv").resolve()), "sync", "--quiet", "--all-groups", "--python", sys.executable]
            subprocess.run(sync, check=True, cwd=tree)
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-instructions", description=__doc__)
    parser.add_argument("--base", metavar="REV", help="a revision, or a file that an earlier run wrote")
    parser.add_argument(
        "--features", metavar="SET", default="idp", help="of the identity provider: idp, or idp-all with features that no row uses"
    )
    given = parser.parse_args()
    base: dict[str, float] = {}
    if given.base is not None:
        print(given.base)
        if Path(given.base).is_file():
            base = msgspec.json.decode(Path(given.base).read_bytes(), type=dict[str, float])
        else:
            with checked_out(given.base) as tree:
                base = dict(all_rows(tree, given.features))
    print("here")
    here = dict(all_rows(Path.cwd(), given.features))
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(here), indent=2) + b"\n")
    print(f"written to {RESULT}")
    dearer = [name for name in base if name in here and here[name] > LIMIT * base[name]]
    for name in (name for name in base if name in here):
        print(f"{name:<54}{here[name] / base[name] - 1:>+8.1%}{'  DEARER' if name in dearer else ''}")
    sys.exit(1 if dearer else 0)


if __name__ == "__main__":
    main()
