"""Unmodified clients of the device flow: the test is the person with a browser elsewhere."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers.test_peers_oidc_node import both_databases, run  # noqa: F401  # a fixture
from rig.provider import USER, Person, Provider

GRANTS = ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"]


def registered(provider: Provider, **changes: Any) -> dict[str, Any]:
    """A client of devices, a public one unless the changes say otherwise."""
    public = {"token_endpoint_auth_method": "none", "client_secret": None, "redirect_uris": [], "grant_types": GRANTS}
    return provider.register(**{**public, **changes})


@both_databases
def test_openid_client_plain_and_with_a_key(provider: Provider, run: Any) -> None:  # noqa: F811  # the fixture
    found = run("openid-client", registered(provider), script="openid-client-device")

    assert found["plain"] == {"type": "bearer", "username": USER, "rotated": True, "used": "invalid_grant"}
    assert found["bound"] == {**found["plain"], "type": "dpop"}


def test_golang_x_oauth2(provider: Provider, person: Person, go_program: Callable[[str], Path]) -> None:
    client_id = registered(provider)["client_id"]
    command = [go_program("x-oauth2-device"), provider.issuer, client_id, "openid profile offline_access"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        asked = json.loads(process.stdout.readline())
        assert person.visit(asked["open"]) == f"{provider.issuer}/device"
        found = json.loads(process.stdout.readline())

    assert process.returncode == 0
    assert asked["interval"] == 1
    assert found["person"]["preferred_username"] == USER
    assert (found["type"], found["refreshes"]) == ("Bearer", True)
    assert "invalid_grant" in found["again"]
