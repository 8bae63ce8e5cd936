"""DPoP (RFC 9449)."""

from collections.abc import Mapping, Sequence

from greatseal import hookimpl
from greatseal.api.http import Discovery
from greatseal.api.tokens import TokenBinding
from greatseal.host import Host
from greatseal.jose.compact import ALGORITHMS
from greatseal_dpop.binding import Dpop
from greatseal_dpop.proofs import Proofs


class Plugin:
    """Binds tokens to a key that the client proves with each request."""

    @hookimpl
    def token_bindings(self, host: Host) -> Sequence[TokenBinding]:
        return [Dpop(Proofs(host))]

    @hookimpl
    def discovery(self) -> Sequence[Discovery]:
        return [Discovery("oauth", members), Discovery("openid", members), Discovery("resource", members)]


def members() -> Mapping[str, object]:
    """What the discovery documents say of it (RFC 9449 s5.1)."""
    return {"dpop_signing_alg_values_supported": [*ALGORITHMS]}
