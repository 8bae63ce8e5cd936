"""The OAuth 2.0 SDK of Nimbus, unmodified, on a JVM: a confidential client with a key, all of whose flows are at one provider."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from joserfc.jwk import ECKey
from peers.test_peers_ciba import person  # noqa: F401  # a fixture
from peers.test_peers_details import PAYMENTS
from rig.conversations import conversation
from rig.provider import CALLBACK, USER, Person, Provider

GRANTS = [
    "authorization_code",
    "urn:ietf:params:oauth:grant-type:token-exchange",
    "urn:ietf:params:oauth:grant-type:device_code",
    "urn:openid:params:grant-type:ciba",
]


@pytest.mark.parametrize("provider", ["sqlite", "postgresql"], indirect=True)
def test_nimbus(provider: Provider, person: Person, java_program: Callable[[str], Path]) -> None:  # noqa: F811  # the fixture
    """private_key_jwt, JAR, PAR, JARM, DPoP, RAR, RFC 9701, RFC 8693, RFC 8628 and CIBA."""
    program = java_program("nimbus-oidc")
    key = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
    registered = provider.register(
        grant_types=GRANTS,
        token_endpoint_auth_method="private_key_jwt",
        client_secret=None,
        jwks={"keys": [key.as_dict(private=False)]},
        introspection_signed_response_alg="ES256",
        authorization_details_types=["payment"],
        backchannel_token_delivery_mode="poll",
    )
    settings = {
        "issuer": provider.issuer,
        "client_id": registered["client_id"],
        "redirect_uri": CALLBACK,
        "key": key.as_dict(private=True),
        "resource": json.dumps(PAYMENTS),
    }

    found = conversation(["java", "-jar", program], settings, person)

    for how in ("plain", "pushed"):
        said = found[how]
        assert (said["type"], said["same"], said["username"]) == ("DPoP", True, USER)
        assert said["introspected"]["cnf"] == {"jkt": said["jkt"]}
        assert said["details"] == said["introspected"]["authorization_details"] == PAYMENTS
    assert found["exchanged"]["kind"].endswith(":access_token")
    for how in ("device", "elsewhere"):
        said = found[how]
        assert (said["type"], said["same"], said["username"]) == ("Bearer", True, USER)
        assert said["introspected"]["active"] is True
