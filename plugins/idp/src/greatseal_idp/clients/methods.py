"""The client authentication methods of RFC 6749 s2.3.1, and ``none`` (RFC 7591 s2)."""

import base64
import binascii
from urllib.parse import unquote_plus

import msgspec

from greatseal.api.clients import Client, ClientAuthMethod, ClientMatch, ClientRequest, InvalidClient
from greatseal_idp.clients.secrets import ClientSecrets

SCHEME = "basic "


class Credentials(msgspec.Struct, frozen=True):
    """What a request holds. ``secrets`` are the readings of the secret, ``remote`` is where it came from."""

    client_id: str
    secrets: tuple[str, ...] = ()
    remote: str = ""


class BySecret(ClientAuthMethod[Credentials]):
    """A client with a secret."""

    fields = frozenset({"jwks", "jwks_uri"})
    secret_form = "digest"  # noqa: S105  the form, no secret

    def __init__(self, secrets: ClientSecrets) -> None:
        self._secrets = secrets

    def client_id(self, credentials: Credentials) -> str:
        return credentials.client_id

    async def verify(self, credentials: Credentials, client: Client) -> ClientMatch:
        if not await self._secrets.is_right(client, credentials.secrets, remote=credentials.remote):
            raise InvalidClient
        return ClientMatch(subject=client.client_id)


class ClientSecretBasic(BySecret):
    """By HTTP Basic: id and secret in the Authorization header, each form-encoded before base64, or plain as many clients send it."""

    method = "client_secret_basic"

    def credentials(self, request: ClientRequest) -> Credentials | None:
        header = request.call.headers.get("Authorization", "")
        if header[: len(SCHEME)].lower() != SCHEME:
            return None
        try:
            id, colon, secret = base64.b64decode(header[len(SCHEME) :].strip(), validate=True).decode().partition(":")
            decoded_id, decoded = _decoded(id), _decoded(secret)
        except (binascii.Error, ValueError):
            raise InvalidClient("the Basic credentials cannot be read (RFC 6749 s2.3.1)") from None
        if not colon:
            raise InvalidClient("the Basic credentials have no colon (RFC 7617 s2)")
        return Credentials(decoded_id, (decoded,) if decoded == secret else (decoded, secret), request.call.remote)


class ClientSecretPost(BySecret):
    """In the body, never in the query."""

    method = "client_secret_post"

    def credentials(self, request: ClientRequest) -> Credentials | None:
        secret = request.form.get("client_secret")
        if secret is None:
            return None
        client_id = request.form.get("client_id")
        if client_id is None and "Authorization" not in request.call.headers:
            raise InvalidClient("client_secret was sent without client_id (RFC 6749 s2.3.1)")
        return Credentials(client_id or "", (secret,), request.call.remote)


class PublicClient(ClientAuthMethod[Credentials]):
    """A client without a credential: it says who it is and proves nothing."""

    method = "none"
    ambient = True
    fields = frozenset({"jwks", "jwks_uri"})

    def credentials(self, request: ClientRequest) -> Credentials | None:
        client_id = request.form.get("client_id")
        return None if client_id is None else Credentials(client_id)

    def client_id(self, credentials: Credentials) -> str:
        return credentials.client_id

    async def verify(self, credentials: Credentials, client: Client) -> ClientMatch:  # noqa: ARG002  naming itself is all
        return ClientMatch(subject=client.client_id)


def _decoded(text: str) -> str:
    return unquote_plus(text, errors="strict") if "%" in text or "+" in text else text
