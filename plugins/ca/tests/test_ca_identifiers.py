"""The identifier types that the CA brings: canonical form, every broken rule, and the way to the name in the certificate and back."""

import ipaddress

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.acme import Identifier, RejectedIdentifier, UnsupportedIdentifier
from greatseal.testing.identifiers import IdentifierTypeContract
from greatseal_ca.identifiers import (
    BUILT_IN,
    Dns,
    Email,
    Ip,
    canonical_dns,
    canonical_email,
    canonical_ip,
    certified,
    general_names,
    identifier_of,
)

TYPES = {one.type: one for one in BUILT_IN}


class TestDns(IdentifierTypeContract):
    identifiers = Dns()
    values = ("a.example", "*.a.example", "xn--bcher-kva.example")
    refused = ("", "a_b.example", "localhost", "*.*.a.example")
    names = (x509.DNSName("a b"),)


class TestIp(IdentifierTypeContract):
    identifiers = Ip()
    values = ("192.0.2.1", "2001:db8::1")
    refused = ("", "192.0.2.01", "fe80::1%eth0")


class TestEmail(IdentifierTypeContract):
    identifiers = Email()
    values = ("Some.One+tag@a.example",)
    refused = ("", "@a.example", "a b@a.example")
    names = (x509.RFC822Name("nobody"),)


def test_a_name_is_that_of_the_type_that_knows_it():
    assert identifier_of(x509.DNSName("A.example"), TYPES) == Identifier("dns", "a.example")
    assert identifier_of(x509.IPAddress(ipaddress.ip_address("192.0.2.1")), TYPES) == Identifier("ip", "192.0.2.1")
    with pytest.raises(ValueError, match="of the kind RegisteredID"):
        identifier_of(x509.RegisteredID(x509.ObjectIdentifier("1.2.3")), TYPES)
    with pytest.raises(UnsupportedIdentifier):
        general_names([Identifier("tel", "+1")], TYPES)


def test_each_name_is_there_once_those_of_the_order_first():
    injected = [x509.DNSName("c.example"), x509.DNSName("a.example")]

    names, claims = certified([Identifier("dns", "b.example"), Identifier("dns", "a.example")], TYPES, injected)

    assert [name.value for name in names] == ["b.example", "a.example", "c.example"]
    assert not claims


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
    assert canonical_ip(value) == value


@pytest.mark.parametrize(
    "value",
    ["", "192.0.2.01", "192.0.2", "192.0.2.0/24", "[2001:db8::1]", "2001:DB8::1", "2001:db8:0::1", "fe80::1%eth0", "::ffff:192.0.2.1"],
)
def test_an_address_in_another_form(value):
    with pytest.raises(RejectedIdentifier):
        canonical_ip(value)


def test_a_mail_address_keeps_its_local_part():
    assert canonical_email("Some.One+tag@A.Example") == "Some.One+tag@a.example"


@pytest.mark.parametrize(
    "value", ["", "@a.example", "a@", "a b@a.example", '"a b"@a.example', "é@a.example", "a@b@a.example", "a@ü.example"]
)
def test_no_mail_address(value):
    with pytest.raises(RejectedIdentifier):
        canonical_email(value)


@given(st.sampled_from(BUILT_IN), st.one_of(st.text(max_size=80), st.text(alphabet="ab.-*@:1xn", max_size=40)))
def test_whatever_passes_is_canonical_and_nothing_is_an_unexpected_error(kind, value):
    try:
        found = kind.canonical(value)
    except RejectedIdentifier:
        return
    assert kind.canonical(found) == found
    assert found.isascii()
    assert kind.type != "dns" or found == found.lower()
