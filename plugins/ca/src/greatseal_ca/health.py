"""What /readyz and doctor say about the CAs."""

from datetime import UTC, datetime, timedelta

from cryptography import x509

from greatseal.api.declarations import Check, CheckResult
from greatseal.api.moments import SECOND
from greatseal.host import Host
from greatseal_ca.authorities import Authorities
from greatseal_ca.profiles import Profiles
from greatseal_ca.validity import DAY, as_datetime

SOON = timedelta(days=90)
"""From then on doctor warns that a CA certificate ends."""

PROBE = b"greatseal readiness probe"


def checks(host: Host, authorities: Authorities) -> list[Check]:
    """Keys and lifetimes for readiness, an end that comes near for doctor alone."""

    async def keys() -> CheckResult:
        for issuing in authorities.issuing.values():
            await issuing.signer.sign(PROBE)
        return _result(_ended(host, authorities, timedelta()), f"{len(authorities.issuing)} can sign")

    async def lifetimes() -> CheckResult:
        return _result(_ended(host, authorities, SOON), f"no CA certificate ends within {SOON.days} days")

    return [Check(name="ca", run=keys), Check(name="ca-lifetime", run=lifetimes, ready=False)]


def warn_of_cuts(host: Host, authorities: Authorities, profiles: Profiles) -> None:
    """Say in the log where a CA ends before certificates that it issues now would: they end with it."""
    now = host.clock.now()
    for issuing in authorities.issuing.values():
        days = profiles.longest(issuing.ca_id, now)
        if now + days * DAY > issuing.bounds.end:
            ends = f"{as_datetime(issuing.bounds.end):%Y-%m-%d}"
            host.log.warning("certificates end with their CA; renew it", ca=issuing.ca_id, ends=ends, validity_days=days)


def _ended(host: Host, authorities: Authorities, ahead: timedelta) -> list[str]:
    now = datetime.fromtimestamp(host.clock.now() // SECOND, UTC)
    return [
        f"{issuing.ca_id}: {certificate.subject.rfc4514_string()} ends {certificate.not_valid_after_utc:%Y-%m-%d}; renew it"
        for issuing in authorities.issuing.values()
        for certificate in map(x509.load_der_x509_certificate, issuing.chain)
        if certificate.not_valid_after_utc <= now + ahead
    ]


def _result(wrong: list[str], well: str) -> CheckResult:
    return CheckResult(ok=not wrong, detail="; ".join(wrong) or well)
