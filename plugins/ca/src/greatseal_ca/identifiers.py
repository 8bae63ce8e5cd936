"""The identifier types of this CA: host names, addresses, mail addresses. Every rule that a value breaks is told (RFC 8555 s7.1.3).

RFC 8738 for addresses, RFC 8823 for mail addresses, RFC 7686 and RFC 9799 for onion names.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence

import idna
import msgspec
from cryptography import x509

from greatseal.api.acme import Identifier, RejectedIdentifier, UnsupportedIdentifier
from greatseal.api.identifiers import ExtensionIdentifier
from greatseal.api.issuance import IdentifierType

MAX_NAME = 253
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST_LABEL = re.compile(_LABEL, re.ASCII)
_HOSTNAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_LOCAL_PART = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*", re.ASCII)  # dot-atom, RFC 5322 s3.2.3

Types = Mapping[str, IdentifierType]


class Dns(IdentifierType):
    """A host name of A-labels in lower case, with or without ``*.`` in front."""

    type = "dns"

    def canonical(self, value: str) -> str:
        return canonical_dns(value)

    def general_name(self, value: str) -> x509.GeneralName:
        return x509.DNSName(value)

    def of(self, name: x509.GeneralName) -> str | None:
        if not isinstance(name, x509.DNSName):
            return None
        value = name.value.lower()
        if not is_hostname(value):
            raise ValueError("a dNSName that is no host name")
        return value


class Ip(IdentifierType):
    """An address."""

    type = "ip"

    def canonical(self, value: str) -> str:
        return canonical_ip(value)

    def general_name(self, value: str) -> x509.GeneralName:
        return x509.IPAddress(ipaddress.ip_address(value))

    def of(self, name: x509.GeneralName) -> str | None:
        return str(name.value) if isinstance(name, x509.IPAddress) else None


class Email(IdentifierType):
    """A mail address."""

    type = "email"

    def canonical(self, value: str) -> str:
        return canonical_email(value)

    def general_name(self, value: str) -> x509.GeneralName:
        return x509.RFC822Name(value)

    def of(self, name: x509.GeneralName) -> str | None:
        if not isinstance(name, x509.RFC822Name):
            return None
        local, _, domain = name.value.rpartition("@")
        if not local or not is_hostname(domain.lower()) or not name.value.isprintable() or " " in name.value:
            raise ValueError("an rfc822Name that is no address")
        return f"{local}@{domain.lower()}"


BUILT_IN = (Dns(), Ip(), Email())


def identifier_of(name: x509.GeneralName, types: Types) -> Identifier:
    """The identifier that a general name of a request stands for. Raises ValueError for one that an order cannot hold."""
    for one in types.values():
        if (value := one.of(name)) is not None:
            return Identifier(one.type, value)
    raise ValueError(f"a name of the kind {type(name).__name__}, which no order holds")


def identifiers_within(extensions: Iterable[x509.Extension[x509.ExtensionType]], types: Types) -> set[Identifier]:
    """The identifiers that stand in extensions of their own. Raises ValueError for one that an order cannot hold."""
    held = {one.oid: one.value for one in extensions if isinstance(one.value, x509.UnrecognizedExtension)}
    own = [one for one in types.values() if isinstance(one, ExtensionIdentifier) and one.oid in held]
    return {Identifier(one.type, one.of_content(held[one.oid].value)) for one in own}


def general_names(identifiers: Iterable[Identifier], types: Types) -> list[x509.GeneralName]:
    """The subject alternative names of identifiers, but of those that stand in extensions. Raises UnsupportedIdentifier for a type that
    nobody brings."""
    found = ((_type_of(one, types), one.value) for one in identifiers)
    return [of_type.general_name(value) for of_type, value in found if not isinstance(of_type, ExtensionIdentifier)]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate says of an identifier that is no name, and what it is called where it has no name."""

    extension: x509.Extension[x509.ExtensionType]
    common_name: str


def certified(
    identifiers: Sequence[Identifier], types: Types, injected: Iterable[x509.GeneralName]
) -> tuple[tuple[x509.GeneralName, ...], tuple[Claim, ...]]:
    """The names of a certificate, each once, those of the order first; and what stands beside them."""
    found = [(_type_of(one, types), one.value) for one in identifiers]
    claims = tuple(_claim(of_type, value) for of_type, value in found if isinstance(of_type, ExtensionIdentifier))
    return tuple(dict.fromkeys([*general_names(identifiers, types), *injected])), claims


def _claim(of_type: ExtensionIdentifier, value: str) -> Claim:
    extension = x509.UnrecognizedExtension(of_type.oid, of_type.content(value))
    return Claim(extension=x509.Extension(of_type.oid, False, extension), common_name=of_type.common_name(value))


def _type_of(identifier: Identifier, types: Types) -> IdentifierType:
    if (found := types.get(identifier.type)) is None:
        raise UnsupportedIdentifier(f"identifiers of type {identifier.type!r} are not certified here")
    return found


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


def canonical_dns(value: str) -> str:
    """A host name of A-labels in lower case, with or without ``*.`` in front."""
    name = value.lower() if value.isascii() else value
    host = name.removeprefix("*.")
    _check_host(host, "the name")
    if host.count(".") == 0:
        raise RejectedIdentifier("the name has one label; at least two are needed")
    if len(name) > MAX_NAME:
        raise RejectedIdentifier(f"the name has {len(name)} octets; at most {MAX_NAME} are possible")
    if host.endswith(".onion"):
        _check_onion(host)
    return name


def canonical_ip(value: str) -> str:
    """An address in the text form of RFC 8738 s3: dotted quad, or RFC 5952."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        raise RejectedIdentifier("the value is no IPv4 or IPv6 address") from None
    if isinstance(address, ipaddress.IPv6Address) and (address.scope_id is not None or address.ipv4_mapped is not None):
        raise RejectedIdentifier("an address with a zone or an IPv4 address inside IPv6 is not certified")
    if str(address) != value:
        raise RejectedIdentifier(f"the address is not in canonical form; write it as {address}")
    return value


def canonical_email(value: str) -> str:
    """An ASCII addr-spec; the domain in lower case, the local part as it is (RFC 8823 s3)."""
    local, at, domain = value.rpartition("@")
    if not at or len(local) > 64 or not _LOCAL_PART.fullmatch(local):
        raise RejectedIdentifier("the value is no mail address of ASCII characters")
    domain = domain.lower() if domain.isascii() else domain
    _check_host(domain, "the domain of the mail address")
    return f"{local}@{domain}"


def _check_host(host: str, what: str) -> None:
    if not host.isascii():
        raise RejectedIdentifier(f"{what} has characters beyond ASCII; write internationalized labels as xn-- (RFC 8555 s7.1.3)")
    if host.endswith("."):
        raise RejectedIdentifier(f"{what} ends with a dot")
    if "*" in host:
        raise RejectedIdentifier(f"{what} has a wildcard that is not its whole left-most label")
    if len(host) > MAX_NAME:
        raise RejectedIdentifier(f"{what} has {len(host)} octets; at most {MAX_NAME} are possible")
    labels = host.split(".")
    for label in labels:
        _check_label(label, what)
    if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", labels[-1]):  # read as an IPv4 address by URL parsers
        raise RejectedIdentifier(f"{what} ends in a number; an address is an identifier of type ip")


def _check_label(label: str, what: str) -> None:
    if not label:
        raise RejectedIdentifier(f"{what} has an empty label")
    if len(label) > 63:
        raise RejectedIdentifier(f"{what} has a label of {len(label)} octets; at most 63 are possible")
    if not _HOST_LABEL.fullmatch(label):
        raise RejectedIdentifier(f"{what} has a label that is not of letters, digits and inner hyphens")
    if label[2:4] != "--":
        return
    try:
        if label.startswith("xn--") and idna.alabel(idna.ulabel(label)) == label.encode():
            return
    except (idna.IDNAError, UnicodeError):
        pass
    raise RejectedIdentifier(f"{what} has a label with hyphens in third and fourth place that is no valid internationalized label")


def _check_onion(host: str) -> None:
    label = host.removesuffix(".onion").rpartition(".")[2]
    try:
        address = base64.b32decode(label.upper()) if len(label) == 56 else b""
    except binascii.Error:
        address = b""
    if len(address) != 35 or address[34] != 3:
        raise RejectedIdentifier("the name is no onion address of version 3")
