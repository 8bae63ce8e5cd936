"""The example application, from nothing to somebody who is signed in, by the commands that the documents show."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urljoin

import requests
from rig.provider import Person

from greatseal.testing.service import free_port

ROOT = Path(__file__).parents[2]
PROGRAM = str(Path(sys.executable).with_name("greatseal"))
GUIDE, README = ROOT / "docs/guide/connecting-an-application.md", ROOT / "examples/relying-party/README.md"
EXAMPLE = ROOT / "examples/relying-party/relying_party.py"


def commands(document: Path, number: int) -> list[list[str]]:
    """Those of a block of a document, as words."""
    blocks = re.findall(r"```sh\n(.*?)```", document.read_text(), re.DOTALL)
    return [shlex.split(line) for line in blocks[number].replace("\\\n", " ").splitlines()]


@contextmanager
def running(command: list[str], folder: Path, until: str) -> Iterator[str]:
    """What it printed until then. It is stopped at the end."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            said = []
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if until in line:
                    break
            yield "".join(said)
        finally:
            process.terminate()
            process.communicate(timeout=30)


def inline_metadata() -> dict[str, list[str]]:
    (block,) = re.findall(r"^# /// script\n(.*?)^# ///$", EXAMPLE.read_text(), re.DOTALL | re.MULTILINE)
    return tomllib.loads(re.sub(r"^# ?", "", block, flags=re.MULTILINE))


def test_the_example_needs_what_its_first_lines_say() -> None:
    needed = inline_metadata()["dependencies"]

    assert set(re.findall(r"^(?:import|from) (aiohttp|joserfc)", EXAMPLE.read_text(), re.MULTILINE)) == {
        one.partition(">")[0] for one in needed
    }
    for one in needed:
        name, _, oldest = one.partition(">=")
        assert tuple(map(int, version(name).split(".")[:2])) >= tuple(map(int, oldest.split(".")))
    _, install, _ = commands(README, 1)
    assert install[2:] == needed


def test_the_example_signs_in_by_the_documented_commands(tmp_path: Path) -> None:
    port, here = free_port(), free_port()
    mine = {"localhost:8080": f"localhost:{port}", "127.0.0.1:8080": f"127.0.0.1:{port}", "localhost:9000": f"localhost:{here}"}

    def adapted(text: str) -> str:
        for theirs, ours in mine.items():
            text = text.replace(theirs, ours)
        return text

    def run(command: list[str], given: str = "") -> str:
        words = [PROGRAM, *map(adapted, command[1:])]
        environment = {**os.environ, "GREATSEAL_SESSION": str(tmp_path / "session")}
        # In a session of its own there is no terminal, and the password is read from here.
        with subprocess.Popen(
            words, cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            said, _ = process.communicate(given, timeout=60)
        assert process.returncode == 0
        return said

    (tmp_path / "dev.toml").write_text(adapted((ROOT / "config/dev.toml").read_text()))
    with running([PROGRAM, "serve", "-c", "dev.toml"], tmp_path, "    password  ") as greeting:
        password = greeting.split()[-1]
        login, create = commands(GUIDE, 0)
        run(login, f"{password}\n")
        client = dict(line.split(maxsplit=1) for line in run(create).splitlines())

        ((_, _, _, path, *arguments),) = commands(README, 0)
        chosen = {"CLIENT_ID": client["client_id"], "CLIENT_SECRET": client["client_secret"]}
        words = [sys.executable, str(ROOT / path), *(chosen.get(word, adapted(word)) for word in arguments), str(here)]
        with running(words, tmp_path, "Running on"):
            application = f"http://localhost:{here}/"
            browser, person = requests.Session(), Person(f"http://localhost:{port}", "admin", password)
            asked = browser.get(f"{application}sign-in", allow_redirects=False, timeout=10)
            back = person.visit(asked.headers["Location"])
            home = browser.get(back, timeout=10)
            refreshed = browser.get(f"{application}refresh", timeout=10)
            ended = person.visit(browser.get(f"{application}sign-out", allow_redirects=False, timeout=10).headers["Location"])

    assert home.url == refreshed.url == urljoin(back, "/")
    assert "Hello, Administrator" in home.text
    assert "Hello, Administrator" in refreshed.text
    assert ended == application
