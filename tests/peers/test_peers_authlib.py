"""Authlib, unmodified: a device, a program that registers itself and changes that, and authorization details."""

import json
import time
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import requests
from peers.test_peers_details import PAYMENTS
from peers.test_peers_oidc_python import SCOPE, Library, metadata, verified  # noqa: F401  # a fixture
from rig.provider import CALLBACK, REGISTRATION_TOKEN, USER, Person, Provider

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
VERIFIER = "v" * 43


def test_authlib_on_a_device(provider: Provider, person: Person, metadata: dict[str, Any], library: Library) -> None:  # noqa: F811  # the fixture
    authlib = library("authlib.integrations.requests_client", "authlib")
    refusal = library("authlib.integrations.base_client", "authlib").OAuthError
    registered = provider.register(redirect_uris=[], grant_types=[DEVICE, "refresh_token"])
    with authlib.OAuth2Session(registered["client_id"], registered["client_secret"]) as client:
        secret = (registered["client_id"], registered["client_secret"])
        asked = requests.post(metadata["device_authorization_endpoint"], {"scope": SCOPE}, auth=secret, timeout=10).json()

        def polled() -> Any:
            return client.fetch_token(metadata["token_endpoint"], grant_type=DEVICE, device_code=asked["device_code"])

        with pytest.raises(refusal) as raised:
            polled()
        assert raised.value.error == "authorization_pending"
        assert person.visit(asked["verification_uri_complete"]) == f"{provider.issuer}/device"
        tokens = polled()

        claims = verified(tokens["id_token"], metadata, registered["client_id"], None)
        found = client.get(metadata["userinfo_endpoint"]).json()
        assert (found["sub"], found["preferred_username"]) == (claims["sub"], USER)
        assert client.refresh_token(metadata["token_endpoint"])["refresh_token"] != tokens["refresh_token"]
        with pytest.raises(refusal) as raised:
            polled()
        assert raised.value.error == "invalid_grant"


@pytest.mark.parametrize("provider", ["open"], indirect=True)
def test_authlib_registers_itself_with_a_key_and_changes_and_deletes_that(
    provider: Provider,
    person: Person,
    metadata: dict[str, Any],  # noqa: F811  # the fixture
    library: Library,
) -> None:
    """RFC 7591, 7592 and private_key_jwt; the claims of Authlib read what the service says of the registration."""
    authlib = library("authlib.integrations.requests_client", "authlib")
    claims_of = library("authlib.oauth2.rfc7591", "authlib").ClientMetadataClaims
    rfc7523 = library("authlib.oauth2.rfc7523", "authlib")
    key = library("joserfc.jwk", "joserfc").ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
    asked = {
        "client_name": "By itself",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": {"keys": [key.as_dict(private=False)]},
    }
    with authlib.OAuth2Session(token={"access_token": REGISTRATION_TOKEN, "token_type": "Bearer"}) as visitor:
        registered = visitor.post(metadata["registration_endpoint"], json=asked).json()
    claims_of(registered, {"alg": "none"}).validate()

    sign = rfc7523.PrivateKeyJWT(metadata["token_endpoint"], claims={"exp": int(time.time()) + 60}, alg="ES256")
    with authlib.OAuth2Session(
        registered["client_id"],
        key,
        token_endpoint_auth_method="private_key_jwt",
        scope=registered["scope"],
        redirect_uri=CALLBACK,
        code_challenge_method="S256",
    ) as client:
        client.register_client_auth_method(sign)
        url, state = client.create_authorization_url(metadata["authorization_endpoint"], code_verifier=VERIFIER)
        back = person.visit(url)
        tokens = client.fetch_token(metadata["token_endpoint"], authorization_response=back, state=state, code_verifier=VERIFIER)
        assert (
            client.get(metadata["userinfo_endpoint"]).json()["sub"]
            == verified(tokens["id_token"], metadata, registered["client_id"], None)["sub"]
        )

    where = registered["registration_client_uri"]
    with authlib.OAuth2Session(token={"access_token": registered["registration_access_token"], "token_type": "Bearer"}) as owner:
        read = owner.get(where).json()
        claims_of(read, {"alg": "none"}).validate()
        kept = {name: value for name, value in read.items() if name not in NOT_SENT}
        changed = owner.put(where, json={**kept, "client_name": "Renamed"}).json()
        assert changed["client_name"] == "Renamed"
        owner.token = {"access_token": changed["registration_access_token"], "token_type": "Bearer"}
        assert owner.delete(where).status_code == 204
        assert owner.get(where).status_code == 401


NOT_SENT = {"registration_access_token", "registration_client_uri", "client_id_issued_at", "client_secret_expires_at"}


def test_authlib_with_authorization_details(
    provider: Provider,
    person: Person,
    metadata: dict[str, Any],  # noqa: F811  # the fixture
    library: Library,
) -> None:
    """RFC 9396, pushed (RFC 9126)."""
    authlib = library("authlib.integrations.requests_client", "authlib")
    registered = provider.register(authorization_details_types=["payment"])
    secret = (registered["client_id"], registered["client_secret"])
    with authlib.OAuth2Session(*secret, redirect_uri=CALLBACK, code_challenge_method="S256") as client:
        url, state = client.create_authorization_url(
            metadata["authorization_endpoint"], code_verifier=VERIFIER, authorization_details=json.dumps(PAYMENTS)
        )
        form = dict(parse_qsl(urlsplit(url).query))
        pushed = requests.post(metadata["pushed_authorization_request_endpoint"], form, auth=secret, timeout=10).json()
        short = urlencode({"client_id": client.client_id, "request_uri": pushed["request_uri"]})
        back = person.visit(f"{metadata['authorization_endpoint']}?{short}")
        tokens = client.fetch_token(metadata["token_endpoint"], authorization_response=back, state=state, code_verifier=VERIFIER)

        assert tokens["authorization_details"] == PAYMENTS
        about = client.introspect_token(metadata["introspection_endpoint"], token=tokens["access_token"]).json()
        assert about["authorization_details"] == PAYMENTS
