"""Clients with certificates (RFC 8705): unmodified npm libraries and curl, to the service itself and through Apache or nginx."""

import json
import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trustme
from peers.test_peers_oidc_node import SCRIPTS, node
from rig.conversations import conversation
from rig.mtls import Certified, Own, issuing_ca
from rig.provider import CALLBACK, USER, Person
from rig.proxies import INSTALLED

from greatseal.testing.postgres import Cluster
from greatseal_client_auth_mtls.certificates import thumbprint_of

METHODS = {"direct": "tls_client_auth", "apache": "self_signed_tls_client_auth", "nginx": "tls_client_auth"}
BOUND = {"client_secret": None, "tls_client_certificate_bound_access_tokens": True}


class Reached:
    """A running provider, with a client's certificate and one of somebody else."""

    def __init__(self, provider: Certified, how: str, by: trustme.CA) -> None:
        self.provider, self.how, self.authority = provider, how, provider.folder / "authority.pem"
        # Nobody has to know who issued one that is registered as self-signed.
        own_by = issuing_ca() if METHODS[how] == "self_signed_tls_client_auth" else by
        self.own, self.other = Own(provider.folder, own_by, "own"), Own(provider.folder, by, "other")

    def registered(self, **fields: Any) -> dict[str, Any]:
        return self.provider.register(
            **{**BOUND, "token_endpoint_auth_method": METHODS[self.how], "tls_client_certificate": self.own.pem, **fields}
        )

    @property
    def cnf(self) -> dict[str, str]:
        return {"x5t#S256": thumbprint_of(self.own.der)}


@pytest.fixture(params=["direct", "apache", "nginx"], scope="module")
def reached(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reached]:
    """The provider itself, or behind that proxy; behind Apache it is on PostgreSQL."""
    how, folder = request.param, tmp_path_factory.mktemp("provider")
    if not INSTALLED.get(how, True):
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report(f"{how} is not installed: make peers")
    authority, clients = trustme.CA(), issuing_ca()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    cluster: Cluster | None = request.getfixturevalue("postgres_cluster") if how == "apache" else None
    database = None if cluster is None else cluster.make()
    provider = Certified(folder, authority, clients, database=database, behind=None if how == "direct" else how)
    with provider.reachable():
        yield Reached(provider, how, clients)
    if cluster is not None and database is not None:
        cluster.drop(database)


@pytest.fixture
def visitor(reached: Reached) -> Iterator[Person]:
    """Somebody with a browser who is not signed in yet."""
    person = Person(reached.provider.issuer)
    with person.session:
        person.session.trust_env = False  # a bundle of the environment would count instead
        person.session.verify = str(reached.authority)
        yield person


@pytest.fixture
def run(reached: Reached, visitor: Person) -> Callable[..., dict[str, Any]]:
    """What a script found out, with a person for its browser."""

    def run(package: str, script: str, client: dict[str, Any], **more: Any) -> dict[str, Any]:
        shown = {"own": reached.own, "other": reached.other}
        files = {name: {"certificate": str(one.certificate), "key": str(one.key)} for name, one in shown.items()}
        settings = {
            "issuer": reached.provider.issuer,
            "client_id": client["client_id"],
            "redirect_uri": CALLBACK,
            "scope": "openid profile offline_access",
            "authority": str(reached.authority),
            **files,
            **more,
        }
        return conversation([node(package), SCRIPTS / f"{script}.mjs"], settings, visitor)

    return run


def test_openid_client(reached: Reached, run: Callable[..., dict[str, Any]]) -> None:
    found = run("openid-client", "openid-client-mtls", reached.registered())

    assert found["userinfo"]["preferred_username"] == found["again"]["preferred_username"] == USER
    assert found["cnf"] == reached.cnf
    assert found["stolen"] == ["invalid_token", "invalid_token"]
    assert found["unproven"] == ["invalid_client", "invalid_client"]
    assert found["metadata"]["tls_client_certificate_bound_access_tokens"] is True
    assert METHODS[reached.how] in found["metadata"]["token_endpoint_auth_methods_supported"]


def test_oauth4webapi(reached: Reached, run: Callable[..., dict[str, Any]]) -> None:
    found = run("oauth4webapi", "oauth4webapi-mtls", reached.registered())

    assert found == {"type": "bearer", "cnf": reached.cnf, "unproven": ["invalid_client", "invalid_client"]}


def test_curl(reached: Reached) -> None:
    """Whatever a client writes into the header itself, the proxy replaces it."""
    curl, client = shutil.which("curl"), reached.registered(scopes=["profile"])
    if curl is None:
        pytest.skip("curl is not installed: make peers")
    forged = f"Client-Cert: :{b64encode(reached.own.der).decode()}:"
    form = f"client_id={client['client_id']}&grant_type=client_credentials&scope=profile"

    def ask(*arguments: str) -> Any:
        command = [str(curl), "--silent", "--cacert", str(reached.authority), *arguments, "--data", form]
        answer = subprocess.run([*command, f"{reached.provider.issuer}/token"], capture_output=True, text=True, check=True, timeout=30)
        return json.loads(answer.stdout)

    shown, stranger = (("--cert", str(one.certificate), "--key", str(one.key)) for one in (reached.own, reached.other))
    assert ask(*shown)["token_type"] == "Bearer"
    assert ask(*shown, "--header", forged)["token_type"] == "Bearer"
    assert ask(*stranger, "--header", forged)["error"] == "invalid_client"
    assert ask("--header", forged, "--header", forged)["error"] == "invalid_client"
    assert ask()["error"] == "invalid_client"
