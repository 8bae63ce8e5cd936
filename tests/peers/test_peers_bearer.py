"""Unmodified clients that bring assertions of another issuer (RFC 7523), or have its tokens exchanged (RFC 8693)."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import RSAKey
from peers.test_peers_oidc_node import Run, both_databases, run  # noqa: F401  # a fixture
from rig.provider import USER, Provider

BEARER, EXCHANGE = "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"
CLUSTER = "https://kubernetes.default.svc.cluster.local"
WORKLOAD = "system:serviceaccount:shop:stock"
Library = Callable[[str, str], Any]


class Cluster:
    """An issuer as Kubernetes is one: tokens of service accounts under RS256, and a key that programs may have to sign by themselves."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.jwk = RSAKey.import_key(self.pem, {"kid": "cluster-1", "use": "sig", "alg": "RS256"})

    @property
    def pem(self) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()

    @property
    def jwks(self) -> dict[str, Any]:
        return {"keys": [self.jwk.as_dict(private=False)]}

    def projected(self, audience: str, **changes: Any) -> str:
        """A projected token of a service account."""
        now = int(time.time())
        claims = {
            "aud": [audience],
            "exp": now + 3607,
            "iat": now,
            "nbf": now,
            "iss": CLUSTER,
            "jti": str(uuid4()),
            "kubernetes.io": {"namespace": "shop", "pod": {"name": "stock-0"}, "serviceaccount": {"name": "stock"}},
            "sub": WORKLOAD,
            **changes,
        }
        return jwt.encode({"alg": "RS256", "kid": "cluster-1"}, claims, self.jwk)


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture(scope="module")
def provider(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[Provider]:
    """A running identity provider that trusts the cluster: for its workload as a program, for one company's jobs as a person."""
    database = request.getfixturevalue("module_postgres_url") if getattr(request, "param", "sqlite") == "postgresql" else None
    provider = Provider(tmp_path_factory.mktemp("provider"), database=database)
    provider.trust(
        {"issuer": CLUSTER, "jwks": cluster.jwks, "subject": "workload", "workloads": ["system:serviceaccount:shop:*"]},
        {"issuer": "https://ci.example", "jwks": cluster.jwks, "subject": "map", "people": {"repo:shop/site": USER}},
    )
    with provider.forked():
        yield provider


def program(provider: Provider, **changes: Any) -> dict[str, Any]:
    return provider.register(
        **{"redirect_uris": [], "grant_types": [BEARER, EXCHANGE], "scopes": ["openid", "profile", "groups"], **changes}
    )


def introspected(provider: Provider, client: dict[str, Any], token: str) -> dict[str, Any]:
    proof = (client["client_id"], client["client_secret"])
    found: dict[str, Any] = requests.post(f"{provider.issuer}/introspect", {"token": token}, auth=proof, timeout=10).json()
    return found


def test_a_projected_token_of_a_service_account(provider: Provider, cluster: Cluster) -> None:
    """What a pod does with the file that Kubernetes gives it."""
    client = program(provider)
    form = {"grant_type": BEARER, "assertion": cluster.projected(provider.issuer)}
    proof = (client["client_id"], client["client_secret"])

    found = requests.post(f"{provider.issuer}/token", form, auth=proof, timeout=10).json()
    again = requests.post(f"{provider.issuer}/token", form, auth=proof, timeout=10).json()

    said = introspected(provider, client, found["access_token"])
    assert (said["sub"], said["scope"]) == (f"{CLUSTER}#{WORKLOAD}", "groups")
    assert again["error"] == "invalid_grant"


def test_golang_x_oauth2(provider: Provider, cluster: Cluster, go_program: Callable[[str], Path], tmp_path: Path) -> None:
    """Its package jwt signs an assertion, its package externalaccount reads a token from a file and exchanges it."""
    audience = "https://stock.example/"
    client = program(provider, resources=[audience])
    file = tmp_path / "token"
    file.write_text(cluster.projected(provider.issuer, iss="https://ci.example", sub="repo:shop/site"))
    given = {
        "issuer": provider.issuer,
        "clientId": client["client_id"],
        "clientSecret": client["client_secret"],
        "key": cluster.pem,
        "keyId": "cluster-1",
        "email": "https://ci.example",
        "subject": "repo:shop/site",
        "jti": str(uuid4()),
        "audience": audience,
        "subjectToken": str(file),
        "scope": "profile",
    }

    done = subprocess.run([go_program("x-oauth2-bearer"), json.dumps(given)], check=True, capture_output=True, text=True, timeout=60)

    found = json.loads(done.stdout)
    said = introspected(provider, client, found["token"])
    assert (said["sub"].partition("@")[0], said["scope"]) == (USER, "openid profile groups")
    assert (found["type"], found["refreshes"], json.loads(found["again"])["error"]) == ("Bearer", False, "invalid_grant")
    exchanged = introspected(provider, client, found["exchanged"])
    assert (exchanged["sub"], exchanged["scope"], exchanged["aud"]) == (said["sub"], "profile", audience)


def test_authlib(provider: Provider, cluster: Cluster, library: Library) -> None:
    """Its AssertionSession signs a new assertion whenever its token has expired."""
    authlib = library("authlib.integrations.requests_client", "authlib")
    client = program(provider)
    endpoint = provider.issuer.replace("://", f"://{client['client_id']}:{client['client_secret']}@") + "/token"
    with authlib.AssertionSession(
        endpoint,
        "https://ci.example",
        "repo:shop/site",
        audience=provider.issuer,
        claims={"jti": str(uuid4())},
        key=cluster.jwk,
        header={"alg": "RS256", "kid": "cluster-1"},
    ) as session:
        found = session.get(f"{provider.issuer}/userinfo").json()

        assert found["preferred_username"] == USER
        assert "refresh_token" not in session.token


@both_databases
def test_openid_client(provider: Provider, cluster: Cluster, run: Run) -> None:  # noqa: F811  # the fixture
    tokens = [cluster.projected(provider.issuer, iss="https://ci.example", sub="repo:shop/site") for _ in range(2)]
    client = program(provider, token_endpoint_auth_method="client_secret_post")

    found = run("openid-client", client, script="openid-client-bearer", resource=tokens)

    assert found["granted"]["scope"] == "profile"
    assert found["again"] == [400, "invalid_grant"]
    assert found["introspected"]["sub"].partition("@")[0] == USER
    assert found["exchanged"]["issued_token_type"].endswith(":access_token")
    assert "refresh_token" not in found["granted"] | found["exchanged"]
