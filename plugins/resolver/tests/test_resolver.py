"""The resolver service against a DNS server that does what a test says."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from greatseal.api.problems import DnsFailure, Internal
from greatseal.api.services import CaaRecord, Found, Resolver
from greatseal.testing.dns import Answer, ScriptedDns, scripted_dns
from greatseal_resolver import resolver as module
from greatseal_resolver.resolver import DnsResolver
from greatseal_resolver.settings import DnsSettings, HostsSettings


@pytest.fixture
async def dns() -> AsyncIterator[ScriptedDns]:
    async with scripted_dns() as server:
        yield server


@pytest.fixture
def resolver(dns: ScriptedDns) -> DnsResolver:
    return DnsResolver(DnsSettings(dns_resolver_addr=dns.address), HostsSettings())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that gives up soon."""
    monkeypatch.setattr(module, "SERVER_SECONDS", 0.1)
    monkeypatch.setattr(module, "LIFETIME_SECONDS", 0.3)


def as_service(resolver: DnsResolver) -> Resolver:
    """For the type checker: it keeps the promises of the service."""
    return resolver


async def test_addresses_are_ipv4_first(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.records("a.example", "A", "192.0.2.1")
    dns.records("a.example", "AAAA", "2001:db8::1")

    assert await resolver.addresses("A.example.") == ["192.0.2.1", "2001:db8::1"]


async def test_one_family_is_enough_when_the_other_fails(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.records("a.example", "A", "192.0.2.1")
    dns.script("a.example", "AAAA", Answer(rcode="SERVFAIL"))

    assert await resolver.addresses("a.example") == ["192.0.2.1"]


async def test_a_name_that_does_not_exist_is_a_problem(dns: ScriptedDns, resolver: DnsResolver) -> None:
    with pytest.raises(DnsFailure, match=rf"^A gone\.example: NXDOMAIN from 127\.0\.0\.1 port {dns.port}$"):
        await resolver.addresses("gone.example")


async def test_a_name_without_addresses_is_a_problem(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.records("a.example", "A")
    dns.records("a.example", "AAAA")

    with pytest.raises(DnsFailure, match=r"^a\.example has neither A nor AAAA records$"):
        await resolver.addresses("a.example")


@pytest.mark.parametrize("name", ["192.0.2.1", "2001:db8::1"])
async def test_a_literal_is_its_own_answer(dns: ScriptedDns, resolver: DnsResolver, name: str) -> None:
    assert await resolver.addresses(name) == [name]
    assert dns.questions == []


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST.", "hello.localhost"])
async def test_localhost_never_leaves_the_machine(dns: ScriptedDns, name: str) -> None:
    resolver = DnsResolver(DnsSettings(dns_resolver_addr=dns.address), HostsSettings(hosts={name: ("192.0.2.1",)}))

    assert await resolver.addresses(name) == ("127.0.0.1", "::1")
    assert (await resolver.txt(f"_acme-challenge.{name}")).records == []
    assert (await resolver.caa(name)).records == []
    assert dns.questions == []


async def test_configured_hosts_answer_before_dns(dns: ScriptedDns) -> None:
    dns.records("b.example", "A", "192.0.2.9")
    resolver = DnsResolver(DnsSettings(dns_resolver_addr=dns.address), HostsSettings(hosts={"B.example.": ("2001:db8::2", "192.0.2.1")}))

    assert await resolver.addresses("b.EXAMPLE") == ("192.0.2.1", "2001:db8::2")
    assert dns.questions == []


async def test_txt_strings_are_joined(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.records("t.example", "TXT", '"one" "two"', '"\\255three"')

    assert sorted((await resolver.txt("t.example")).records) == ["\\xffthree", "onetwo"]


async def test_caa_of_a_missing_name_is_none_and_of_an_alias_is_the_targets(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.script("alias.example", "CAA", Answer(alias=("real.example",), values=('128 issue "ca.example; a=b"',)))

    assert await resolver.caa("missing.example") == Found((), f"127.0.0.1 port {dns.port}")
    assert (await resolver.caa("alias.example")).records == [CaaRecord(128, "issue", "ca.example; a=b")]


@pytest.mark.parametrize(("validate", "authentic", "unchecked"), [(True, True, False), (False, False, True)])
async def test_ca_222_validation_is_asked_for_or_switched_off(dns: ScriptedDns, validate: bool, authentic: bool, unchecked: bool) -> None:
    dns.records("t.example", "TXT", '"value"')

    await DnsResolver(DnsSettings(dns_resolver_addr=dns.address, validate_dnssec=validate), HostsSettings()).txt("t.example")

    (question,) = dns.questions
    assert (question.authentic, question.unchecked, question.signed) == (authentic, unchecked, validate)


async def test_ca_233_dns_resolver_addr_is_asked_unless_a_query_names_another(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.records("t.example", "TXT", '"configured"')
    async with scripted_dns() as other:
        other.records("t.example", "TXT", '"other"')

        assert await resolver.txt("t.example") == Found(["configured"], f"127.0.0.1 port {dns.port}")
        assert await resolver.txt("t.example", server=other.address) == Found(["other"], f"127.0.0.1 port {other.port}")


async def test_ca_202_a_bad_resolver_address_is_our_fault(resolver: DnsResolver) -> None:
    with pytest.raises(Internal) as raised:
        await resolver.txt("t.example", server="dns.example")

    assert raised.value.status == 500
    assert "dns.example" in raised.value.cause
    assert "dns.example" not in raised.value.detail


async def test_a_closed_resolver_is_named(resolver: DnsResolver, quick: None) -> None:
    with pytest.raises(DnsFailure, match=r"^TXT t\.example: .* from 127\.0\.0\.1 port 1 "):
        await resolver.txt("t.example", server="127.0.0.1:1")


async def test_s127_a_chain_of_twenty_aliases_is_refused_and_a_short_one_followed(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.script("short.example", "TXT", Answer(alias=("a.example", "b.example"), values=('"found"',)))
    dns.script("long.example", "TXT", Answer(alias=tuple(f"n{n}.example" for n in range(20)), values=('"found"',)))

    assert (await resolver.txt("short.example")).records == ["found"]
    with pytest.raises(DnsFailure, match=r"^TXT long\.example: ChainTooLong"):
        await resolver.txt("long.example")


async def test_s127_two_hundred_records_are_read_and_more_refused(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.script("full.example", "TXT", Answer(values=tuple(f'"value {n}"' for n in range(200)), truncated=True))
    dns.script("flood.example", "TXT", Answer(values=tuple(f'"value {n}"' for n in range(201)), truncated=True))

    assert len((await resolver.txt("full.example")).records) == 200
    with pytest.raises(DnsFailure, match="201 records"):
        await resolver.txt("flood.example")


@pytest.mark.parametrize("encrypted", [False, True])
async def test_s127_an_answer_that_would_keep_us_busy_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch, *, encrypted: bool) -> None:
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority = trustme.CA()
    authority.issue_cert("dns.example").configure_cert(server_side)
    client_side = ssl.create_default_context()
    authority.configure_trust(client_side)
    async with scripted_dns(server_side if encrypted else None) as server:
        settings = DnsSettings(dns_resolver_addr=server.address, dns_dot_server_name="dns.example" if encrypted else None)
        asking = DnsResolver(settings, HostsSettings())
        monkeypatch.setattr(asking, "tls", client_side)
        server.script("many.example", "TXT", Answer(values=tuple(str(n) for n in range(217)), truncated=True))
        server.script("long.example", "TXT", Answer(values=(" ".join(["x" * 200] * 82),), truncated=True))
        server.script("some.example", "TXT", Answer(values=(" ".join(["x" * 200] * 80),), truncated=True))

        with pytest.raises(DnsFailure, match=rf"^TXT many\.example: .*TooLarge: 21[78] records; .* from 127\.0\.0\.1 port {server.port}$"):
            await asking.txt("many.example")
        with pytest.raises(DnsFailure, match=r"^TXT long\.example: .*TooLarge: 165[0-9][0-9] bytes; at most 16384 are read"):
            await asking.txt("long.example")
        assert (await asking.txt("some.example")).records == ["x" * 16_000]


async def test_s128_servfail_is_an_error_with_question_resolver_and_rcode(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.script("t.example", "TXT", Answer(rcode="SERVFAIL"))
    dns.script("t.example", "CAA", Answer(rcode="SERVFAIL"))

    with pytest.raises(DnsFailure, match=rf"^TXT t\.example: SERVFAIL from 127\.0\.0\.1 port {dns.port}$"):
        await resolver.txt("t.example")
    with pytest.raises(DnsFailure):  # fail closed: not "no CAA records"
        await resolver.caa("t.example")


async def test_s128_the_reason_that_the_resolver_gives_is_told(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.script("t.example", "TXT", Answer(rcode="SERVFAIL", reasons=((7, "expired\non Sunday"), (22, ""), (4711, "x"))))

    told = r'SIGNATURE EXPIRED: "expired\non Sunday") (NO REACHABLE AUTHORITY) (4711: "x")'
    with pytest.raises(DnsFailure) as raised:
        await resolver.txt("t.example")
    assert raised.value.detail == f"TXT t.example: SERVFAIL from 127.0.0.1 port {dns.port} ({told}"  # RFC 8914


async def test_s128_silence_is_an_error(dns: ScriptedDns, resolver: DnsResolver, quick: None) -> None:
    dns.script("t.example", "TXT", Answer(lost=True))

    with pytest.raises(DnsFailure, match=r"^TXT t\.example: no answer from"):
        await resolver.txt("t.example")


async def test_s128_a_truncated_answer_is_asked_again_over_tcp(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.script("t.example", "TXT", Answer(values=('"whole"',), truncated=True))

    assert (await resolver.txt("t.example")).records == ["whole"]
    assert [question.transport for question in dns.questions] == ["udp", "tcp"]


@pytest.mark.parametrize("answer", [Answer(values=('"forged"',), other_id=True), Answer(garbage=True)], ids=["wrong id", "garbage"])
async def test_s128_an_answer_that_is_not_ours_is_ignored(
    dns: ScriptedDns, resolver: DnsResolver, quick: None, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    dns.script("t.example", "TXT", answer)
    with pytest.raises(DnsFailure, match=r"^TXT t\.example: no answer from"):
        await resolver.txt("t.example")

    monkeypatch.setattr(module, "LIFETIME_SECONDS", 30.0)
    dns.script("t.example", "TXT", answer, Answer(values=('"true"',)))
    assert (await resolver.txt("t.example")).records == ["true"]


async def test_s128_nxdomain_with_an_answer_is_an_error(dns: ScriptedDns, resolver: DnsResolver) -> None:
    dns.script("t.example", "TXT", Answer(rcode="NXDOMAIN", values=('"forged"',)))

    with pytest.raises(DnsFailure, match=r"^TXT t\.example: .*NXDOMAIN but an answer was found"):
        await resolver.txt("t.example")


@pytest.mark.parametrize("name", ["a..example", f"{'a' * 64}.example", "a." * 128 + "example"])
async def test_a_name_that_dns_cannot_carry_is_a_problem(resolver: DnsResolver, name: str) -> None:
    with pytest.raises(DnsFailure, match="not a domain name"):
        await resolver.txt(name)


async def test_ca_223_dns_over_tls_is_used_and_the_name_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "roots.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "roots.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("dns.example").configure_cert(context)
    async with scripted_dns(context) as server:
        server.records("t.example", "TXT", '"private"')
        known = DnsSettings(dns_resolver_addr=server.address, dns_dot_server_name="dns.example")
        other = DnsSettings(dns_resolver_addr=server.address, dns_dot_server_name="other.example")

        assert (await DnsResolver(known, HostsSettings()).txt("t.example")).records == ["private"]
        assert [question.transport for question in server.questions] == ["tls"]
        with pytest.raises(DnsFailure, match="CERTIFICATE_VERIFY_FAILED"):
            await DnsResolver(other, HostsSettings()).txt("t.example")


async def test_ca_233_a_machine_without_resolver_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> list[str]:
        raise LookupError("the system names no resolver; set [server] dns_resolver_addr")

    monkeypatch.setattr(module, "system_servers", none)
    with pytest.raises(DnsFailure, match=r"set \[server\] dns_resolver_addr"):
        await DnsResolver(DnsSettings(), HostsSettings()).txt("t.example")
