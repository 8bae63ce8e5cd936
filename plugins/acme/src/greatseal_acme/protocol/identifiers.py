"""Identifiers of orders: canonical form, and every rule that a name breaks with its own subproblem (RFC 8555 s6.7.1, s7.1.3).

RFC 8738 for addresses, RFC 8823 for mail addresses, RFC 7686 and RFC 9799 for onion names.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterable, Sequence

import idna

from greatseal.api.acme import ChallengeValidator, Compound, Identifier, RejectedIdentifier, UnsupportedIdentifier
from greatseal.api.problems import BadRequest, Problem

MAX_IDENTIFIERS = 100
"""Identifiers in one order."""

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_LOCAL_PART = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*", re.ASCII)  # dot-atom, RFC 5322 s3.2.3


def read_identifiers(given: Sequence[tuple[str, str]], validators: Iterable[ChallengeValidator]) -> tuple[Identifier, ...]:
    """The identifiers in canonical form, in the order given, duplicates collapsed. Raises one problem for all that is wrong."""
    if not given:
        raise BadRequest("identifiers is empty; an order names at least one")
    if len(given) > MAX_IDENTIFIERS:
        raise BadRequest(f"the order has {len(given)} identifiers; at most {MAX_IDENTIFIERS} are possible")
    offered = list(validators)
    found: dict[Identifier, None] = {}
    problems: list[Problem] = []
    for type, value in given:
        try:
            identifier = canonical(type, value)
            offering(identifier, offered)
        except Problem as problem:
            problem.identifier = {"type": type, "value": value}
            problems.append(problem)
        else:
            found[identifier] = None
    if problems:
        raise together(problems)
    return tuple(found)


def together(problems: Sequence[Problem]) -> Problem:
    """One problem for several identifiers: the only one itself, else their common type or ``compound`` with subproblems."""
    first, *others = problems
    if not others:
        return first
    kind = type(first) if all(type(other) is type(first) for other in others) else Compound
    return kind(f"{first.detail} (and {len(others)} more; see subproblems)", subproblems=problems)


def offering(identifier: Identifier, validators: Iterable[ChallengeValidator]) -> list[ChallengeValidator]:
    """The validators that can prove it. Raises UnsupportedIdentifier or RejectedIdentifier when there is none."""
    of_type = [validator for validator in validators if identifier.type in validator.identifier_types]
    if not of_type:
        raise UnsupportedIdentifier(f"identifiers of type {_shortened(identifier.type)} are not offered here")
    able = [validator for validator in of_type if validator.wildcard or not identifier.wildcard]
    plain = Identifier(identifier.type, identifier.base)
    chosen = [validator for validator in able if validator.offers(plain)]
    if not chosen:
        what = "a wildcard name" if of_type and not able else "this name"
        raise RejectedIdentifier(f"no challenge type that is enabled here can prove {what}")
    return chosen


def canonical(type: str, value: str) -> Identifier:
    """The identifier in canonical form. Raises RejectedIdentifier with the rule, UnsupportedIdentifier for another type."""
    match type:
        case "dns":
            return Identifier("dns", canonical_dns(value))
        case "ip":
            return Identifier("ip", canonical_ip(value))
        case "email":
            return Identifier("email", canonical_email(value))
        case _:
            raise UnsupportedIdentifier(f"identifiers of type {_shortened(type)} are not offered here")


def canonical_dns(value: str) -> str:
    """A host name of A-labels in lower case, with or without ``*.`` in front."""
    name = value.lower() if value.isascii() else value
    host = name.removeprefix("*.")
    _check_host(host, "the name")
    if host.count(".") == 0:
        raise RejectedIdentifier("the name has one label; at least two are needed")
    if len(name) > 253:
        raise RejectedIdentifier(f"the name has {len(name)} octets; at most 253 are possible")
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
    if len(host) > 253:
        raise RejectedIdentifier(f"{what} has {len(host)} octets; at most 253 are possible")
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
    if not _LABEL.fullmatch(label):
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


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 32 else text[:32] + "...")
