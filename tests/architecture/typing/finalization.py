"""FinalizeCheck, SanInjector and IssuanceObserver: grants, the Kerberos name, the log queue.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from cryptography import x509
from sqlalchemy import Executable

from greatseal.api.acme import Unauthorized
from greatseal.api.inventory import CertificateDetails
from greatseal.api.issuance import (
    Certificate,
    Finalization,
    FinalizeCheck,
    IssuanceObserver,
    IssuanceRequest,
    SanInjector,
)
from greatseal.api.store import Tx
from greatseal.host import Host

KRB5_PRINCIPAL_NAME = x509.ObjectIdentifier("1.3.6.1.5.2.2")


class AccountGrant(FinalizeCheck):
    """An account with profile grants may use those profiles alone."""

    name = "account-grant"
    phase = "authorize"

    async def check(self, finalization: Finalization) -> None:
        grants = finalization.account.profile_grants
        if grants is not None and finalization.profile.id not in grants:
            raise Unauthorized(f"the account has no grant for the profile {finalization.profile.id}")


class KerberosNames(msgspec.Struct, frozen=True):
    """The keys that san-kerberos owns in `[profiles.*]`."""

    inject_account_kpn: bool = False


class KerberosPrincipalName(SanInjector):
    """The account's principal as KRB5PrincipalName (RFC 4556 s3.2.2), where the profile asks for it."""

    name = "kpn"

    def __init__(self, host: Host, encode: Callable[[str], bytes]) -> None:
        self.profiles = host.settings_by_key(KerberosNames)
        self.encode = encode

    def names(self, issuance: IssuanceRequest) -> Sequence[x509.GeneralName]:
        settings = self.profiles.get(issuance.profile.id, KerberosNames())
        if not settings.inject_account_kpn:
            return ()
        if issuance.account is None or issuance.account.kerberos_principal is None:
            raise Unauthorized("the profile asks for a principal and the account has none")
        return (x509.OtherName(KRB5_PRINCIPAL_NAME, self.encode(issuance.account.kerberos_principal)),)


class LogPositions(CertificateDetails):
    """mtc: where certificates stand in the log, for operators."""

    name = "mtc"

    def __init__(self, positions: Mapping[str, int]) -> None:
        self.positions = positions

    async def members(self, certificates: Sequence[Certificate], *, whole: bool) -> Mapping[str, Mapping[str, object]]:
        known = {one.id: self.positions[one.id] for one in certificates if one.id in self.positions}
        return {id: {"mtc_log_index": position} for id, position in known.items() if whole or position}


class LogQueue(IssuanceObserver):
    """mtc: every issued certificate waits for the sequencer, in the transaction that stored it."""

    ENQUEUE: Executable
    REVOKED: Executable

    def issued(self, tx: Tx, certificate: Certificate) -> None:
        tx.run(self.ENQUEUE, cert_id=certificate.id, der=certificate.der)

    def revoked(self, tx: Tx, certificate: Certificate, reason: int | None) -> None:
        tx.run(self.REVOKED, cert_id=certificate.id, reason=reason)
