"""The table of special-purpose addresses."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.net.addresses import PUBLIC, AddressPolicy, is_public, special_purpose

# Addresses at which ipaddress of some Python answered "global", and the everyday ones.
SPECIAL = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.169.254",
    "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.0.9", "192.0.0.170", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1",
    "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255",
    "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "64:ff9b:1::808:808", "100::1", "200::1", "400::1",
    "2001::1", "2001:0:7f00:1::", "2001:2::1", "2001:3::1", "2001:10::1", "2001:20::1", "2001:30::1", "2001:1ff:ffff::1", "2001:db8::1",
    "2002:7f00:1::", "2002:a9fe:a9fe::", "2002:808:808::", "2620:4f:8000::1", "3fff::1", "3fff:fff::1", "4000::1", "5f00::1",
    "fc00::1", "fdff::1", "fe80::1", "fe80::1%eth0", "2606:4700::1%1", "febf::1", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip
HOSTS = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1", "168.63.129.15",
    "168.63.129.17", "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.0.3.1", "198.17.255.255", "198.20.0.0", "223.255.255.255",
    "2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700:4700::1111", "2a00::1", "3ffe::1", "3fff:1000::1",
    "::ffff:8.8.8.8", "64:ff9b::808:808",
]  # fmt: skip
NO_ADDRESSES = [
    "",
    "localhost",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "0",
    "127.0.0.1 ",
    "\uff11\uff12\uff17.0.0.1",
    "1.2.3.4/32",
]


@pytest.mark.parametrize("address", SPECIAL)
def test_special_purpose_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)
    assert special_purpose(address)


@pytest.mark.parametrize("address", HOSTS)
def test_hosts_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)
    assert special_purpose(address) is None


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_what_is_no_literal_is_not_public_under_any_policy(text: str) -> None:
    assert not is_public(text)
    assert PUBLIC.refusal(text) == "no address"
    assert AddressPolicy(allow_private=True).refusal(text) == "no address"


@pytest.mark.parametrize("address", SPECIAL)
def test_allow_private_lifts_the_whole_table(address: str) -> None:
    assert AddressPolicy(allow_private=True).refusal(address) is None
    assert PUBLIC.refusal(address)


@given(st.ip_addresses(v=4))
def test_ipv4_is_never_more_permissive_than_the_standard_library(address: IPv4Address) -> None:
    if is_public(str(address)):
        assert address.is_global
        assert not any((address.is_multicast, address.is_reserved, address.is_private))


# Uniform addresses are nearly all unassigned: draw around every special range of the standard library and ours.
RANGES = st.sampled_from(
    [ip_network(text) for text in ("2000::/3", "2001::/16", "2001::/23", "2002::/16", "64:ff9b::/32", "::/80", "3ff0::/12", "fc00::/6")]
)


@given(RANGES.flatmap(lambda network: st.ip_addresses(network=network)) | st.ip_addresses(v=6))
def test_ipv6_is_never_more_permissive_than_the_standard_library(address: IPv6Address) -> None:
    embedded = any(address in IPv6Network(network) for network in ("::ffff:0:0/96", "64:ff9b::/96"))
    if embedded:
        assert is_public(str(address)) == is_public(str(IPv4Address(int(address) & 0xFFFFFFFF)))
    elif is_public(str(address)):
        assert address.is_global
        assert not any((address.is_multicast, address.is_reserved, address.is_site_local, address.is_private))


@given(st.ip_addresses(v=4))
def test_no_embedding_opens_what_ipv4_closes(address: IPv4Address) -> None:
    number = int(address)
    if not is_public(str(address)):
        for prefix in ("::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1::"):
            assert not is_public(str(IPv6Address(int(IPv6Address(prefix)) | number)))
        assert not is_public(str(IPv6Address((0x2002 << 112) | (number << 80))))
        assert not is_public(str(IPv6Address((0x20010000 << 96) | (number ^ 0xFFFFFFFF))))


@given(st.ip_addresses())
def test_every_spelling_of_an_address_is_judged_alike(address: IPv4Address | IPv6Address) -> None:
    assert is_public(address.exploded.upper()) == is_public(str(address))
    assert ip_address(address.exploded) == address
