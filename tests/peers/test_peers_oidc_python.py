"""Unmodified Python clients sign a person in, verify the ID token, call UserInfo, refresh, introspect, revoke and sign out."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import requests
from joserfc import jwt
from joserfc.jwk import KeySet
from rig.provider import CALLBACK, LOGGED_OUT, USER, Person, Provider

Library = Callable[[str, str], Any]
SCOPE = "openid profile email offline_access"


@pytest.fixture
def metadata(provider: Provider) -> dict[str, Any]:
    """What the provider says of itself."""
    found: dict[str, Any] = requests.get(f"{provider.issuer}/.well-known/openid-configuration", timeout=10).json()
    return found


def verified(id_token: str, metadata: dict[str, Any], client_id: str, nonce: str | None) -> dict[str, Any]:
    """The claims of an ID token; for clients that leave it to the application."""
    keys = KeySet.import_key_set(requests.get(metadata["jwks_uri"], timeout=10).json())
    claims = jwt.decode(id_token, keys, algorithms=["ES256"]).claims
    jwt.JWTClaimsRegistry(iss={"value": metadata["issuer"]}, aud={"value": client_id}, exp={"essential": True}).validate(claims)
    assert claims.get("nonce") == nonce
    return claims


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_authlib(provider: Provider, person: Person, metadata: dict[str, Any], library: Library, method: str) -> None:
    authlib = library("authlib.integrations.requests_client", "authlib")
    registered = provider.register(token_endpoint_auth_method=method)
    with authlib.OAuth2Session(
        registered["client_id"],
        registered["client_secret"],
        token_endpoint_auth_method=method,
        revocation_endpoint_auth_method=method,
        scope=SCOPE,
        redirect_uri=CALLBACK,
        code_challenge_method="S256",
    ) as client:
        url, state = client.create_authorization_url(metadata["authorization_endpoint"], code_verifier="v" * 43, nonce="n1")
        back = person.visit(url)
        tokens = client.fetch_token(metadata["token_endpoint"], authorization_response=back, state=state, code_verifier="v" * 43)

        claims = verified(tokens["id_token"], metadata, registered["client_id"], "n1")
        found = client.get(metadata["userinfo_endpoint"]).json()
        assert found["sub"] == claims["sub"]
        assert found["preferred_username"] == USER
        assert found["email"] == "ada@example.org"

        fresh = client.refresh_token(metadata["token_endpoint"])
        assert fresh["refresh_token"] != tokens["refresh_token"]
        assert verified(fresh["id_token"], metadata, registered["client_id"], None)["sub"] == claims["sub"]

        asked = {"token": fresh["access_token"], "token_type_hint": "access_token"}
        about = client.introspect_token(metadata["introspection_endpoint"], **asked).json()
        assert about["active"]
        assert about["client_id"] == registered["client_id"]
        client.revoke_token(
            metadata["revocation_endpoint"], token=fresh["refresh_token"], token_type_hint="refresh_token"
        ).raise_for_status()
        assert client.introspect_token(metadata["introspection_endpoint"], **asked).json() == {"active": False}


def test_authlib_with_a_signed_request(provider: Provider, person: Person, metadata: dict[str, Any], library: Library) -> None:
    """RFC 9101 and JARM."""
    authlib = library("authlib.integrations.requests_client", "authlib")
    key = library("joserfc.jwk", "joserfc").ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
    registered = provider.register(jwks={"keys": [key.as_dict(private=False)]}, require_signed_request_object=True)
    secret = registered["client_secret"]
    with authlib.OAuth2Session(registered["client_id"], secret, redirect_uri=CALLBACK, code_challenge_method="S256") as client:
        url, state = client.create_authorization_url(metadata["authorization_endpoint"], code_verifier="v" * 43, scope=SCOPE)
        claims = {**dict(parse_qsl(urlsplit(url).query)), "iss": client.client_id, "aud": provider.issuer, "response_mode": "query.jwt"}
        signed = jwt.encode({"alg": "ES256", "kid": "one", "typ": "oauth-authz-req+jwt"}, claims, key)
        asked = urlencode({"client_id": client.client_id, "request": signed})

        back = dict(parse_qsl(urlsplit(person.visit(f"{metadata['authorization_endpoint']}?{asked}")).query))

        keys = KeySet.import_key_set(requests.get(metadata["jwks_uri"], timeout=10).json())
        answer = jwt.decode(back["response"], keys, algorithms=["ES256"]).claims
        assert (answer["state"], answer["aud"]) == (state, client.client_id)
        tokens = client.fetch_token(metadata["token_endpoint"], code=answer["code"], code_verifier="v" * 43)
        assert client.get(metadata["userinfo_endpoint"]).json()["preferred_username"] == USER
        assert verified(tokens["id_token"], metadata, client.client_id, None)["iss"] == provider.issuer


def test_authlib_with_a_private_key(provider: Provider, metadata: dict[str, Any], library: Library) -> None:
    """private_key_jwt and client_credentials."""
    authlib = library("authlib.integrations.requests_client", "authlib")
    rfc7523 = library("authlib.oauth2.rfc7523", "authlib")
    key = library("joserfc.jwk", "joserfc").ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
    registered = provider.register(
        redirect_uris=None,
        post_logout_redirect_uris=None,
        grant_types=["client_credentials"],
        token_endpoint_auth_method="private_key_jwt",
        client_secret=None,
        jwks={"keys": [key.as_dict(private=False)]},
    )
    with authlib.OAuth2Session(registered["client_id"], key, token_endpoint_auth_method="private_key_jwt") as client:
        client.register_client_auth_method(
            rfc7523.PrivateKeyJWT(metadata["token_endpoint"], claims={"exp": int(time.time()) + 60}, alg="ES256")
        )

        tokens = client.fetch_token(metadata["token_endpoint"], grant_type="client_credentials")

    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] > 0
    assert "refresh_token" not in tokens


def test_requests_oauthlib(
    provider: Provider, person: Person, metadata: dict[str, Any], library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library_ = library("requests_oauthlib", "requests-oauthlib")
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    registered = provider.register()
    secret = (registered["client_id"], registered["client_secret"])
    with library_.OAuth2Session(secret[0], redirect_uri=CALLBACK, scope=SCOPE.split(), pkce="S256") as client:
        url, _ = client.authorization_url(metadata["authorization_endpoint"], nonce="n2")
        tokens = client.fetch_token(metadata["token_endpoint"], authorization_response=person.visit(url), auth=secret)

        claims = verified(tokens["id_token"], metadata, secret[0], "n2")
        assert client.get(metadata["userinfo_endpoint"]).json()["sub"] == claims["sub"]

        fresh = client.refresh_token(metadata["token_endpoint"], auth=secret)
        assert fresh["refresh_token"] != tokens["refresh_token"]
        assert client.get(metadata["userinfo_endpoint"]).status_code == 200

        def active(token: str) -> bool:
            found = requests.post(metadata["introspection_endpoint"], {"token": token}, auth=secret, timeout=10).json()
            return bool(found["active"])

        assert active(fresh["access_token"])
        done = requests.post(metadata["revocation_endpoint"], {"token": fresh["access_token"]}, auth=secret, timeout=10)
        assert done.status_code == 200
        assert not active(fresh["access_token"])
        assert client.get(metadata["userinfo_endpoint"]).status_code == 401


def test_idpyoidc(provider: Provider, person: Person, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler for relying parties: discovery, the registered client, verification of the ID token, refresh, logout."""
    monkeypatch.chdir(tmp_path)  # it writes keys of its own into the current folder
    handlers = library("idpyoidc.client.rp_handler", "idpyoidc")
    services = library("idpyoidc.client.defaults", "idpyoidc").DEFAULT_OIDC_SERVICES
    registered = provider.register()
    configuration = {
        "issuer": provider.issuer,
        "client_id": registered["client_id"],
        "client_secret": registered["client_secret"],
        "client_type": "oidc",
        "redirect_uris": [CALLBACK],
        "post_logout_redirect_uris": [LOGGED_OUT],
        "scopes_supported": SCOPE.split(),
        "response_types_supported": ["code"],
        "client_authn_methods": ["client_secret_basic", "bearer_header"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "add_ons": {"pkce": {"function": "idpyoidc.client.oauth2.add_on.pkce.add_support", "kwargs": PKCE}},
    }
    end_session = {"end_session": {"class": "idpyoidc.client.oidc.end_session.EndSession"}}
    configs = {"greatseal": {**configuration, "services": {**services, **end_session}}}
    handler = handlers.RPHandler(base_url="https://rp.example", client_configs=configs)
    begun = handler.begin("greatseal")
    answer = dict(parse_qsl(urlsplit(person.visit(begun)).query))

    found = handler.finalize(provider.issuer, answer)

    assert found["userinfo"]["sub"] == found["id_token"]["sub"]
    assert found["userinfo"]["email"] == "ada@example.org"
    fresh = handler.refresh_access_token(answer["state"])
    assert fresh["access_token"] != found["token"]
    leaving = handler.logout(answer["state"], post_logout_redirect_uri=LOGGED_OUT)
    assert person.visit(leaving["url"]).startswith(LOGGED_OUT)
    assert "error=login_required" in person.visit(
        f"{provider.issuer}/authorize?{urlencode({**NONE, 'client_id': registered['client_id']})}"
    )


PKCE = {"code_challenge_method": "S256", "code_challenge_length": 64}
NONE = {"response_type": "code", "redirect_uri": CALLBACK, "scope": "openid", "prompt": "none"}


def test_authlib_exchanges_a_token(provider: Provider, person: Person, metadata: dict[str, Any], library: Library) -> None:
    """RFC 8693: the token of a frontend, and a service that acts by name."""
    authlib = library("authlib.integrations.requests_client", "authlib")
    grant, kind = "urn:ietf:params:oauth:grant-type:token-exchange", "urn:ietf:params:oauth:token-type:access_token"
    frontend = provider.register()
    service = provider.register(
        redirect_uris=[], grant_types=[grant, "client_credentials"], scopes=["openid", "profile", "groups"], allow_token_exchange_actor=True
    )
    with authlib.OAuth2Session(
        frontend["client_id"], frontend["client_secret"], scope=SCOPE, redirect_uri=CALLBACK, code_challenge_method="S256"
    ) as client:
        url, state = client.create_authorization_url(metadata["authorization_endpoint"], code_verifier="v" * 43)
        back = person.visit(url)
        tokens = client.fetch_token(metadata["token_endpoint"], authorization_response=back, state=state, code_verifier="v" * 43)
    with authlib.OAuth2Session(service["client_id"], service["client_secret"]) as backend:
        own = backend.fetch_token(metadata["token_endpoint"], grant_type="client_credentials")["access_token"]
        asked = {"subject_token": tokens["access_token"], "subject_token_type": kind, "actor_token": own, "actor_token_type": kind}
        exchanged = backend.fetch_token(metadata["token_endpoint"], grant_type=grant, **asked)

        assert exchanged["issued_token_type"] == kind
        assert "refresh_token" not in exchanged
        found = backend.get(metadata["userinfo_endpoint"]).json()
        assert found["preferred_username"] == USER
        about = backend.introspect_token(metadata["introspection_endpoint"], token=exchanged["access_token"]).json()
        assert about["act"] == {"sub": service["client_id"]}
