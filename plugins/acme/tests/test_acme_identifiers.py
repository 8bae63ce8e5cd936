"""Identifiers of an order: canonical, each once, and every broken rule with its own subproblem."""

import pytest
from cryptography import x509

from greatseal.api.acme import (
    VALID,
    Attempt,
    ChallengeValidator,
    Compound,
    Identifier,
    RejectedIdentifier,
    UnsupportedIdentifier,
    Verdict,
)
from greatseal.api.issuance import IdentifierType
from greatseal.api.problems import BadRequest
from greatseal_acme.protocol import identifiers


class Plain(IdentifierType):
    """Lower case, without underscores."""

    def __init__(self, type: str) -> None:
        self.type = type

    def canonical(self, value: str) -> str:
        if "_" in value:
            raise RejectedIdentifier("the name has an underscore")
        return value.lower()

    def general_name(self, value: str) -> x509.GeneralName:
        return x509.DNSName(value)

    def of(self, name: x509.GeneralName) -> str | None:
        return name.value


TYPES = {type: Plain(type) for type in ("dns", "ip", "email")}


def read_identifiers(given, validators):
    return identifiers.read_identifiers(given, TYPES, validators)


class Http(ChallengeValidator):
    type = "http-01"
    identifier_types = frozenset({"dns", "ip"})

    async def validate(self, attempt: Attempt) -> Verdict:
        return VALID


class Dns(Http):
    type = "dns-01"
    identifier_types = frozenset({"dns"})
    wildcard = True


class Mail(Http):
    type = "email-reply-00"
    identifier_types = frozenset({"email"})


class Picky(Http):
    def offers(self, identifier: Identifier) -> bool:
        return identifier.value != "no.example"


def test_duplicates_collapse_in_the_order_given():
    given = [("dns", "b.example"), ("dns", "a.example"), ("dns", "B.example")]

    assert read_identifiers(given, [Http()]) == (Identifier("dns", "b.example"), Identifier("dns", "a.example"))


def test_one_bad_name_is_the_problem_itself():
    with pytest.raises(RejectedIdentifier) as caught:
        read_identifiers([("dns", "a.example"), ("dns", "bad_name.example")], [Http()])

    assert caught.value.identifier == {"type": "dns", "value": "bad_name.example"}
    assert not caught.value.subproblems


def test_several_of_one_kind_keep_their_type():
    with pytest.raises(RejectedIdentifier) as caught:
        read_identifiers([("dns", "a_.example"), ("dns", "b_.example")], [Http()])

    assert [one.identifier["value"] for one in caught.value.subproblems] == ["a_.example", "b_.example"]
    assert caught.value.identifier is None


def test_several_of_different_kinds_are_compound():
    with pytest.raises(Compound) as caught:
        read_identifiers([("dns", "a_.example"), ("tel", "+1")], [Http()])

    assert [type(one) for one in caught.value.subproblems] == [RejectedIdentifier, UnsupportedIdentifier]


@pytest.mark.parametrize(
    ("identifier", "validators", "problem"),
    [
        (("dns", "*.a.example"), [Http()], RejectedIdentifier),
        (("email", "a@b.example"), [Http(), Dns()], UnsupportedIdentifier),
        (("ip", "192.0.2.1"), [Dns()], UnsupportedIdentifier),
        (("dns", "no.example"), [Picky()], RejectedIdentifier),
        (("device", "x"), [Http(), Dns(), Mail()], UnsupportedIdentifier),
    ],
)
def test_an_identifier_that_nobody_can_prove(identifier, validators, problem):
    with pytest.raises(problem):
        read_identifiers([identifier], validators)


def test_a_wildcard_needs_a_validator_that_can_prove_it():
    assert read_identifiers([("dns", "*.a.example")], [Http(), Dns()])
    assert read_identifiers([("email", "a@b.example")], [Mail()])


@pytest.mark.parametrize("count", [0, 101, 10_000])
def test_s114_no_names_and_too_many_are_malformed(count):
    with pytest.raises(BadRequest):
        read_identifiers([("dns", f"n{number}.example") for number in range(count)], [Http()])
