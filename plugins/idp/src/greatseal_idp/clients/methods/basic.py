"""client_secret_basic (RFC 6749 s2.3.1): id and secret in the Authorization header, each form-encoded before base64."""

import base64
import binascii
from urllib.parse import unquote_plus

import msgspec

from greatseal.api.clients import Client, ClientAuthMethod, ClientMatch, ClientRequest, InvalidClient
from greatseal_idp.clients.secrets import ClientSecrets

SCHEME = "basic "


class BasicCredentials(msgspec.Struct, frozen=True):
    """What the header holds. ``secrets`` are its readings: as the RFC encodes it, and as many clients send it, plain."""

    client_id: str
    secrets: tuple[str, ...]
    remote: str


class ClientSecretBasic(ClientAuthMethod[BasicCredentials]):
    """The client's secret by HTTP Basic."""

    method = "client_secret_basic"
    fields = frozenset({"jwks", "jwks_uri"})
    secret_form = "digest"  # noqa: S105  the form, no secret

    def __init__(self, secrets: ClientSecrets) -> None:
        self._secrets = secrets

    def credentials(self, request: ClientRequest) -> BasicCredentials | None:
        header = request.call.headers.get("Authorization", "")
        if header[: len(SCHEME)].lower() != SCHEME:
            return None
        try:
            id, colon, secret = base64.b64decode(header[len(SCHEME) :].strip(), validate=True).decode().partition(":")
            decoded_id, decoded = _decoded(id), _decoded(secret)
        except (binascii.Error, ValueError):
            raise InvalidClient("the Basic credentials cannot be read") from None
        if not colon:
            raise InvalidClient("the Basic credentials have no colon")
        return BasicCredentials(decoded_id, (decoded,) if decoded == secret else (decoded, secret), request.call.remote)

    def client_id(self, credentials: BasicCredentials) -> str:
        return credentials.client_id

    async def verify(self, credentials: BasicCredentials, client: Client) -> ClientMatch:
        if not await self._secrets.is_right(client, credentials.secrets, remote=credentials.remote):
            raise InvalidClient
        return ClientMatch(subject=client.client_id)


def _decoded(text: str) -> str:
    return unquote_plus(text, errors="strict") if "%" in text or "+" in text else text
