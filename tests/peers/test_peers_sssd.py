"""SSSD's oidc_child against the provider: that of Debian 12 signs people in, a newer one looks up users and groups too."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from rig.provider import USER, Person, Provider

GRANTS = ["client_credentials", "urn:ietf:params:oauth:grant-type:device_code", "refresh_token"]
SECRET = "a-secret-of-forty-three-characters-01234567"
NEWER = Path(__file__).with_name("sssd")
PROGRAMS = {"debian-12": Path("/usr/libexec/sssd/oidc_child"), "newer": NEWER / "usr/libexec/sssd/oidc_child"}
REALM = "LOCALHOST"


class OidcChild:
    """oidc_child, as SSSD's backend runs it: a process for each question."""

    def __init__(self, program: Path, roots: Path) -> None:
        self._program = program
        self._newer = program.is_relative_to(NEWER)
        self._roots = roots
        self.options: dict[str, str] = {}

    def run(self, question: str, said: str = "") -> "subprocess.CompletedProcess[str]":
        given = {**self.options, "--ca-db": str(self._roots)}
        return subprocess.run(
            [self._program, f"--{question}", *(f"{name}={value}" for name, value in given.items()), "-d", "9", "--logger=stderr"],
            check=False,
            input=said,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "LD_LIBRARY_PATH": str(NEWER / "usr/lib")} if self._newer else None,
        )

    def ask(self, question: str, said: str = "") -> str:
        done = self.run(question, said)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def prove(self, client_id: str, secret: str | None) -> None:
        """Which client it is. A public one has to be told to the newer program."""
        public = {"--client-auth-method": "none"} if self._newer else {}
        self.options |= {"--client-id": client_id, **({"--client-secret": secret} if secret else public)}

    def look_up(self, provider: Provider, person: Person, *, scope: str = "directory.read") -> None:
        """Where users and groups are."""
        token_endpoint = {"--token-endpoint": endpoints(provider, person)["--token-endpoint"]}
        self.options |= {**token_endpoint, "--idp-type": f"keycloak:{provider.issuer}/api/identity/", "--scope": scope, "--name": USER}

    def find(self, question: str, name: str) -> Any:
        """What a look-up finds."""
        self.options["--name"] = name
        return json.loads(self.ask(question))


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Path:
    """That of Debian 12, which `make peers` installs; the newer one of `make peers-all`, without which its tests are skipped."""
    found = PROGRAMS[request.param]
    if not found.exists() and request.param == "newer":
        pytest.skip("a newer oidc_child is not there: make peers-all")
    if not found.exists():
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report("oidc_child of the package sssd-idp is not installed: make peers")
    return found


@pytest.fixture
def https(tmp_path: Path, program: Path) -> Iterator[tuple[Provider, Person, OidcChild]]:
    """A provider that is reached by https alone, a person who trusts it, and the program."""
    authority, roots = trustme.CA(), tmp_path / "roots.pem"
    authority.cert_pem.write_to_path(roots)
    (tmp_path / "provider").mkdir()
    provider = Provider(tmp_path / "provider", authority=authority)
    person = Person(provider.issuer)
    person.session.verify, person.session.trust_env = str(roots), False
    with provider.forked(), person.session:
        yield provider, person, OidcChild(program, roots)


def registered(provider: Provider, secret: str | None = SECRET, **changes: Any) -> str:
    """The id of a client of hosts, a public one where there is no secret."""
    asked: dict[str, Any] = {
        "token_endpoint_auth_method": "client_secret_post" if secret else "none",
        "client_secret": secret,
        "redirect_uris": [],
        "grant_types": GRANTS if secret else GRANTS[1:],
        "scopes": ["openid", "profile", "email", "directory.read"],
    }
    client_id: str = provider.register(**{**asked, **changes})["client_id"]
    return client_id


def endpoints(provider: Provider, person: Person) -> dict[str, str]:
    metadata = person.session.get(f"{provider.issuer}/.well-known/openid-configuration", timeout=10).json()
    return {
        "--device-auth-endpoint": metadata["device_authorization_endpoint"],
        "--token-endpoint": metadata["token_endpoint"],
        "--userinfo-endpoint": metadata["userinfo_endpoint"],
        "--jwks-uri": metadata["jwks_uri"],
    }


@pytest.mark.parametrize("program", PROGRAMS, indirect=True)
@pytest.mark.parametrize("discover", [False, True])
@pytest.mark.parametrize("secret", [None, SECRET])
def test_a_person_signs_in(https: tuple[Provider, Person, OidcChild], discover: bool, secret: str | None) -> None:
    """With the issuer alone it asks for every scope that the service knows."""
    provider, person, child = https
    child.prove(registered(provider, secret), secret)
    child.options |= {"--issuer-url": provider.issuer} if discover else {**endpoints(provider, person), "--scope": "openid profile email"}
    child.options |= {"--user-identifier-attribute": "sub"}

    asked, shown, *_ = child.ask("get-device-code").splitlines()
    device = json.loads(asked)
    assert (device["interval"], device["expires_in"]) == (1, 600)
    to_person = json.loads(shown.removeprefix("oauth2 "))
    assert to_person["verification_uri"] == f"{provider.issuer}/device"
    assert person.visit(to_person["verification_uri_complete"]) == f"{provider.issuer}/device"

    assert child.ask("get-access-token", asked).splitlines()[0] == f"{USER}@{REALM}"


@pytest.fixture
def looking(https: tuple[Provider, Person, OidcChild]) -> OidcChild:
    """One that looks people up."""
    provider, person, child = https
    child.prove(registered(provider), SECRET)
    child.look_up(provider, person)
    return child


newer = pytest.mark.parametrize("program", ["newer"], indirect=True)


@newer
def test_idp_335_idp_336_it_finds_a_user_and_their_groups(looking: OidcChild) -> None:
    for name in (USER, f"{USER}@{REALM}", f"{USER}@localhost"):
        (user,) = looking.find("get-user", name)
        (group,) = looking.find("get-user-groups", name)

        assert (user["id"], user["posixUsername"], user["posixObjectType"]) == (f"{USER}@{REALM}", USER, "user")
        assert (group["id"], group["posixGroupname"], group["posixObjectType"]) == ("staff", "staff", "group")


@newer
def test_idp_337_idp_338_it_finds_a_group_and_its_members(looking: OidcChild) -> None:
    for name in ("staff", f"staff@{REALM}"):
        (group,) = looking.find("get-group", name)
        (member,) = looking.find("get-group-members", name)

        assert (group["id"], group["posixGroupname"], group["posixObjectType"]) == ("staff", "staff", "group")
        assert (member["id"], member["posixUsername"], member["posixObjectType"]) == (f"{USER}@{REALM}", USER, "user")


@newer
@pytest.mark.parametrize("name", ["nobody", "ad*", "*", f"{USER}@other.test", "ada&username=admin", "ada)(uid=*", "ädä"])
def test_s087_it_finds_nobody_by_another_name(looking: OidcChild, name: str) -> None:
    assert looking.find("get-user", name) == []


@newer
def test_a_client_without_the_scope_is_an_error_and_not_an_empty_answer(https: tuple[Provider, Person, OidcChild]) -> None:
    provider, person, child = https
    child.prove(registered(provider, scopes=["openid", "profile"]), SECRET)
    child.look_up(provider, person, scope="profile")

    refused = child.run("get-user")
    assert refused.returncode != 0
    assert "403" in refused.stderr
