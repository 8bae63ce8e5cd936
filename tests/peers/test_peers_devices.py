"""Unmodified clients of the device flow: the test is the person with a browser elsewhere."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import trustme
from peers.test_peers_oidc_node import both_databases, run  # noqa: F401  # a fixture
from rig.provider import USER, Person, Provider

GRANTS = ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"]
OIDC_CHILD = Path("/usr/libexec/sssd/oidc_child")


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


class Sssd:
    """oidc_child of SSSD, as its backend runs it: one process asks for the code, another one waits for the person's tokens."""

    def __init__(self, provider: Provider, roots: Path, client: dict[str, Any], *, discover: bool) -> None:
        metadata = requests.get(f"{provider.issuer}/.well-known/openid-configuration", timeout=10, verify=str(roots)).json()
        endpoints = {
            "--device-auth-endpoint": metadata["device_authorization_endpoint"],
            "--token-endpoint": metadata["token_endpoint"],
            "--userinfo-endpoint": metadata["userinfo_endpoint"],
            "--jwks-uri": metadata["jwks_uri"],
            "--scope": "openid profile email",
        }
        named = {"--issuer-url": provider.issuer} if discover else endpoints
        secret = {"--client-secret": client["client_secret"]} if client.get("client_secret") else {}
        options = {**named, **secret, "--client-id": client["client_id"], "--ca-db": str(roots), "--user-identifier-attribute": "sub"}
        self.options = [f"{name}={value}" for name, value in options.items()]

    def ask(self, phase: str, said: str = "") -> str:
        done = subprocess.run(
            [OIDC_CHILD, f"--{phase}", *self.options, "-d", "9", "--logger=stderr"],
            check=False,
            input=said,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout


@pytest.fixture
def https(tmp_path: Path) -> Iterator[tuple[Provider, Person, Path]]:
    """A provider that is reached by https alone, a person who trusts it, and its roots."""
    if not OIDC_CHILD.exists():
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report("oidc_child of the package sssd-idp is not installed: make peers")
    authority, roots = trustme.CA(), tmp_path / "roots.pem"
    authority.cert_pem.write_to_path(roots)
    (tmp_path / "provider").mkdir()
    provider = Provider(tmp_path / "provider", authority=authority)
    person = Person(provider.issuer)
    person.session.verify, person.session.trust_env = str(roots), False
    with provider.forked(), person.session:
        yield provider, person, roots


@pytest.mark.parametrize("discover", [False, True])
@pytest.mark.parametrize("secret", [None, "a-secret-of-forty-three-characters-01234567"])
def test_oidc_child_of_sssd(https: tuple[Provider, Person, Path], discover: bool, secret: str | None) -> None:
    """With the issuer alone it asks for every scope that the service knows."""
    provider, person, roots = https
    client = registered(provider, token_endpoint_auth_method="client_secret_post" if secret else "none", client_secret=secret)
    sssd = Sssd(provider, roots, {**client, "client_secret": secret}, discover=discover)

    asked, shown, *_ = sssd.ask("get-device-code").splitlines()
    device = json.loads(asked)
    assert (device["interval"], device["expires_in"]) == (1, 600)
    to_person = json.loads(shown.removeprefix("oauth2 "))
    assert to_person["verification_uri"] == f"{provider.issuer}/device"
    assert person.visit(to_person["verification_uri_complete"]) == f"{provider.issuer}/device"

    assert sssd.ask("get-access-token", asked).splitlines()[0].startswith(f"{USER}@")
