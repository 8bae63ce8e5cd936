"""Unmodified clients of CIBA: the test is the person with a browser elsewhere."""

from typing import Any

import pytest
from peers.test_peers_oidc_node import both_databases, run  # noqa: F401  # a fixture
from rig.provider import USER, Person, Provider

from greatseal.testing.service import free_port

GRANTS = ["urn:openid:params:grant-type:ciba", "refresh_token"]
FOUND = {"type": "bearer", "username": USER, "rotated": True, "used": "invalid_grant"}


class Asked(Person):
    """Somebody who opens the page of requests, and allows each that waits there."""

    def visit(self, url: str) -> str:
        last = super().visit(url)
        for one in self.session.get(f"{self.issuer}/api/auth/ciba", timeout=10).json():
            assert one["binding_message"] == "W4SCT"
            last = super().visit(f"{self.issuer}/ciba/{one['id']}")
        return last


@pytest.fixture
def person(provider: Provider) -> Any:
    person = Asked(provider.issuer)
    with person.session:
        yield person


@both_databases
def test_openid_client_plain_and_with_a_key(provider: Provider, run: Any) -> None:  # noqa: F811  # the fixture
    polls = provider.register(redirect_uris=[], grant_types=GRANTS, backchannel_token_delivery_mode="poll")

    found = run("openid-client", polls, script="openid-client-ciba")

    assert found == {"plain": FOUND, "bound": {**FOUND, "type": "dpop"}}


def test_openid_client_after_a_ping(provider: Provider, run: Any) -> None:  # noqa: F811  # the fixture
    endpoint = f"http://127.0.0.1:{free_port()}/notified"
    pinged = {"backchannel_token_delivery_mode": "ping", "backchannel_client_notification_endpoint": endpoint}

    assert (
        run(
            "openid-client",
            provider.register(redirect_uris=[], grant_types=GRANTS, **pinged),
            script="openid-client-ciba",
            resource=endpoint,
        )
        == FOUND
    )
