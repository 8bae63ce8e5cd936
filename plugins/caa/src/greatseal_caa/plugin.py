"""CAA records are asked before a certificate is issued (RFC 8659, RFC 8657)."""

from collections.abc import Mapping, Sequence

from greatseal import hookimpl
from greatseal.api.declarations import Owns, Reads
from greatseal.api.http import Discovery
from greatseal.api.issuance import FinalizeCheck
from greatseal.api.services import RESOLVER
from greatseal.host import Host
from greatseal_caa.caa import CaaCheck
from greatseal_caa.settings import CaaOfCa, CaaServer, CaId, identities


class Plugin:
    """At finalization, after validation and before signing."""

    requires = (RESOLVER,)

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("server", CaaServer), Owns("ca[]", CaaOfCa), Reads("ca[]", CaId)]

    @hookimpl
    def finalize_checks(self, host: Host) -> Sequence[FinalizeCheck]:
        onions = host.settings(CaaServer).onion_caa_required
        return [CaaCheck(host.service(RESOLVER), _identities(host), host.clock, onions=onions)]

    @hookimpl
    def discovery(self, host: Host) -> Sequence[Discovery]:
        onions = host.settings(CaaServer).onion_caa_required
        return [_shown(ca_id, named, onions=onions) for ca_id, named in _identities(host).items() if named]


def _identities(host: Host) -> Mapping[str, tuple[str, ...]]:
    return identities(host.settings(CaaServer), host.settings_list(CaaOfCa), host.settings_list(CaId))


def _shown(ca_id: str, named: Sequence[str], *, onions: bool) -> Discovery:
    required = {"inBandOnionCAARequired": True} if onions else {}
    return Discovery("acme", lambda: {"meta": {"caaIdentities": named, **required}}, ca_id=ca_id)
