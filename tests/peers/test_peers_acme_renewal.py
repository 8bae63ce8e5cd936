"""Clients that we did not write renew when the server says so (RFC 9773), and choose a profile (draft-ietf-acme-profiles)."""

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from faults.invariants import rows_of
from rig import warm
from rig.acme import b64url
from rig.apache import APACHE
from rig.clients import run, verified
from rig.mod_md import MOD_MD, ModMd, mod_md
from rig.server import Server

from greatseal.testing.service import free_port

NAME = "first.example.test"
PROFILES = """
[profiles.default]
validity_days = 90
[profiles.short]
validity_days = 6
"""
DAY = timedelta(days=1)
both_databases = pytest.mark.parametrize("database", ["sqlite", "postgresql"])


def profiled(folder: Path, database: str | None = None, authority: trustme.CA | None = None) -> Server:
    """A server with two profiles, of which one is for six days."""
    folder.mkdir()
    server = Server(folder, [NAME], database=database, authority=authority)
    with server.configuration.open("a") as configuration:
        configuration.write(PROFILES)
    return server


def revoke(server: Server, leaf: x509.Certificate) -> None:
    """As the operator of a server that is stopped."""
    which = ("-c", str(server.configuration), f"{leaf.serial_number:x}")
    done = warm.run("ca", "revoke", *which, "--reason", "superseded", cwd=server.folder)
    assert done.returncode == 0, done.stdout + done.stderr


def replaced(server: Server) -> list[str]:
    """The names of certificates that orders replace."""
    with rows_of(server.database) as ask:
        return [row[0] for row in ask("SELECT replaces FROM acme_order WHERE replaces IS NOT NULL AND status = 'valid'")]


def ari_name(leaf: x509.Certificate) -> str:
    """How renewal information calls the certificate (RFC 9773 s4.1)."""
    key = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    return f"{b64url(key or b'')}.{b64url(leaf.serial_number.to_bytes(leaf.serial_number.bit_length() // 8 + 1))}"


def lifetime(leaf: x509.Certificate) -> timedelta:
    return leaf.not_valid_after_utc - leaf.not_valid_before_utc


@both_databases
def test_certbot_chooses_a_profile_and_renews_when_the_server_says_so(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = profiled(tmp_path / "server", request.getfixturevalue("postgres_url") if database == "postgresql" else None)
    own = ("--config-dir", tmp_path / "config", "--work-dir", tmp_path / "work", "--logs-dir", tmp_path / "logs", "--non-interactive")
    listen = ("--standalone", "--http-01-port", server.validation_port)
    asked = ("certonly", *listen, "--server", server.directory, "-d", NAME, "--agree-tos", "--register-unsafely-without-email", *own)
    program, chain = Path(sys.executable).with_name("certbot"), tmp_path / "config" / "live" / NAME / "fullchain.pem"
    renew = ("renew", "--no-random-sleep-on-renew", "--http-01-port", server.validation_port, *own)

    def leaf() -> x509.Certificate:
        return verified(chain.read_text(), server, NAME)

    with server.forked():
        with pytest.raises(AssertionError, match="profile"):
            run(program, *asked, "--required-profile", "nowhere", folder=tmp_path)
        run(program, *asked, "--required-profile", "short", folder=tmp_path)
        first = leaf()
        run(program, *renew, folder=tmp_path)
        assert leaf() == first  # its time has not come
    revoke(server, first)
    with server.forked():
        run(program, *renew, folder=tmp_path)
        second = leaf()
        run(program, *asked, "--preferred-profile", "nowhere", "--force-renewal", folder=tmp_path)
        third = leaf()

    assert second.serial_number != first.serial_number
    assert [round(lifetime(one) / DAY) for one in (first, second, third)] == [6, 6, 90]


@both_databases
def test_mod_md_chooses_a_profile_and_replaces_when_the_server_says_so(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if APACHE is None or not MOD_MD.exists():
        pytest.skip("mod_md is not installed: make peers")
    server = profiled(tmp_path / "server", request.getfixturevalue("postgres_url") if database == "postgresql" else None)
    settings = {"MDCertificateAuthority": server.directory, "MDCAChallenges": "http-01", "MDProfile": "short", "MDRenewViaARI": "on"}
    with mod_md(NAME, server.validation_port, free_port()) as apache:
        with server.forked():
            first = verified(got(apache, settings, None), server, NAME)
        revoke(server, first)
        with server.forked():
            second = verified(got(apache, settings, first), server, NAME)

    assert second.serial_number != first.serial_number
    assert [round(lifetime(one) / DAY) for one in (first, second)] == [6, 6]
    assert replaced(server) == [ari_name(first)]


def window(printed: str) -> list[datetime]:
    """Start and end of the first line."""
    return [datetime.fromisoformat(moment) for moment in printed.splitlines()[0].split()]


def test_lego_5_replaces_when_the_server_says_so(go_program: Callable[[str], Path], tmp_path: Path) -> None:
    authority, chain = trustme.CA(), tmp_path / "chain.pem"
    server = profiled(tmp_path / "server", authority=authority)  # it takes no other URL than https
    authority.cert_pem.write_to_path(tmp_path / "https.pem")
    environ = {"LEGO_CA_CERTIFICATES": str(tmp_path / "https.pem")}
    asked = (go_program("lego-ari"), server.directory, tmp_path / "account.pem", server.validation_port, chain, NAME)
    with server.forked():
        run(*asked, folder=tmp_path, environ=environ)
        first = verified(chain.read_text(), server, NAME)
        start, end = window(run(*asked, folder=tmp_path, environ=environ))
        assert first.not_valid_before_utc < start < end < first.not_valid_after_utc
        assert verified(chain.read_text(), server, NAME) == first  # its time has not come
    revoke(server, first)
    with server.forked():
        start, end = window(run(*asked, folder=tmp_path, environ=environ))
        assert start < end < datetime.now(UTC)
        second = verified(chain.read_text(), server, NAME)

    assert second.serial_number != first.serial_number
    assert replaced(server) == [ari_name(first)]


def got(apache: ModMd, settings: dict[str, str], old: x509.Certificate | None) -> str:
    """The chain that Apache got and staged, after it took it into use."""
    with apache.running(settings):
        waited(lambda: apache.chain("staging"), apache)
    with apache.running(settings):
        chain = waited(lambda: apache.chain("domains"), apache)
        while old is not None and x509.load_pem_x509_certificate(chain.encode()) == old:
            time.sleep(0.2)
            chain = waited(lambda: apache.chain("domains"), apache)
    return chain


def waited(found: Callable[[], str | None], apache: ModMd) -> str:
    deadline = time.monotonic() + 60
    while (text := found()) is None:
        assert time.monotonic() < deadline, apache.log[-6000:]
        time.sleep(0.1)
    return text
