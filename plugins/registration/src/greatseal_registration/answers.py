"""What a client is told of its registration (RFC 7591 s3.2.1, RFC 7592 s3)."""

from typing import Any

from greatseal.api.clients import Client
from greatseal.api.declarations import Secret
from greatseal.api.moments import seconds

PATH = "/api/admin/clients"
NOT_ITS_OWN = frozenset({"consent"})
"""Members that are an administrator's word about the client: it could not send them back."""
RESPONSE_TYPES = {"authorization_code": "code"}


def client_uri(issuer: str, client_id: str) -> str:
    """Where the registration is."""
    return f"{issuer}{PATH}/{client_id}"


def told(client: Client, *, issuer: str, secret: Secret | None, token: str | None) -> dict[str, Any]:
    """The members that apply: what is unset is left out. ``token`` is the registration access token that is good from now on."""
    members: dict[str, Any] = {
        "client_id": client.client_id,
        "client_id_issued_at": seconds(client.created_at),
        "client_name": client.client_name or None,
        "redirect_uris": list(client.redirect_uris) or None,
        "token_endpoint_auth_method": client.token_endpoint_auth_method,
        "grant_types": list(client.grant_types),
        "response_types": [RESPONSE_TYPES[grant] for grant in client.grant_types if grant in RESPONSE_TYPES],
        "scope": " ".join(client.scopes) or None,
        "jwks_uri": client.jwks_uri,
        "jwks": client.jwks,
        **{name: value for name, value in client.more.items() if name not in NOT_ITS_OWN},
        "registration_client_uri": client_uri(issuer, client.client_id),
        "registration_access_token": token,
    }
    if secret is not None:
        members |= {"client_secret": secret.value, "client_secret_expires_at": 0}
    return {name: value for name, value in members.items() if value is not None}
