"""none (RFC 7591 s2): a public client says who it is and proves nothing."""

import msgspec

from greatseal.api.clients import Client, ClientAuthMethod, ClientMatch, ClientRequest


class NamedClient(msgspec.Struct, frozen=True):
    """The ``client_id`` of the body."""

    client_id: str


class PublicClient(ClientAuthMethod[NamedClient]):
    """A client without a credential."""

    method = "none"
    ambient = True
    fields = frozenset({"jwks", "jwks_uri"})

    def credentials(self, request: ClientRequest) -> NamedClient | None:
        client_id = request.form.get("client_id")
        return None if client_id is None else NamedClient(client_id)

    def client_id(self, credentials: NamedClient) -> str:
        return credentials.client_id

    async def verify(self, credentials: NamedClient, client: Client) -> ClientMatch:  # noqa: ARG002  naming itself is all
        return ClientMatch(subject=client.client_id)
