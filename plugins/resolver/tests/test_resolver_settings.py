"""Bad values are refused when the configuration is read (ruling R20); doctor tells what may be forged."""

import pytest

from greatseal.testing.dns import Answer, scripted_dns
from greatseal_resolver import resolver as module
from greatseal_resolver.checks import resolver_checks
from greatseal_resolver.settings import DnsSettings, HostsSettings


@pytest.mark.parametrize(
    "text",
    ["", "dns.example", "127.1", "192.0.2.1:", "192.0.2.1:0", "192.0.2.1:65536", "192.0.2.1:x", "[2001:db8::1", "[2001:db8::1]53",
     "[2001:db8::1]:", "192.0.2.1:٥٣", "192.0.2.1:-1", "https://192.0.2.1"],
)  # fmt: skip
def test_r20_a_bad_resolver_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^dns_resolver_addr: "):
        DnsSettings(dns_resolver_addr=text)


@pytest.mark.parametrize("name", ["", ".", "a..b", "a" * 64])
def test_a_bad_name_for_the_certificate_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^dns_dot_server_name: "):
        DnsSettings(dns_dot_server_name=name)


@pytest.mark.parametrize("hosts", [{"a.example": ("b.example",)}, {"a.example": ()}, {"": ("192.0.2.1",)}, {"a..b": ("192.0.2.1",)}])
def test_bad_hosts_are_refused_by_name(hosts: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(ValueError, match=r"^hosts: "):
        HostsSettings(hosts=hosts)


async def results(settings: DnsSettings) -> dict[str, tuple[bool, str]]:
    found = {}
    for check in resolver_checks(settings):
        assert not check.ready  # DNS that fails must not take the service out of its balancer
        result = await check.run()
        found[check.name] = (result.ok, result.detail)
    return found


async def test_doctor_is_content_with_a_validating_resolver_on_this_machine() -> None:
    async with scripted_dns() as dns:
        dns.script(".", "SOA", Answer(values=("a.root. b.root. 1 2 3 4 5",), authentic=True))
        found = await results(DnsSettings(dns_resolver_addr=dns.address))

    assert found == {"dns": (True, "the resolver answers and validates DNSSEC"), "dns-path": (True, "asks 127.0.0.1")}


async def test_doctor_names_a_resolver_that_does_not_validate() -> None:
    async with scripted_dns() as dns:
        dns.script(".", "SOA", Answer(values=("a.root. b.root. 1 2 3 4 5",)))
        found = await results(DnsSettings(dns_resolver_addr=dns.address))

    ok, detail = found["dns"]
    assert not ok
    assert "does not validate DNSSEC" in detail


async def test_doctor_names_a_resolver_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIFETIME_SECONDS", 0.2)
    ok, detail = (await results(DnsSettings(dns_resolver_addr="127.0.0.1:1")))["dns"]

    assert not ok
    assert detail.startswith("SOA .: ")
    assert detail.endswith("set [server] dns_resolver_addr to a resolver that answers")


def test_doctor_names_a_path_that_can_be_forged_and_not_one_over_tls() -> None:
    from greatseal_resolver.checks import _path_to_resolver

    far = _path_to_resolver(DnsSettings(dns_resolver_addr="192.0.2.1"))
    assert not far.ok
    assert "192.0.2.1 can be forged" in far.detail
    assert _path_to_resolver(DnsSettings(dns_resolver_addr="192.0.2.1", dns_dot_server_name="dns.example")).ok
    assert _path_to_resolver(DnsSettings(dns_resolver_addr="192.0.2.1", validate_dnssec=False)).ok
