"""`greatseal doctor --name`: why a certificate for a name would be refused, before a client is blamed."""

import asyncio
import socket
import subprocess
import sys

import pytest
from rig.acme import Responder, acme_site

from greatseal.api.services import ACCOUNTS, EXAMINER
from greatseal.testing.dns import Answer, scripted_dns

FEATURES = ("caa", "dns-01", "tls-alpn-01", "onion-csr-01")


@pytest.fixture
async def dns():
    async with scripted_dns() as dns:
        dns.records("a.example", "A", "127.0.0.1")
        dns.records("a.example", "AAAA")
        dns.records("a.example", "CAA", '0 issue "ca.example; validationmethods=dns-01"')
        yield dns


def closed_port() -> int:
    """One where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.fixture
async def site(start_service, dns):
    server = {"dns_resolver_addr": dns.address, "caa_identities": ["ca.example"], "tls_alpn_validation_port": closed_port()}
    profiles = {
        "default": {},
        "closed": {"require_account_grant": True},
        "corp": {"allowed_identifier_patterns": [r"dns:.*\.corp\.example"]},
    }
    async with acme_site(start_service, *FEATURES, server=server, profiles=profiles) as site:
        yield site


async def examined(site, value, **more):
    """The steps by name: whether each is well, and its words."""
    steps = await site.service.kernel.service(EXAMINER).examine(value, **more)
    return {step.name: (step.result.ok, step.result.detail) for step in steps}


async def test_each_step_says_what_was_asked_and_what_came_back(site, dns):
    seen = await examined(site, "A.example")

    assert seen["identifier"] == (True, "dns a.example")
    assert seen["profile"] == (True, "default of the CA default: 90 days")
    assert seen["http-01"][0]
    assert f"http://a.example:{site.responder.port}/.well-known/acme-challenge/" in seen["http-01"][1]
    assert "status 404" in seen["http-01"][1]
    assert not seen["tls-alpn-01"][0]
    assert "127.0.0.1" in seen["tls-alpn-01"][1]
    assert seen["dns-01"][0]
    assert "there is no record yet: TXT _acme-challenge.a.example: NXDOMAIN" in seen["dns-01"][1]
    assert not seen["caa after http-01"][0]
    assert "validationmethods" in seen["caa after http-01"][1]
    assert seen["caa after dns-01"] == (True, "passes")
    assert "onion-csr-01" not in seen


async def test_a_record_that_cannot_be_read_is_no_record_that_is_missing(site, dns):
    dns.script("_acme-challenge.a.example", "TXT", Answer(rcode="SERVFAIL"))

    assert not (await examined(site, "a.example"))["dns-01"][0]
    assert not (await examined(site, "nowhere.example"))["http-01"][0]


@pytest.mark.parametrize(
    ("value", "more", "step", "words"),
    [
        ("-a.example", {}, "identifier", "inner hyphens"),
        ("ada@example.org", {}, "identifier", "email"),
        ("a.example", {"profile": "none"}, "profile", "offered are default, closed, corp"),
        ("a.example", {"account_id": "none"}, "account", "there is no account none"),
    ],
)
async def test_what_ends_it_is_the_last_step(site, value, more, step, words):
    seen = await examined(site, value, **more)

    assert list(seen)[-1] == step
    assert not seen[step][0]
    assert words in seen[step][1]


async def test_the_checks_of_the_profile_are_asked_for_the_account(site):
    client = await site.client()
    id = client.kid.rpartition("/")[2]
    await site.service.host("acme").db.write(lambda tx: site.service.kernel.service(ACCOUNTS).grant(tx, id, ("closed",)))

    nobody, granted = (
        await examined(site, "a.example", profile="closed"),
        await examined(site, "a.example", profile="closed", account_id=id),
    )
    pattern = await examined(site, "a.example", profile="corp")

    assert not nobody["account-grant"][0]
    assert granted["account-grant"] == (True, "passes")
    assert not pattern["identifier-patterns"][0]


async def test_addresses_and_private_places(start_service, dns):
    async with acme_site(start_service, server={"dns_resolver_addr": dns.address, "http_validation_allow_private_ips": False}) as site:
        blocked, address = await examined(site, "a.example"), await examined(site, "127.0.0.1")

    assert address["identifier"] == (True, "ip 127.0.0.1")
    assert not blocked["http-01"][0]
    assert not address["http-01"][0]


async def test_the_command_says_it_beside_a_service_and_by_its_exit_code(tmp_path, dns):
    config = tmp_path / "ca.toml"
    async with Responder().served() as responder:
        config.write_text(
            f"""
            [plugins]
            enabled = ["ca", "acme", "http-01", "resolver"]
            [server]
            base_url = "http://localhost:1"
            dns_resolver_addr = "{dns.address}"
            http_validation_port = {responder.port}
            http_validation_allow_private_ips = true
            [database]
            url = "sqlite:///{tmp_path}/greatseal.db"
            """
        )
        good, bad = await told(config, "a.example"), await told(config, "nowhere.example")
        usage = await run("doctor", "-c", str(config), "--profile", "x")
        config.write_text(f'plugins.enabled = ["ca"]\nserver.base_url = "http://localhost:1"\ndatabase.url = "sqlite:///{tmp_path}/x.db"')
        nobody = await told(config, "a.example")

    assert (good.returncode, bad.returncode, usage.returncode, nobody.returncode) == (0, 1, 2, 2)
    assert "ok   http-01: can be asked" in good.stdout
    assert "FAIL http-01: " in bad.stdout
    assert "--name" in usage.stderr
    assert "for example acme" in nobody.stderr


async def told(config, name):
    return await run("doctor", "-c", str(config), "--name", name)


async def run(*arguments):
    command = [sys.executable, "-m", "greatseal", *arguments]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
