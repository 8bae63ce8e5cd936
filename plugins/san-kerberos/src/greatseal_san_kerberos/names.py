"""Which Kerberos names a certificate gets, by its profile."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from cryptography import x509

from greatseal import der
from greatseal.api.acme import BadCsr, RejectedIdentifier, Unauthorized
from greatseal.api.issuance import IssuanceRequest, SanInjector
from greatseal.principals import Principal
from greatseal_san_kerberos.principals import encoded, parse
from greatseal_san_kerberos.settings import KerberosNames
from greatseal_san_kerberos.templates import DNS, filled, has_place, principal_template

KRB5_PRINCIPAL_NAME = x509.ObjectIdentifier("1.3.6.1.5.2.2")
MS_UPN = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
_UTF8_STRING = 0x0C
_HOST = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*")


_NONE = KerberosNames()
_template = lru_cache(1000)(principal_template)


class KerberosSans(SanInjector):
    """KRB5PrincipalName by templates and of the account, and one UPN."""

    name = "kerberos"

    def __init__(self, profiles: Mapping[str, KerberosNames]) -> None:
        self._profiles = profiles

    def names(self, issuance: IssuanceRequest) -> Sequence[x509.GeneralName]:
        own = self._profiles.get(issuance.profile.id)
        if own is None or own == _NONE:
            return ()
        dns = _dns_names(issuance)
        principals = [found for template in map(_template, own.kpn_san_templates) for found in _of_template(template, dns)]
        if own.inject_account_kpn:
            principals.append(_of_account(issuance))
        found: list[x509.GeneralName] = [_kpn(one) for one in principals]
        if own.ms_upn_san_template is not None:
            found.append(_upn(own.ms_upn_san_template, dns))
        return tuple(dict.fromkeys(found))


def _dns_names(issuance: IssuanceRequest) -> Sequence[str]:
    """The DNS names of the order, in the order in which the request has them; those that are its common name come last."""
    ordered = {one.value: None for one in issuance.identifiers if one.type == "dns"}
    try:
        san = issuance.csr.csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return tuple(ordered)
    asked = [name.lower() for name in san.get_values_for_type(x509.DNSName)]
    return tuple(dict.fromkeys([*(name for name in asked if name in ordered), *ordered]))


def _of_template(template: Principal, dns: Sequence[str]) -> Iterator[Principal]:
    if not has_place(template):
        yield template
        return
    for name in dns:
        _check_host(name)
        yield filled(template, name)


def _of_account(issuance: IssuanceRequest) -> Principal:
    account = issuance.account
    if account is None or account.kerberos_principal is None:
        raise Unauthorized(
            f"the profile {issuance.profile.id} certifies the Kerberos principal of the account, which has none; "
            "bind a new account with credentials of the principal"
        )
    try:
        return parse(account.kerberos_principal)
    except ValueError as error:
        raise Unauthorized(f"the Kerberos principal of the account cannot be certified: it {error}") from None


def _kpn(principal: Principal) -> x509.OtherName:
    return x509.OtherName(KRB5_PRINCIPAL_NAME, encoded(principal))


def _upn(template: str, dns: Sequence[str]) -> x509.OtherName:
    if DNS in template:
        if not dns:
            raise BadCsr("the profile makes a user principal name of the first DNS name, and the request has none")
        _check_host(dns[0])
        template = template.replace(DNS, dns[0])
    return x509.OtherName(MS_UPN, der.element(_UTF8_STRING, template.encode()))


def _check_host(name: str) -> None:
    """A wildcard would make a name that nobody has; nothing else than labels of a host is ever put into a name (S141)."""
    if not _HOST.fullmatch(name):
        raise RejectedIdentifier(
            "the profile makes a Kerberos name of each DNS name, and no host has this one", identifier={"type": "dns", "value": name}
        )
