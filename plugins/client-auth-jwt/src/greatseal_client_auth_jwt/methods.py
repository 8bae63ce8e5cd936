"""The two methods of RFC 7523 s2.2: an assertion under the client's key pair, or under a MAC with its secret."""

import hmac
from typing import ClassVar

from greatseal.api.clients import Client, ClientAuthMethod, ClientMatch, ClientRequest, Clients, InvalidClientMetadata, Registration
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.algorithms import is_allowed
from greatseal.jose.compact import Jws
from greatseal.jose.keysets import read_key_set
from greatseal.net import RemoteKeys
from greatseal_client_auth_jwt.assertion import Assertion, accept, read, refused

DIGESTS = {"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"}
SHORTEST_SECRET = 32


class ByAssertion(ClientAuthMethod[Assertion]):
    """What both read. ``mac`` tells whose the algorithm is."""

    mac: ClassVar[bool]

    def credentials(self, request: ClientRequest) -> Assertion | None:
        if "client_assertion" not in request.form and "client_assertion_type" not in request.form:
            return None
        return read(request, mac=self.mac)

    def client_id(self, credentials: Assertion) -> str | None:
        return credentials.client_id


class PrivateKeyJwt(ByAssertion):
    """``private_key_jwt``: keys are inline or behind ``jwks_uri``."""

    method = "private_key_jwt"
    mac = False
    fields = frozenset({"jwks", "jwks_uri"})

    def __init__(self, host: Host, keys: RemoteKeys) -> None:
        self._host = host
        self._keys = keys

    def check(self, registration: Registration) -> Client:
        client = registration.client
        if (client.jwks_uri is None) == (client.jwks is None):
            raise InvalidClientMetadata("private_key_jwt needs jwks_uri or jwks, and not both (RFC 7591 s2)")
        if client.jwks_uri is not None and not client.jwks_uri.startswith("https://"):
            raise InvalidClientMetadata("jwks_uri must begin with https:// (OpenID Connect Registration s2)")
        if client.jwks is not None:
            try:
                read_key_set(client.jwks)
            except ValueError as error:
                raise InvalidClientMetadata(f"jwks: {error} (RFC 7517 s5)") from None
        return client

    async def verify(self, credentials: Assertion, client: Client) -> ClientMatch:
        _check_algorithm(client, credentials.jws)
        try:
            keys = await self._keys.of_client(client, credentials.jws.header)
        except ValueError as error:  # they were accepted when the client was registered
            raise refused(str(error)) from None
        used = next((key.key for key in keys if key.signed(credentials.jws)), None)
        if used is None:
            raise refused("no key of the client made the signature")
        if not is_allowed(credentials.jws.alg, used, client.more.get("allowed_signing_algs")):
            raise refused(f"alg {credentials.jws.alg} is none that the client may use with this key")
        if blocked := await self._host.blocked_keys.find(spki_sha256(used)):
            raise refused(f"the key of the client is blocked ({blocked.reason})")
        await accept(self._host, credentials, client)
        return ClientMatch(subject=client.client_id)


class ClientSecretJwt(ByAssertion):
    """``client_secret_jwt``: the secret itself is needed, so it rests sealed."""

    method = "client_secret_jwt"
    mac = True
    secret_form = "sealed"  # noqa: S105  # how it is kept, not what it is

    def __init__(self, host: Host, clients: Clients) -> None:
        self._host = host
        self._clients = clients

    def check(self, registration: Registration) -> Client:
        secret = registration.client_secret
        if secret is not None and len(secret.value.encode()) < SHORTEST_SECRET:
            raise InvalidClientMetadata(f"client_secret must have at least {SHORTEST_SECRET} bytes for client_secret_jwt (RFC 7518 s3.2)")
        return registration.client

    async def verify(self, credentials: Assertion, client: Client) -> ClientMatch:
        _check_algorithm(client, credentials.jws)
        if "allowed_signing_algs" in client.more:
            raise refused("the client may sign with a key pair alone")
        secret = self._clients.secret(client).value.encode()
        expected = hmac.digest(secret, credentials.jws.signing_input, DIGESTS[credentials.jws.alg])
        if not hmac.compare_digest(expected, credentials.jws.signature):
            raise refused("the MAC is not that of the client's secret")
        await accept(self._host, credentials, client)
        return ClientMatch(subject=client.client_id)


def _check_algorithm(client: Client, jws: Jws) -> None:
    """A client that registered ``token_endpoint_auth_signing_alg`` may use no other (OpenID Connect Registration s2)."""
    registered = client.more.get("token_endpoint_auth_signing_alg")
    if registered is not None and registered != jws.alg:
        raise refused(f"alg is {jws.alg}, registered is {registered}")
