"""Unmodified ACME clients prove names by DNS: Knot serves the zones, Unbound validates, and what is broken there is refused.

So does CAA, which asks the same servers: the rest of the list of caatestsuite.com is in plugins/caa.
"""

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from rig.clients import run, verified
from rig.server import Server
from rig.zones import Zones

from greatseal.api.acme import VALID, AccountView, Attempt, Caa, Identifier
from greatseal.api.issuance import Finalization, ProvenIdentifier
from greatseal.api.problems import DnsFailure, IncorrectResponse
from greatseal.clock import SystemClock
from greatseal.testing.issuance import PROFILE, issuance_for
from greatseal.testing.validators import attempt_for
from greatseal_caa.caa import CaaCheck
from greatseal_dns_01 import dns_01
from greatseal_dns_01.dns_01 import Dns01
from greatseal_resolver.resolver import DnsResolver
from greatseal_resolver.settings import DnsSettings, HostsSettings

BASE, WILDCARD = "example.test", "*.example.test"

Program = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def zones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zones]:
    """Running name servers."""
    if missing := Zones.missing():
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report(f"{missing} is not installed: make peers")
    zones = Zones(tmp_path_factory.mktemp("zones"))
    with zones.running():
        yield zones


@pytest.fixture
def server(zones: Zones, tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "server"
    folder.mkdir()
    server = Server(folder, dns_resolver_addr=zones.resolver)
    with server.forked():
        yield server


@pytest.fixture
def hook(zones: Zones, tmp_path: Path) -> Callable[..., Path]:
    """``hook(name, value)``: a program that adds a TXT record by a dynamic update; both are words of a shell."""

    def write(name: str, value: str, *, zone: str = BASE, when: str = ":") -> Path:
        program = tmp_path / "hook.sh"
        update = f"server 127.0.0.1 {zones.knot}\nzone {zone}.\nupdate add {name}. 0 TXT {value}\nsend"
        program.write_text(f"#!/bin/sh\n{when} || exit 0\nexec knsupdate <<END\n{update}\nEND\n")
        program.chmod(0o755)
        return program

    return write


def test_lego_proves_a_name_and_its_wildcard_by_dynamic_updates(server: Server, zones: Zones, program: Program, tmp_path: Path) -> None:
    environ = {"RFC2136_NAMESERVER": f"127.0.0.1:{zones.knot}", "RFC2136_SEQUENCE_INTERVAL": "1", "RFC2136_TTL": "0"}
    common = (program("lego", "lego"), "--server", server.directory, "--email", "someone@example.test", "--accept-tos", "--path", tmp_path)
    asked = ("--dns", "rfc2136", "--dns.disable-cp", "--dns.resolvers", zones.resolver, "-d", WILDCARD, "-d", BASE, "-d", "a.plain.test")
    run(*common, *asked, "run", folder=tmp_path, environ=environ)

    verified((tmp_path / "certificates" / "_.example.test.crt").read_text(), server, WILDCARD, BASE, "a.plain.test")


def test_dehydrated_proves_a_wildcard_by_its_hook(server: Server, hook: Callable[..., Path], program: Program, tmp_path: Path) -> None:
    program("knsupdate", "knot-dnsutils")
    script = hook("_acme-challenge.$2", '"$4"', when='[ "$1" = deploy_challenge ]')
    config = tmp_path / "config"
    config.write_text(f'CA="{server.directory}"\nBASEDIR="{tmp_path}"\nCHALLENGETYPE="dns-01"\nHOOK="{script}"\n')
    dehydrated = program("dehydrated", "dehydrated")
    run(dehydrated, "--config", config, "--register", "--accept-terms", folder=tmp_path)
    run(dehydrated, "--config", config, "--cron", "--domain", f"{BASE} {WILDCARD}", "--alias", "both", folder=tmp_path)

    verified((tmp_path / "certs" / "both" / "fullchain.pem").read_text(), server, BASE, WILDCARD)


def test_certbot_proves_a_name_whose_challenge_is_an_alias(
    server: Server, hook: Callable[..., Path], program: Program, tmp_path: Path
) -> None:
    program("knsupdate", "knot-dnsutils")
    script = hook("alias.plain.test", '"$CERTBOT_VALIDATION"', zone="plain.test")
    own = ("--config-dir", tmp_path / "config", "--work-dir", tmp_path / "work", "--logs-dir", tmp_path / "logs", "--non-interactive")
    asked = ("--manual", "--preferred-challenges", "dns", "--manual-auth-hook", shlex.quote(str(script)), "-d", f"alias.{BASE}")
    agreed = ("--agree-tos", "--register-unsafely-without-email", "--server", server.directory)
    run(Path(sys.executable).with_name("certbot"), "certonly", *asked, *agreed, *own, folder=tmp_path)

    verified((tmp_path / "config" / "live" / f"alias.{BASE}" / "fullchain.pem").read_text(), server, f"alias.{BASE}")


def test_lego_5_proves_a_name_and_its_wildcard_by_a_record_that_stays(
    zones: Zones, hook: Callable[..., Path], program: Program, go_program: Callable[[str], Path], tmp_path: Path
) -> None:
    program("knsupdate", "knot-dnsutils")
    client, authority, folder = go_program("lego-dns-persist"), trustme.CA(), tmp_path / "server"
    folder.mkdir()
    server = Server(folder, authority=authority, dns_resolver_addr=zones.resolver, dns_persist_issuer_domains="ca.test")
    authority.cert_pem.write_to_path(tmp_path / "https.pem")
    environ = {"LEGO_CA_CERTIFICATES": str(tmp_path / "https.pem")}
    common = (client, server.directory, tmp_path / "account.pem", zones.resolver)
    chains = [tmp_path / name for name in ("first.pem", "second.pem")]
    with server.forked():
        account = run(*common, folder=tmp_path, environ=environ).splitlines()[-1]
        run(hook(f"_validation-persist.{BASE}", f'"ca.test; accounturi={account}; policy=wildcard"'), folder=tmp_path)
        for chain in chains:
            run(*common, chain, WILDCARD, BASE, folder=tmp_path, environ=environ)

        first, second = (verified(chain.read_text(), server, WILDCARD, BASE) for chain in chains)
    assert first.serial_number != second.serial_number


def test_acmez_proves_a_name_and_its_wildcard_below_a_label_of_its_account(
    zones: Zones, program: Program, go_program: Callable[[str], Path], tmp_path: Path
) -> None:
    program("knsupdate", "knot-dnsutils")
    client, folder, chain = go_program("acmez-dns-account"), tmp_path / "server", tmp_path / "chain.pem"
    folder.mkdir()
    server = Server(folder, dns_resolver_addr=zones.resolver)
    text = server.configuration.read_text()
    server.configuration.write_text(text.replace('sets = ["ca"]', 'sets = ["ca"]\nenabled = ["dns-account-01"]'))
    add = tmp_path / "hook.sh"
    add.write_text(f"#!/bin/sh\nexec knsupdate <<END\nserver 127.0.0.1 {zones.knot}\nzone {BASE}.\nupdate add $1. 0 TXT $2\nsend\nEND\n")
    add.chmod(0o755)
    with server.forked():
        run(client, server.directory, add, chain, WILDCARD, BASE, folder=tmp_path)

        verified(chain.read_text(), server, WILDCARD, BASE)


def attempt(name: str) -> Attempt:
    return attempt_for(Dns01(DnsResolver(DnsSettings(), HostsSettings())), Identifier("dns", name))


def resolver(zones: Zones, *, validate: bool = True) -> DnsResolver:
    return DnsResolver(DnsSettings(dns_resolver_addr=zones.resolver, validate_dnssec=validate), HostsSettings())


@pytest.fixture
def proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zones hold what is expected."""
    monkeypatch.setattr(dns_01, "digest", lambda _: "value")


@pytest.mark.parametrize("zone", ["sound.test", "plain.test"])
async def test_s128_a_signed_zone_proves_and_an_unsigned_one_too(zones: Zones, proven: None, zone: str) -> None:
    assert await Dns01(resolver(zones)).validate(attempt(zone)) is VALID


@pytest.mark.parametrize(
    ("zone", "unchecked"),
    [
        ("expired.test", VALID),
        ("early.test", VALID),
        ("altered.test", IncorrectResponse),
        ("stripped.test", VALID),
        ("unsigned.test", VALID),
        ("foreign.test", VALID),
        ("gone.unproven.test", DnsFailure),
    ],
)
async def test_s128_a_bogus_answer_is_a_dns_problem_and_is_read_only_where_validation_is_off(
    zones: Zones, proven: None, zone: str, unchecked: Any
) -> None:
    with pytest.raises(DnsFailure) as raised:
        await Dns01(resolver(zones)).validate(attempt(zone))

    place = f"127.0.0.1 port {zones.unbound}"
    assert re.fullmatch(rf"TXT _acme-challenge\.{zone}: SERVFAIL from {place} \([A-Z ]+\)", raised.value.detail)
    if unchecked is VALID:
        assert await Dns01(resolver(zones, validate=False)).validate(attempt(zone)) is VALID
    else:
        with pytest.raises(unchecked, match=r"forged|NXDOMAIN"):
            await Dns01(resolver(zones, validate=False)).validate(attempt(zone))


@pytest.mark.parametrize(("zone", "told"), [("refused.test", "SERVFAIL from"), ("silent.test", "no answer from .* within 5 s")])
async def test_s128_a_zone_whose_server_refuses_or_is_silent_is_a_dns_problem(zones: Zones, zone: str, told: str) -> None:
    with pytest.raises(DnsFailure, match=rf"^TXT _acme-challenge\.{zone}: {told}"):
        await Dns01(resolver(zones)).validate(attempt(zone))


def finalization(name: str) -> Finalization:
    asked = issuance_for(Identifier("dns", name))
    account = AccountView(id="a1", url="https://ca.example/acme/account/a1", status="valid", thumbprint="t")
    proven = tuple(ProvenIdentifier(identifier=one, validated_by="dns-01") for one in asked.identifiers)
    return Finalization(
        order_id="o1", profile=asked.profile, identifiers=proven, account=account, csr=asked.csr, ca_id=asked.ca_id, payload={}
    )


def caa_check(zones: Zones) -> CaaCheck:
    return CaaCheck(resolver(zones), {PROFILE.ca_id: ["ca.example"]}, SystemClock(), onions=False)


@pytest.mark.parametrize(
    "name", ["permit.sound.test", "cname-permit.sound.test", "a.cname-permit.sound.test", "plain.test", "example.test"]
)
async def test_s129_caa_of_real_zones_allows(zones: Zones, name: str) -> None:
    await caa_check(zones).check(finalization(name))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("deny.sound.test", "caatestsuite"),
        ("sub1.deny.sound.test", "caatestsuite"),
        ("*.deny.sound.test", "caatestsuite"),
        ("cname-deny.sound.test", "caatestsuite"),
        ("cname-cname-deny.sound.test", "caatestsuite"),
        ("sub1.cname-deny.sound.test", "caatestsuite"),
        ("deny.permit.sound.test", "caatestsuite"),
        ("a.dname-deny.sound.test", "caatestsuite"),
        ("big.sound.test", "TooLarge"),
        ("unsigned.test", "SERVFAIL"),
        ("foreign.test", "SERVFAIL"),
        ("expired.test", "SERVFAIL"),
        ("early.test", "SERVFAIL"),
        ("unproven.test", "SERVFAIL"),
        ("refused.test", "SERVFAIL"),
        ("silent.test", "no answer"),
    ],
)
async def test_s129_s128_ca_264_caa_of_real_zones_denies(zones: Zones, name: str, told: str) -> None:
    with pytest.raises(Caa, match=told):
        await caa_check(zones).check(finalization(name))
