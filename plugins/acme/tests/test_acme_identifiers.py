"""Identifiers: canonical form, and every broken rule with its own subproblem."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from greatseal.api.problems import BadRequest, Problem
from greatseal_acme.protocol.identifiers import canonical, canonical_dns, read_identifiers


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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a.example", "a.example"),
        ("A.ExAmple", "a.example"),
        ("hello.localhost", "hello.localhost"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("*.a.example", "*.a.example"),
        ("a--b.example", "a--b.example"),
        (f"{'a' * 63}.example", f"{'a' * 63}.example"),
        ("bbcweb3hytmzhn5d532owbu6oqadra5z3ar726vq5kgwwn6aucdccrad.onion",) * 2,
        ("www.bbcweb3hytmzhn5d532owbu6oqadra5z3ar726vq5kgwwn6aucdccrad.onion",) * 2,
    ],
)
def test_a_name_in_its_canonical_form(value, expected):
    assert canonical_dns(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        ".",
        "a.example.",
        ".a.example",
        "a..example",
        "bücher.example",
        "*",
        "*.",
        "*.localhost",
        "*.*.a.example",
        "*a.example",
        "a.*.example",
        "localhost",
        "192.0.2.1",
        "1.2.3.0x4",
        "2001:db8::1",
        "a_b.example",
        "-a.example",
        "a-.example",
        f"{'a' * 64}.example",
        ".".join(["a" * 49] * 5) + ".abcd",
        f"*.{'.'.join(['a' * 49] * 5)}.ab",
        "ab--cd.example",
        "xn--a.example",
        "xn--.example",
        "XN--BÜCHER.example",
        "a.example\n",
        "a.exa\u0000mple",
        "a.exam ple",
        "\u212aelvin.example",  # KELVIN SIGN lower-cases to k
        "expyuzz4wqqyqhjn.onion",
        f"{'a' * 56}.onion",
        "http://a.example",
        "a.example:80",
    ],
)
def test_s114_a_name_that_breaks_a_rule(value):
    with pytest.raises(RejectedIdentifier):
        canonical_dns(value)


@pytest.mark.parametrize("value", ["192.0.2.1", "2001:db8::1", "::1"])
def test_an_address_in_its_canonical_form(value):
    assert canonical("ip", value) == Identifier("ip", value)


@pytest.mark.parametrize(
    "value",
    ["", "192.0.2.01", "192.0.2", "192.0.2.0/24", "[2001:db8::1]", "2001:DB8::1", "2001:db8:0::1", "fe80::1%eth0", "::ffff:192.0.2.1"],
)
def test_an_address_in_another_form(value):
    with pytest.raises(RejectedIdentifier):
        canonical("ip", value)


def test_a_mail_address_keeps_its_local_part():
    assert canonical("email", "Some.One+tag@A.Example") == Identifier("email", "Some.One+tag@a.example")


@pytest.mark.parametrize(
    "value", ["", "@a.example", "a@", "a b@a.example", '"a b"@a.example', "é@a.example", "a@b@a.example", "a@ü.example"]
)
def test_no_mail_address(value):
    with pytest.raises(RejectedIdentifier):
        canonical("email", value)


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


@given(st.text(max_size=80))
def test_whatever_passes_is_canonical(value):
    try:
        name = canonical_dns(value)
    except Problem:
        return
    assert canonical_dns(name) == name
    assert name == name.lower()
    assert name.isascii()


@given(st.sampled_from(["dns", "ip", "email", ""]), st.text(alphabet="ab.-*@:1xn", max_size=40))
def test_no_value_is_an_unexpected_error(type, value):
    try:
        found = canonical(type, value)
    except Problem:
        return
    assert canonical(found.type, found.value) == found
