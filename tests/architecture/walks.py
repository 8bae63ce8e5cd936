"""What a reader of one request has to follow: the files that it enters and the moves between them, noted by a profile hook.

    PYTHONPATH=tests .venv/bin/python tests/architecture/walks.py [TREE]

TREE is the source tree that serves, with an environment of its own; by default this one. Caches are warm, the database is SQLite. A fault
point is no file to follow: in a service it does nothing.
"""

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp
import requests
from rig.acme import AcmeClient, Responder, csr_for
from rig.provider import CALLBACK, Person, Provider
from rig.server import Server

REPOSITORY = Path(__file__).resolve().parents[2]
MAIN = """
import os, signal, sys, threading
entered, noting = [], False

def note(frame, event, arg):
    file = frame.f_code.co_filename
    if noting and event == "call" and "/src/greatseal" in file and not file.endswith("/greatseal/faults.py"):
        entered.append(file)

def begin(*_):
    global noting
    entered.clear()
    noting = True
    open(os.environ["WALK"], "w").close()

def end(*_):
    global noting
    noting = False
    with open(os.environ["WALK"] + ".new", "w") as file:
        file.write("\\n".join(entered))
    os.rename(file.name, os.environ["WALK"] + ".done")

threading.setprofile(note)
sys.setprofile(note)
signal.signal(signal.SIGUSR1, begin)
signal.signal(signal.SIGUSR2, end)
from greatseal.__main__ import main
sys.exit(main())
"""


class Walker:
    """A service that notes where it goes."""

    def __init__(self, server: Server, tree: Path, folder: Path) -> None:
        self.notes = folder / "walk"
        server.program = [str(tree / ".venv/bin/python"), "-c", MAIN]
        self.environ = {"WALK": str(self.notes)}
        self.pid = 0

    def begin(self) -> None:
        os.kill(self.pid, signal.SIGUSR1)
        await_file(self.notes)

    def end(self) -> list[str]:
        """The files of our own, one for each call of a function, in turn."""
        done = self.notes.with_name("walk.done")
        os.kill(self.pid, signal.SIGUSR2)
        await_file(done)
        found = done.read_text().splitlines()
        done.unlink()
        self.notes.unlink()
        return [file.partition("/src/")[2] for file in found]


def await_file(path: Path) -> None:
    for _ in range(500):
        if path.exists():
            return
        time.sleep(0.01)
    raise TimeoutError(path)


def token_walk(tree: Path, folder: Path) -> list[str]:
    """``POST /token`` with a code, for a client that gets a refresh token."""
    provider = Provider(folder, features="idp")
    walker = Walker(provider, tree, folder)
    with provider.running(walker.environ) as process:
        walker.pid = process.pid
        client = provider.register()
        login = client["client_id"], client["client_secret"]
        person = Person(provider.issuer)
        asked = {"response_type": "code", "client_id": login[0], "redirect_uri": CALLBACK, "scope": "openid offline_access", "state": "s"}
        for _ in range(3):
            back = person.visit(f"{provider.issuer}/authorize?{urlencode(asked)}")
            code = dict(parse_qsl(urlsplit(back).query))["code"]
            form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
            walker.begin()
            answer = requests.post(f"{provider.issuer}/token", form, auth=login, timeout=60)
            walked = walker.end()
            answer.raise_for_status()
    return walked


def finalize_walk(tree: Path, folder: Path) -> list[str]:
    """``POST`` to the finalize URL of an order."""
    server = Server(folder, [])
    walker = Walker(server, tree, folder)
    with server.running(walker.environ) as process:
        walker.pid = process.pid
        return asyncio.run(_finalized(server, walker))


async def _finalized(server: Server, walker: Walker) -> list[str]:
    walked: list[str] = []
    async with aiohttp.ClientSession() as session, Responder().served(server.validation_port) as responder:
        client = await AcmeClient.connect(session, server.base_url)
        await client.register()
        for number in range(3):
            order = await client.ready(responder, f"walk-{number}.localhost")
            walker.begin()
            answer = await client.finalize(order.json, csr_for(f"walk-{number}.localhost"))
            walked = walker.end()
            assert answer.status == 200, answer.body
    return walked


def moves(walked: list[str]) -> int:
    """How often the reader turns to another file."""
    return sum(before != after for before, after in pairwise(walked))


WALKS: dict[str, Callable[[Path, Path], list[str]]] = {"POST /token (authorization_code)": token_walk, "POST finalize": finalize_walk}


def main() -> None:
    tree = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else REPOSITORY
    for name, walk in WALKS.items():
        with tempfile.TemporaryDirectory() as folder:
            walked = walk(tree, Path(folder))
        print(f"{name}: {len(walked)} calls, {len(set(walked))} files, {moves(walked)} moves")
        if os.environ.get("WALK_SHOW"):
            print("\n".join(f"    {after}" for before, after in pairwise(["", *walked]) if before != after))


if __name__ == "__main__":
    main()
