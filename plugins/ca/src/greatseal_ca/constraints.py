"""What the certificates of a CA let it certify: pathLenConstraint, extended key usages and name constraints (RFC 5280 s4.2.1.9 to 12).

Every certificate of the chain counts, the root too: RFC 5280 leaves trust anchors out, but OpenSSL and Go look at theirs. Where verifiers
differ, what one of them refuses is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from greatseal.api.acme import RejectedIdentifier
from greatseal_ca.settings import eku_oid

_ANSWERED = (x509.BasicConstraints, x509.KeyUsage, x509.ExtendedKeyUsage, x509.NameConstraints, x509.CertificatePolicies)
"""Critical extensions of a CA certificate that are heeded here, or that forbid nothing."""


class Constraints:
    """Those of one chain, issuing CA first."""

    def __init__(self, chain: Sequence[x509.Certificate]) -> None:
        self._permitted: list[tuple[type[x509.GeneralName], list[x509.GeneralName]]] = []
        self._excluded: list[x509.GeneralName] = []
        self._usages: set[x509.ObjectIdentifier] | None = None
        self.problems = [*_path_problems(chain)]
        for certificate in chain:
            self.problems += [f"{_name(certificate)}: {problem}" for problem in self._read(certificate)]

    def _read(self, certificate: x509.Certificate) -> Iterator[str]:
        for one in certificate.extensions:
            match one.value:
                case x509.ExtendedKeyUsage() as usages if ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE not in usages:
                    self._usages = set(usages) if self._usages is None else self._usages & set(usages)
                case x509.NameConstraints(permitted_subtrees=permitted, excluded_subtrees=excluded):
                    kinds = {type(base) for base in permitted or ()}
                    self._permitted += [(kind, [base for base in permitted or () if type(base) is kind]) for kind in kinds]
                    self._excluded += excluded or ()
                case x509.PolicyConstraints(require_explicit_policy=int()):
                    yield "policyConstraints ask for certificate policies, which are not issued"
                case value if one.critical and not isinstance(value, (*_ANSWERED, x509.PolicyConstraints, x509.InhibitAnyPolicy)):
                    yield f"the critical extension {one.oid.dotted_string} is not understood"

    def check(self, names: Iterable[x509.GeneralName]) -> None:
        """Raises RejectedIdentifier for the first name that the chain does not let be certified."""
        for name in names:
            if reason := self.refusal(name):
                raise RejectedIdentifier(f"a certificate for this name would not verify: {reason}")

    def findings(self, names: Iterable[x509.GeneralName], eku: Iterable[str], subject: x509.Name) -> list[str]:
        """What of a certificate the chain does not allow."""
        findings = [reason for name in names if (reason := self.refusal(name))]
        findings += [f"the chain does not allow the extended key usage {name}" for name in self.refused_usages(eku)]
        return findings if self.allows_subject(subject) else [*findings, "the chain does not allow the subject"]

    def refused_usages(self, eku: Iterable[str]) -> list[str]:
        """Those of the extended key usages that the chain does not allow."""
        return [name for name in eku if self._usages is not None and eku_oid(name) not in self._usages]

    def refusal(self, name: x509.GeneralName) -> str | None:
        """Why no certificate for ``name`` would verify; None when the chain lets it be certified."""
        for kind, bases in self._permitted:
            if type(name) is kind and not any(_within(name, base) for base in bases):
                return f"the CA is limited to {', '.join(map(_shown, bases))}"
        for base in self._excluded:
            if type(base) is type(name) and (_within(name, base) or _may_be(name, base)):
                return f"{_shown(base)} is excluded from what the CA may certify"
        return None

    def allows_subject(self, subject: x509.Name) -> bool:
        """Whether a subject is within the directoryName constraints; an empty one always is."""
        return not subject.rdns or self.refusal(x509.DirectoryName(subject)) is None


def _path_problems(chain: Sequence[x509.Certificate]) -> Iterator[str]:
    """Each certificate says how many CAs, not counting self-issued ones, may stand between it and a leaf."""
    below = 0
    for certificate in chain:
        longest = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length
        if longest is not None and longest < below:
            cas = "CA" if below == 1 else "CAs"
            yield f"{_name(certificate)}: its pathLenConstraint allows {longest} CAs below it, and there is {below} {cas}"
        below += certificate.subject != certificate.issuer


def _name(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string()


def _within(name: x509.GeneralName, base: x509.GeneralName) -> bool:
    """Whether a name is in the subtree of a base of its own type. Of types that nothing here can compare: no name is."""
    compare = _COMPARED.get(type(base))
    return compare is not None and compare(name.value, base.value)


def _dns_within(name: str, base: str) -> bool:
    # A leading period is not in RFC 5280 for DNS names; verifiers take it to ask for one label more.
    name, base = name.lower(), base.lower()
    return not base or name == base or name.endswith(base if base.startswith(".") else f".{base}")


def _email_within(name: str, base: str) -> bool:
    local, _, host = name.rpartition("@")
    wanted_local, at, wanted = base.rpartition("@")
    if at:
        return (local, host.lower()) == (wanted_local, wanted.lower())
    return host.lower().endswith(wanted.lower()) if wanted.startswith(".") else host.lower() == wanted.lower()


def _address_within(name: IPv4Address | IPv6Address, base: IPv4Network | IPv6Network) -> bool:
    return name.version == base.version and name in base


def _directory_within(name: x509.Name, base: x509.Name) -> bool:
    wanted = [_comparable(rdn) for rdn in base.rdns]
    return [_comparable(rdn) for rdn in name.rdns][: len(wanted)] == wanted


def _comparable(rdn: x509.RelativeDistinguishedName) -> frozenset[tuple[str, str]]:
    """RFC 5280 s7.1: without regard to case and to spaces at the ends or repeated."""
    return frozenset((one.oid.dotted_string, " ".join(str(one.value).casefold().split())) for one in rdn)


_COMPARED: Mapping[type[x509.GeneralName], Callable[[Any, Any], bool]] = {
    x509.DNSName: _dns_within,
    x509.RFC822Name: _email_within,
    x509.IPAddress: _address_within,
    x509.DirectoryName: _directory_within,
}


def _may_be(name: x509.GeneralName, base: x509.GeneralName) -> bool:
    """Whether an excluded base is among what a name stands for: that of a host is one label below the wildcard. Unknown types may be."""
    if not isinstance(name, x509.DNSName) or not isinstance(base, x509.DNSName):
        return type(name) not in _COMPARED
    label, _, rest = base.value.lower().partition(".")
    return bool(label) and name.value.lower() == f"*.{rest}"


def _shown(base: x509.GeneralName) -> str:
    value = base.value
    return value.rfc4514_string() if isinstance(value, x509.Name) else str(value) or "the empty name, which means every name"
