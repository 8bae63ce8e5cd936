"""What a stranger installs: wheels in an empty environment, outside the workspace, and a third party's wheel beside them."""

import json
import signal
import subprocess
import urllib.request
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PathDistribution, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from greatseal.testing.service import free_port

ROOT = Path(__file__).parents[2]
OURS = ["core", "plugins/ca", "plugins/acme", "plugins/http-01", "plugins/resolver"]
THEIRS = "examples/finger-01"


@pytest.fixture
def greatseal(uv: Path, tmp_path: Path) -> Path:
    """The program in an environment of our wheels and what they say they need, and nothing of this workspace."""
    home = tmp_path / "environment"
    venv.create(home, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    install(uv, home, OURS)
    link_requirements(site)
    return home / "bin" / "greatseal"


def install(uv: Path, home: Path, parts: Sequence[str]) -> None:
    wheels = home / "wheels"
    for part in parts:
        subprocess.run([uv, "build", "--quiet", "--offline", "--wheel", "--out-dir", wheels / part, ROOT / part], check=True)
    made = [wheel for part in parts for wheel in (wheels / part).glob("*.whl")]
    command = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", home / "bin" / "python", *made]
    subprocess.run(command, check=True)


def link_requirements(site: Path) -> None:
    """Libraries are taken from where these tests run, so that no index is asked: those that the wheels name, and theirs."""
    have = {canonicalize_name(PathDistribution(one).metadata["Name"]) for one in site.glob("*.dist-info")}
    waiting = [line for one in site.glob("*.dist-info") for line in PathDistribution(one).requires or ()]
    while waiting:
        needed = Requirement(waiting.pop())
        if (needed.marker and not needed.marker.evaluate({"extra": ""})) or canonicalize_name(needed.name) in have:
            continue
        have.add(canonicalize_name(needed.name))
        library = distribution(needed.name)
        waiting += library.requires or ()
        for top in {file.parts[0] for file in library.files or ()} - {"..", "__pycache__"}:
            (site / top).symlink_to(library.locate_file(top))


Write = Callable[..., Path]


@pytest.fixture
def config(tmp_path: Path) -> Write:
    """Writes a configuration with these features and returns its path."""

    def write(port: int, *enabled: str) -> Path:
        path = tmp_path / f"{port}.toml"
        path.write_text(
            f"[plugins]\nenabled = {json.dumps(enabled)}\n"
            f'[server]\nbase_url = "http://localhost:{port}"\nlisten = "127.0.0.1:{port}"\n'
            f'[database]\nurl = "sqlite:///{tmp_path}/{port}/greatseal.db"\n'
        )
        return path

    return write


def listed(greatseal: Path) -> list[str]:
    found = subprocess.run([greatseal, "plugins"], capture_output=True, text=True, check=True, cwd=greatseal.parent)
    return [line.split()[0] for line in found.stdout.splitlines()]


@contextmanager
def serving(greatseal: Path, config: Path) -> Iterator[None]:
    process = subprocess.Popen([greatseal, "serve", "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        seen = []
        while '"ready"' not in (line := process.stderr.readline()):
            seen.append(line)
            assert line, f"the service ended before it was ready: {seen}"
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


def read(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return json.load(answer)


def test_wheels_alone_serve_and_a_third_party_stands_beside_them(greatseal: Path, config: Write, uv: Path) -> None:
    assert listed(greatseal) == ["acme", "ca", "http-01", "resolver"]
    port = free_port()
    with serving(greatseal, config(port, "ca", "acme", "http-01", "resolver")):
        assert read(port, "/acme/directory")["newOrder"] == f"http://localhost:{port}/acme/new-order"
        assert read(port, "/readyz")["status"] == "ready"

    install(uv, greatseal.parents[1], [THEIRS])

    assert listed(greatseal) == ["acme", "ca", "finger-01", "http-01", "resolver"]
    for enabled in (["ca", "acme", "http-01", "resolver", "finger-01"], ["ca", "acme", "resolver", "finger-01"]):
        port = free_port()
        with serving(greatseal, config(port, *enabled)):
            assert read(port, "/readyz")["status"] == "ready"


def test_nothing_comes_from_the_workspace(greatseal: Path) -> None:
    program = "import greatseal, greatseal_acme; print(greatseal.__file__); print(greatseal_acme.__file__)"
    where = subprocess.run([greatseal.with_name("python"), "-c", program], capture_output=True, text=True, check=True, cwd=greatseal.parent)

    assert all(Path(line).is_relative_to(greatseal.parents[1]) for line in where.stdout.splitlines())
