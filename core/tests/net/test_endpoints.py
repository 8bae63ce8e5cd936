"""Servers that a configuration names by address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.net import parse_server


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("192.0.2.1", ("192.0.2.1", None)),
        ("192.0.2.1:5353", ("192.0.2.1", 5353)),
        ("2001:db8::1", ("2001:db8::1", None)),
        ("[2001:db8::1]", ("2001:db8::1", None)),
        ("[2001:db8::1]:853", ("2001:db8::1", 853)),
    ],
)
def test_resolver_addresses(text: str, parsed: tuple[str, int | None]) -> None:
    assert parse_server(text) == parsed


@pytest.mark.parametrize("text", ["192.0.2.1:", "192.0.2.1:0", "192.0.2.1:65536", "192.0.2.1:x", "192.0.2.1:٥٣", "[2001:db8::1]:"])
def test_a_port_is_a_number_up_to_65535(text: str) -> None:
    with pytest.raises(ValueError, match="has no port between 1 and 65535"):
        parse_server(text)


@pytest.mark.parametrize("text", ["", "dns.example", "127.1", "[2001:db8::1", "[2001:db8::1]53", "https://192.0.2.1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not (address\[:port\]|the address of a server; write an IP address)"):
        parse_server(text)


@given(st.text())
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    try:
        address, port = parse_server(text)
    except ValueError:
        return
    assert f"{address}" in text
    assert port is None or 0 < port < 65536
