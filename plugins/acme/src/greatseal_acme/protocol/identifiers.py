"""Identifiers of orders: each in the canonical form of its type, what is wrong with each as a subproblem (RFC 8555 s6.7.1)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from cryptography import x509

from greatseal.api.acme import ChallengeValidator, Compound, Identifier, RejectedIdentifier, UnsupportedIdentifier
from greatseal.api.identifiers import ExtensionIdentifier
from greatseal.api.issuance import IdentifierType
from greatseal.api.problems import BadRequest, Problem

MAX_IDENTIFIERS = 100
"""Identifiers in one order."""


def read_identifiers(
    given: Sequence[tuple[str, str]], types: Mapping[str, IdentifierType], validators: Iterable[ChallengeValidator]
) -> tuple[Identifier, ...]:
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
            if type not in types:
                raise UnsupportedIdentifier(f"identifiers of type {_shortened(type)} are not offered here")
            identifier = Identifier(type, types[type].canonical(value))
            offering(identifier, offered)
        except Problem as problem:
            problem.identifier = {"type": type, "value": value}
            problems.append(problem)
        else:
            found[identifier] = None
    if problems:
        raise together(problems)
    _check_extensions(found, types)
    return tuple(found)


def identifiers_of(der: bytes, types: Mapping[str, IdentifierType]) -> list[Identifier | None]:
    """What an order for such a certificate would name; None for a name that no order holds, such as a Kerberos principal."""
    found: list[Identifier | None] = []
    for extension in x509.load_der_x509_certificate(der).extensions:
        match extension.value:
            case x509.SubjectAlternativeName() as names:
                found += [next(_named(name, types), None) for name in names]
            case x509.UnrecognizedExtension() as unknown:
                found += _within(unknown, types)
    return found


def together(problems: Sequence[Problem]) -> Problem:
    """One problem for several identifiers: the only one itself, else their common type or ``compound`` with subproblems."""
    first, *others = problems
    if not others:
        return first
    kind = type(first) if all(type(other) is type(first) for other in others) else Compound
    return kind(f"{first.detail} (and {len(others)} more; see subproblems)", subproblems=problems)


def offering(identifier: Identifier, validators: Iterable[ChallengeValidator], *, below: bool = False) -> list[ChallengeValidator]:
    """The validators that can prove it, with the names ``below`` it where these are wanted.

    Raises UnsupportedIdentifier or RejectedIdentifier when there is none.
    """
    of_type = [validator for validator in validators if identifier.type in validator.identifier_types]
    if not of_type:
        raise UnsupportedIdentifier(f"identifiers of type {_shortened(identifier.type)} are not offered here")
    able = [validator for validator in of_type if validator.wildcard or not (below or identifier.wildcard)]
    plain = Identifier(identifier.type, identifier.base)
    chosen = [validator for validator in able if validator.offers(plain)]
    if not chosen:
        what = "a wildcard name" if of_type and not able else "this name"
        raise RejectedIdentifier(f"no challenge type that is enabled here can prove {what}")
    return chosen


def _named(name: x509.GeneralName, types: Mapping[str, IdentifierType]) -> Iterator[Identifier]:
    for one in types.values():
        with suppress(ValueError):
            if (value := one.of(name)) is not None:
                yield Identifier(one.type, value)


def _within(extension: x509.UnrecognizedExtension, types: Mapping[str, IdentifierType]) -> Iterator[Identifier]:
    for one in types.values():
        if isinstance(one, ExtensionIdentifier) and one.oid == extension.oid:
            with suppress(ValueError):
                yield Identifier(one.type, one.of_content(extension.value))


def _check_extensions(identifiers: Iterable[Identifier], types: Mapping[str, IdentifierType]) -> None:
    """A certificate has an extension once (RFC 5280 s4.2)."""
    held = [of_type.oid for one in identifiers if isinstance(of_type := types[one.type], ExtensionIdentifier)]
    if len(set(held)) != len(held):
        raise BadRequest("the order has two identifiers of a type of which a certificate holds one")


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 32 else text[:32] + "...")
