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


def test_the_example_without_its_arguments_says_which_they_are() -> None:
    said = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=60, check=False)

    assert said.returncode == 1
    assert "relying_party.py ISSUER CLIENT_ID CLIENT_SECRET [PORT]" in said.stderr
    assert "Traceback" not in said.stderr


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


FAPI_GUIDE = ROOT / "docs/guide/fapi.md"


def test_the_client_of_fapi_signs_in_by_the_documented_commands(tmp_path: Path) -> None:
    """Every command of the guide, in its order; only the ports are ours."""
    port, here = free_port(), free_port()

    def adapted(text: str) -> str:
        return (
            text.replace("localhost:8080", f"localhost:{port}").replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace(":9001", f":{here}")
        )

    def shell(line: str, client_id: str = "", given: str | None = None) -> subprocess.Popen[str]:
        script = tmp_path / "fapi_client.py"
        text = line.replace("uv run --script examples/fapi-client/fapi_client.py", f"{sys.executable} {script}").replace(
            "CLIENT_ID", client_id
        )
        environment = {**os.environ, "GREATSEAL_SESSION": str(tmp_path / "session"), "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}"}
        process = subprocess.Popen(
            adapted(text),
            shell=True,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if given is not None:
            assert process.stdin is not None
            process.stdin.write(given)
            process.stdin.close()
            process.stdin = None
        return process

    def run(line: str, client_id: str = "", given: str = "") -> str:
        with shell(line, client_id, given) as process:
            said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, line
        return said

    def signed_in(line: str, client_id: str, password: str) -> str:
        with shell(line, client_id) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[1]
            back = Person(f"http://localhost:{port}", "admin", password).visit(url)
            assert requests.get(back, timeout=10).text == "You can close this window."
            said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
        return said

    text = FAPI_GUIDE.read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    (note,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    (tmp_path / "fapi.toml").write_text(adapted(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0]))
    source = (ROOT / "examples/fapi-client/fapi_client.py").read_text()
    (tmp_path / "fapi_client.py").write_text(source.replace("PORT = 9001", f"PORT = {here}"))

    assert note in run(blocks[0].strip())
    with running([PROGRAM, *shlex.split(blocks[1])[1:]], tmp_path, "    password  ") as greeting:
        password = greeting.split()[-1]
        keys, login, create = blocks[2].strip().splitlines()
        run(keys)
        run(login, given=f"{password}\n")
        client_id = dict(line.split(maxsplit=1) for line in run(create).splitlines())["client_id"]
        plain = signed_in(blocks[3].strip(), client_id, password)
        update, again = blocks[4].strip().splitlines()
        run(update, client_id)
        signed = signed_in(again, client_id, password)

    for said in (plain, signed):
        assert '"sub": "admin@LOCALHOST"' in said
        assert "Without the key: 401" in said
