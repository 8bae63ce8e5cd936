"""DPoP (RFC 9449)."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.authorization import Extension
from greatseal.api.declarations import Owns
from greatseal.api.http import Discovery
from greatseal.api.services import CLIENTS
from greatseal.api.tokens import TokenBinding
from greatseal.host import Host
from greatseal.jose.compact import ALGORITHMS
from greatseal_dpop.binding import Dpop
from greatseal_dpop.codes import BoundCodes
from greatseal_dpop.nonces import Nonces
from greatseal_dpop.proofs import Proofs
from greatseal_dpop.settings import DpopSettings


class Plugin:
    """Binds tokens, and codes, to a key that the client proves with each request."""

    requires = (CLIENTS,)

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("oauth", DpopSettings)]

    @hookimpl
    def token_bindings(self, host: Host) -> Sequence[TokenBinding]:
        return [Dpop(Proofs(host, Nonces(host) if host.settings(DpopSettings).dpop_nonce else None), host.service(CLIENTS))]

    @hookimpl
    def extensions(self) -> Sequence[Extension[Any]]:
        return [BoundCodes()]

    @hookimpl
    def discovery(self) -> Sequence[Discovery]:
        return [Discovery("oauth", members), Discovery("openid", members), Discovery("resource", members)]


def members() -> Mapping[str, object]:
    """What the discovery documents say of it (RFC 9449 s5.1)."""
    return {"dpop_signing_alg_values_supported": [*ALGORITHMS]}
