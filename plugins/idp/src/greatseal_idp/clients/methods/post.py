"""client_secret_post (RFC 6749 s2.3.1): id and secret in the body, never in the query."""

import msgspec

from greatseal.api.clients import Client, ClientAuthMethod, ClientMatch, ClientRequest, InvalidClient
from greatseal_idp.clients.secrets import ClientSecrets


class PostCredentials(msgspec.Struct, frozen=True):
    """What the body holds."""

    client_id: str
    secret: str
    remote: str


class ClientSecretPost(ClientAuthMethod[PostCredentials]):
    """The client's secret in the form."""

    method = "client_secret_post"
    fields = frozenset({"jwks", "jwks_uri"})
    secret_form = "digest"  # noqa: S105  the form, no secret

    def __init__(self, secrets: ClientSecrets) -> None:
        self._secrets = secrets

    def credentials(self, request: ClientRequest) -> PostCredentials | None:
        secret = request.form.get("client_secret")
        if secret is None:
            return None
        client_id = request.form.get("client_id")
        if client_id is None and "Authorization" not in request.call.headers:
            raise InvalidClient("client_secret was sent without client_id")
        return PostCredentials(client_id or "", secret, request.call.remote)

    def client_id(self, credentials: PostCredentials) -> str:
        return credentials.client_id

    async def verify(self, credentials: PostCredentials, client: Client) -> ClientMatch:
        if not await self._secrets.is_right(client, (credentials.secret,), remote=credentials.remote):
            raise InvalidClient
        return ClientMatch(subject=client.client_id)
