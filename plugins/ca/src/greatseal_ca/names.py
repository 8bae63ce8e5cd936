"""Names of certificates: host names, what common names ask for, and the subject."""

import ipaddress
import re
from collections.abc import Sequence

from cryptography import x509
from cryptography.x509.name import _ASN1Type  # the only door to the string type of a name attribute
from cryptography.x509.oid import NameOID

from greatseal.api.acme import Identifier

MAX_NAME = 253
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOSTNAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*", re.ASCII)
# X.680 41.4
_PRINTABLE = re.compile(r"[A-Za-z0-9 '()+,\-./:=?]*", re.ASCII)
# RFC 5280 appendix A: ub-common-name
MAX_COMMON_NAME = 64


def is_hostname(name: str) -> bool:
    """Whether ``name`` is a DNS name in canonical form: lower-case letters, digits, hyphens; ``*`` only as the first label."""
    return len(name) <= MAX_NAME and _HOSTNAME.fullmatch(name) is not None


def common_name_identifier(value: str, *, alone: bool) -> Identifier | None:
    """What a common name asks for: a host name or an address, else nothing, for it is some other text.

    ``alone`` tells that the request has no other name; only then a single label is a host name (and not, for example, a first name).
    """
    name = value.lower()
    try:
        return Identifier("ip", str(ipaddress.ip_address(name)))
    except ValueError:
        pass
    return Identifier("dns", name) if is_hostname(name) and (alone or "." in name) else None


def subject(identifiers: Sequence[Identifier], wishes: Sequence[str]) -> x509.Name:
    """The subject: a wished common name that is an identifier, else the first DNS name that is short enough, else empty."""
    names = [one.value for one in identifiers if one.type == "dns" and len(one.value) <= MAX_COMMON_NAME]
    wished = [name for name in (wish.lower() for wish in wishes) if name in names]
    return x509.Name([common_name(name) for name in (wished or names)[:1]])


def common_name(value: str) -> x509.NameAttribute[str]:
    """A commonName: PrintableString where its characters allow, else UTF8String (CA document, log content rule 3)."""
    return x509.NameAttribute(NameOID.COMMON_NAME, value, string_type(value))


def organization(value: str) -> x509.NameAttribute[str]:
    """An organizationName with the string type of :func:`common_name`."""
    return x509.NameAttribute(NameOID.ORGANIZATION_NAME, value, string_type(value))


def string_type(value: str) -> _ASN1Type:
    """The string type that ``value`` is written as."""
    return _ASN1Type.PrintableString if _PRINTABLE.fullmatch(value) else _ASN1Type.UTF8String
