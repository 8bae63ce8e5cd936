"""Clients of FAPI 2.0: unmodified npm libraries, with a key and with a certificate, and what they are refused."""

from collections.abc import Callable
from typing import Any

import pytest
from joserfc.jwk import ECKey, RSAKey
from peers.test_peers_mtls import Reached, reached, visitor
from peers.test_peers_mtls import run as run_with_certificate
from peers.test_peers_oidc_node import Run, run
from rig.provider import USER, Provider

__all__ = ["reached", "run", "run_with_certificate", "visitor"]

PROFILES = ("fapi2", "fapi2_message_signing")
KEYS: dict[str, RSAKey | ECKey] = {
    "PS256": RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"}),
    "ES256": ECKey.generate_key("P-256", {"kid": "ec", "use": "sig"}),
}
JWKS = {"keys": [key.as_dict(private=False) for key in KEYS.values()]}
REGISTRATION = {"client_secret": None, "jwks": JWKS, "scopes": ["openid", "profile", "email", "offline_access", "introspect"]}


def well_served(found: dict[str, Any], *, signing: bool) -> None:
    assert found["sent"] == ["client_id", "request_uri"]
    assert found["back"] == (["response"] if signing else ["code", "iss", "state"])
    assert found["userinfo"]["preferred_username"] == found["again"]["preferred_username"] == USER
    assert found["rotated"] is False
    assert found["answered"] == (["response"] if signing else ["error", "error_description", "iss", "state"])
    assert found["unpushed"] == (None if signing else "invalid_request"), "the refusal is signed as well"


@pytest.mark.parametrize(("profile", "alg"), [("fapi2", "PS256"), ("fapi2_message_signing", "ES256")])
@pytest.mark.parametrize("provider", ["postgresql"], indirect=True)
def test_openid_client_with_a_key(provider: Provider, run: Run, profile: str, alg: str) -> None:
    registered = provider.register(**REGISTRATION, profile=profile, token_endpoint_auth_method="private_key_jwt")
    signing = profile == "fapi2_message_signing"

    found = run("openid-client", registered, script="openid-client-fapi", key=KEYS[alg].as_dict(private=True), alg=alg, signing=signing)

    well_served(found, signing=signing)
    assert (found["type"], found["stolen"], list(found["cnf"])) == ("dpop", "invalid_token", ["jkt"])


@pytest.mark.parametrize("profile", PROFILES)
def test_openid_client_with_a_certificate(reached: Reached, run_with_certificate: Callable[..., dict[str, Any]], profile: str) -> None:
    signing = profile == "fapi2_message_signing"
    client = reached.registered(profile=profile, jwks=JWKS)

    key = KEYS["ES256"].as_dict(private=True)
    found = run_with_certificate("openid-client", "openid-client-fapi", client, key=key, alg="ES256", signing=signing)

    well_served(found, signing=signing)
    assert (found["type"], found["cnf"]) == ("bearer", reached.cnf)


def test_oauth4webapi_with_a_certificate(reached: Reached, run_with_certificate: Callable[..., dict[str, Any]]) -> None:
    found = run_with_certificate("oauth4webapi", "oauth4webapi-fapi-mtls", reached.registered(profile="fapi2"))

    assert (found["type"], found["cnf"], found["userinfo"]["preferred_username"]) == ("bearer", reached.cnf, USER)
    assert found["unchallenged"] == "invalid_request"
    assert found["refused"] == {
        "pushed": ["invalid_client", "invalid_client"],
        "redeemed": ["invalid_client", "invalid_client"],
        "stolen": ["invalid_token", "invalid_token"],
        "refreshed": ["invalid_client", "invalid_client"],
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_oauth4webapi_is_refused_what_the_profile_does_not_allow(provider: Provider, run: Run, profile: str) -> None:
    registered = provider.register(**REGISTRATION, profile=profile, token_endpoint_auth_method="private_key_jwt")
    rsa, ec = (KEYS[alg].as_dict(private=True) for alg in ("PS256", "ES256"))
    signing = profile == "fapi2_message_signing"

    found = run("oauth4webapi", registered, script="oauth4webapi-fapi", keys={"PS256": rsa, "RS256": rsa, "ES256": ec}, signing=signing)

    refused = dict.fromkeys(("RS256", "array", "endpoint"), "invalid_client")
    refused |= {"proof": "invalid_dpop_proof", "bearer": "invalid_dpop_proof"}
    if signing:
        refused |= {"unsigned": "invalid_request", "object": "invalid_request_object", "plain": "invalid_request"}
    assert found["refused"] == refused
    assert (found["type"], found["sub"].partition("@")[0]) == ("dpop", USER)
