"""Who may import whom. import-linter judges the packages in ``make lint``; here: its lists are whole, tests obey too."""

import ast
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = {contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}

PUBLIC = {"api", "attempts", "command", "der", "host", "faults", "net", "jose", "outbox", "polling", "principals"}
PUBLIC_MODULES = ("ctl.base", "db.tables", "http.cookies", "http.csrf")
"""What a plugin may import of greatseal, with ``greatseal`` itself; it follows the version."""


def members() -> list[Path]:
    folders = (path for pattern in PROJECT["tool"]["uv"]["workspace"]["members"] for path in ROOT.glob(pattern))
    return sorted(folder for folder in folders if (folder / "pyproject.toml").exists())


def packages() -> dict[str, Path]:
    """Import package -> folder of its distribution."""
    return {source.name: folder for folder in members() for source in (folder / "src").iterdir() if (source / "__init__.py").exists()}


PLUGINS = sorted(set(packages()) - {"greatseal"})


def test_the_contracts_name_every_package_of_the_workspace():
    assert PROJECT["tool"]["importlinter"]["root_packages"] == sorted(packages())
    assert CONTRACTS["independent-plugins"]["modules"] == PLUGINS
    assert CONTRACTS["no-privileged-plugin"]["forbidden_modules"] == PLUGINS


def test_mypy_looks_into_every_package_of_the_workspace():
    assert set(PROJECT["tool"]["mypy"]["mypy_path"]) >= {f"{folder.relative_to(ROOT)}/src" for folder in members()}


def test_every_module_of_the_core_is_public_or_protected():
    core = ROOT / "core/src/greatseal"
    modules = {path.stem for path in core.iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"} - {"__init__"}

    protected = {name.removeprefix("greatseal.").removesuffix(".*") for name in CONTRACTS["public-api"]["protected_modules"]}
    above = {name.removeprefix("greatseal.") for name in CONTRACTS["api-below-all"]["forbidden_modules"]} - {"aiohttp", "sqlalchemy"}
    assert protected == modules - PUBLIC
    assert above == modules - {"api"}


def test_the_public_api_is_that_of_the_documentation():
    contract = CONTRACTS["public-api"]
    (told,) = re.findall(r"A plugin imports (.+?), in its tests", (ROOT / "docs/architecture.md").read_text(), re.DOTALL)

    assert contract["ignore_imports"] == [f"** -> greatseal.{name}" for name in PUBLIC_MODULES]
    assert set(re.findall(r"`greatseal\.?(.*?)`", told)) == {"", *PUBLIC, *PUBLIC_MODULES}


def test_a_distribution_is_named_after_its_feature():
    for package, folder in packages().items():
        if package == "greatseal":
            continue
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        assert project["name"] == f"greatseal-{folder.name}"
        assert package == f"greatseal_{folder.name.replace('-', '_')}"
        points = project.get("entry-points", {})
        bundled = folder.name.removeprefix("bundle-")
        assert set(points.get("greatseal.plugins", {})) <= {folder.name}
        assert set(points.get("greatseal.sets", {})) <= {bundled, f"{bundled}-all"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module is not None
            yield from (f"{node.module}.{name.name}" for name in node.names)


def folders_of(package: str) -> dict[str, set[str]]:
    """The folders of a package, each with those that it imports."""
    source = packages()[package] / "src" / package
    found: dict[str, set[str]] = {folder.name: set() for folder in source.iterdir() if (folder / "__init__.py").exists()}
    for folder, others in found.items():
        for path in (source / folder).rglob("*.py"):
            others.update(name.split(".")[1] for name in imported(path) if name.startswith(f"{package}."))
        others.intersection_update(found.keys() - {folder})
    return found


@pytest.mark.parametrize("package", PLUGINS)
def test_no_folders_of_a_plugin_import_each_other_in_a_ring(package: str):
    left = folders_of(package)

    while ends := {folder for folder, others in left.items() if not others & left.keys()}:
        left = {folder: others for folder, others in left.items() if folder not in ends}

    assert not left, "each of these imports the next of a ring"


def test_the_tests_of_a_plugin_use_the_public_api_and_the_testing_kit():
    wrong = []
    for package, folder in packages().items():
        for path in sorted(folder.glob("tests/**/*.py")) if package != "greatseal" else ():
            for name in imported(path):
                root, _, rest = name.partition(".")
                if root in packages() and root not in {package, "greatseal"}:
                    wrong.append(f"{path.relative_to(ROOT)} imports another plugin: {name}")
                public = rest.startswith(PUBLIC_MODULES) or rest.split(".")[0] in PUBLIC | {"testing", "hookimpl", "__version__"}
                if root == "greatseal" and not public:
                    wrong.append(f"{path.relative_to(ROOT)} imports what is not public: {name}")
    assert not wrong, "\n".join(wrong)


NOT_FOR_A_CA = {
    "alembic", "argon2", "certbot", "gssapi", "hypothesis", "jinja2", "josepy", "ldap3", "mako", "nats", "psycopg", "psycopg_pool",
    "pytest", "regex", "requests", "setuptools", "sphinx", "sqlalchemy.orm", "webauthn",
}  # fmt: skip
"""Modules that a start of config/ca.toml must not import, once its schema is right: each costs start time and memory."""

SERVE = """
import sys
from greatseal.cli import main
try:
    main(["serve", "-c", sys.argv[1]], standalone_mode=False)
finally:
    print("modules:", *sorted(sys.modules), flush=True)
"""


def serve_once(config: Path) -> set[str]:
    """Start the service, wait until it is ready, stop it: the modules that it imported."""
    command = [sys.executable, "-c", SERVE, str(config)]
    with subprocess.Popen(command, cwd=config.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        said = []
        for line in server.stdout:
            said.append(line)
            if '"event": "ready"' in line or "serves http" in line:
                server.send_signal(signal.SIGTERM)
            if line.startswith("modules: "):
                return set(line.split()[1:])
    raise AssertionError("".join(said))


def test_a_start_of_a_ca_imports_nothing_that_it_does_not_need(tmp_path: Path):
    config = tmp_path / "ca.toml"
    text = (ROOT / "config/ca.toml").read_text()
    config.write_text(text.replace("/var/lib/greatseal", str(tmp_path)).replace("127.0.0.1:8080", "127.0.0.1:0"))

    first, second = serve_once(config), serve_once(config)

    assert "alembic" in first, "the first start migrates"
    assert {"greatseal_ca", "greatseal_acme"} <= second
    assert second.isdisjoint(NOT_FOR_A_CA)
