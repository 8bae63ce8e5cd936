"""Kerberos names in certificates: for PKINIT (RFC 4556) and for sign-in to Windows."""

from collections.abc import Sequence

from greatseal import hookimpl
from greatseal.api.declarations import Owns, Reads
from greatseal.api.issuance import SanInjector
from greatseal.host import Host
from greatseal_san_kerberos.names import KerberosSans
from greatseal_san_kerberos.settings import KerberosNames


class Plugin:
    """Principals by templates of the profile, and that of the account."""

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("profiles.*", KerberosNames)]

    @hookimpl
    def san_injectors(self, host: Host) -> Sequence[SanInjector]:
        return [KerberosSans(host.settings_by_key(KerberosNames))]
