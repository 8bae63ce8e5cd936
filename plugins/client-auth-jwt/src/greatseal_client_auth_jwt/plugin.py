"""private_key_jwt and client_secret_jwt."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.clients import ClientAuthMethod
from greatseal.api.declarations import Owns
from greatseal.api.http import Discovery
from greatseal.api.services import CLIENTS, RESOLVER
from greatseal.host import Host
from greatseal.jose.compact import ALGORITHMS
from greatseal.net import RemoteKeys
from greatseal_client_auth_jwt.assertion import MAC_ALGORITHMS
from greatseal_client_auth_jwt.methods import ClientSecretJwt, PrivateKeyJwt
from greatseal_client_auth_jwt.settings import JwksSettings


class Plugin:
    """Two client authentication methods over one assertion."""

    requires = (CLIENTS, RESOLVER)

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("oauth", JwksSettings)]

    @hookimpl
    def client_auth_methods(self, host: Host) -> Sequence[ClientAuthMethod[Any]]:
        allow_private = host.settings(JwksSettings).allow_private_jwks_hosts
        keys = RemoteKeys(host.service(RESOLVER), host.clock, allow_private=allow_private)
        return [PrivateKeyJwt(host, keys), ClientSecretJwt(host, host.service(CLIENTS))]

    @hookimpl
    def discovery(self) -> Sequence[Discovery]:
        return [Discovery("oauth", members), Discovery("openid", members)]


def members() -> Mapping[str, object]:
    """What the discovery documents say of it (RFC 8414 s2)."""
    return {"token_endpoint_auth_signing_alg_values_supported": [*ALGORITHMS, *sorted(MAC_ALGORITHMS)]}
