"""The builder of wheels, and strangers' plugins that were installed from one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STRANGERS = ROOT / "tests/rig/strangers"
PROJECT = """\
[project]
name = "strangers"
version = "1.0"
requires-python = ">=3.11"

[project.entry-points."greatseal.plugins"]
{plugins}

[build-system]
requires = ["uv_build>=0.9,<0.14"]
build-backend = "uv_build"

[tool.uv.build-backend]
module-root = ""
"""


@pytest.fixture(scope="session")
def uv() -> Path:
    own = ROOT / ".uv" / "bin" / "uv"
    found = str(own) if own.exists() else shutil.which("uv")
    if found is None:
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report("uv is not there: make test brings it")
    return Path(found)


@pytest.fixture(scope="session")
def strangers_site(uv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the workspace in which a wheel with every stranger's plugin was installed, each one file."""
    folder = tmp_path_factory.mktemp("strangers")
    package = folder / "project" / "strangers"
    shutil.copytree(STRANGERS, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").touch()
    names = [file.stem for file in sorted(STRANGERS.glob("*.py"))]
    plugins = "\n".join(f'{name.replace("_", "-")} = "strangers.{name}:Plugin"' for name in names)
    (folder / "project" / "pyproject.toml").write_text(PROJECT.format(plugins=plugins))
    subprocess.run([uv, "build", "--quiet", "--offline", "--wheel", "--out-dir", folder, folder / "project"], check=True)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    subprocess.run([uv, "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel], check=True)
    shutil.rmtree(folder / "project")
    return site


@pytest.fixture
def strangers(strangers_site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every stranger's plugin is installed: ``folder-keys`` is that of folder_keys.py."""
    monkeypatch.syspath_prepend(strangers_site)
    return strangers_site
