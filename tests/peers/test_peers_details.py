"""Unmodified npm clients that ask for authorization details (RFC 9396)."""

import json

from peers.test_peers_oidc_node import Run, both_databases, run  # noqa: F401  # a fixture
from rig.provider import Provider

PAYMENTS = [{"type": "payment", "amount": amount, "creditor": "Merchant A", "actions": ["initiate", "status"]} for amount in ("12.50", "7")]


@both_databases
def test_openid_client_with_authorization_details(provider: Provider, run: Run) -> None:  # noqa: F811  # the fixture
    registered = provider.register(authorization_details_types=["payment"])

    found = run("openid-client", registered, script="openid-client-details", resource=json.dumps(PAYMENTS))

    assert found["types"] == ["payment"]
    assert found["granted"] == found["introspected"] == PAYMENTS
    assert found["less"] == PAYMENTS[:1]
    assert found["widened"][0] == "invalid_authorization_details"
    assert found["unknown"] == ["invalid_authorization_details", "authorization_details[0]: the type is not offered here (RFC 9396 s5)"]


def test_oauth4webapi_with_authorization_details(provider: Provider, run: Run) -> None:  # noqa: F811  # the fixture
    registered = provider.register(authorization_details_types=["payment"], token_endpoint_auth_method="client_secret_post")

    found = run("oauth4webapi", registered, script="oauth4webapi-details", resource=json.dumps(PAYMENTS))

    assert found["widened"] == "invalid_authorization_details", "and the code stays good"
    assert found["granted"] == found["introspected"] == PAYMENTS[1:]
    assert found["scope"] == ""
