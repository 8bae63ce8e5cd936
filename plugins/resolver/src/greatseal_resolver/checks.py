"""What doctor says about DNS. None of it keeps a service from being ready: issuance fails by name, with the reason."""

from collections.abc import Sequence
from ipaddress import ip_address

from greatseal.api.declarations import Check, CheckResult
from greatseal.api.problems import Problem
from greatseal.net import parse_server
from greatseal_resolver.nameservers import system_servers
from greatseal_resolver.resolver import DnsResolver
from greatseal_resolver.settings import DnsSettings, HostsSettings


def resolver_checks(settings: DnsSettings) -> Sequence[Check]:
    """That the resolver answers, that it validates, and that nobody sits between."""
    resolver = DnsResolver(settings, HostsSettings())

    async def answers() -> CheckResult:
        try:
            validated = await resolver.validates()
        except Problem as problem:
            return CheckResult(ok=False, detail=f"{problem.detail}; set [server] dns_resolver_addr to a resolver that answers")
        if settings.validate_dnssec and not validated:
            return CheckResult(
                ok=False,
                detail="the resolver answers and does not validate DNSSEC (no AD for the root); use one that does, for example unbound",
            )
        return CheckResult(ok=True, detail="the resolver answers" + (" and validates DNSSEC" if validated else ""))

    async def trusted() -> CheckResult:
        return _path_to_resolver(settings)

    return [Check(name="dns", run=answers, ready=False), Check(name="dns-path", run=trusted, ready=False)]


def _path_to_resolver(settings: DnsSettings) -> CheckResult:
    """Whether the verdict of the resolver (the AD bit, or SERVFAIL for a bogus answer) can be forged on its way."""
    if settings.dns_dot_server_name is not None:
        return CheckResult(ok=True, detail="DNS over TLS")
    try:
        asked = [parse_server(settings.dns_resolver_addr)[0]] if settings.dns_resolver_addr else system_servers()
    except LookupError as error:
        return CheckResult(ok=False, detail=str(error))
    distant = [address for address in asked if not ip_address(address).is_loopback]
    if distant and settings.validate_dnssec:
        cure = "run a validating resolver on this machine, or set dns_dot_server_name"
        return CheckResult(ok=False, detail=f"answers of {', '.join(distant)} can be forged on their way, DNSSEC or not; {cure}")
    return CheckResult(ok=True, detail=f"asks {', '.join(asked)}")
