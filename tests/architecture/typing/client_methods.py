"""Client authentication by a secret.

An example of the contract, checked by mypy: no plugin has this code.
"""

import hmac
from base64 import b64decode
from hashlib import sha256
from urllib.parse import unquote_plus

import msgspec

from greatseal.api.clients import (
    Client,
    ClientAuthMethod,
    ClientMatch,
    ClientRequest,
    InvalidClient,
)
from greatseal.api.declarations import Secret


class BasicCredentials(msgspec.Struct, frozen=True, kw_only=True):
    client_id: str
    secret: Secret


class ClientSecretBasic(ClientAuthMethod[BasicCredentials]):
    """RFC 6749 s2.3.1."""

    method = "client_secret_basic"
    fields = frozenset({"client_secret"})
    secret_form = "digest"

    def credentials(self, request: ClientRequest) -> BasicCredentials | None:
        scheme, _, encoded = request.call.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        client_id, separator, secret = b64decode(encoded).decode().partition(":")
        if not separator:
            raise InvalidClient("the Basic credentials have no colon", headers={"WWW-Authenticate": "Basic"})
        return BasicCredentials(client_id=unquote_plus(client_id), secret=Secret(unquote_plus(secret)))

    def client_id(self, credentials: BasicCredentials) -> str:
        return credentials.client_id

    async def verify(self, credentials: BasicCredentials, client: Client) -> ClientMatch:
        digest = sha256(credentials.secret.value.encode()).digest()
        if client.secret is None or not hmac.compare_digest(client.secret.value, digest):
            raise InvalidClient("the client was not proven", headers={"WWW-Authenticate": "Basic"})
        return ClientMatch(subject=client.client_id)
