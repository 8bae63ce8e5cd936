"""Unmodified clients put their account under another key, and revoke what they got."""

import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from faults.invariants import rows_of
from rig.clients import run, verified
from rig.server import Server

FIRST, SECOND = "first.example.test", "second.example.test"
SUPERSEDED = "4"

Program = Callable[[str, str], Path]
SCRIPTS = Path(__file__).with_name("node")
both_databases = pytest.mark.parametrize("server", ["sqlite", "postgresql"], indirect=True)


def told(certificate: x509.Certificate) -> x509.ReasonFlags | None:
    """The reason that the list says which the certificate names; None where it has none, or the certificate is not on it."""
    (point,) = certificate.extensions.get_extension_for_class(x509.CRLDistributionPoints).value
    assert point.full_name is not None
    with urllib.request.urlopen(point.full_name[0].value, timeout=10) as answer:
        found = x509.load_der_x509_crl(answer.read()).get_revoked_certificate_by_serial_number(certificate.serial_number)
    if found is None or not len(found.extensions):
        return None
    return found.extensions.get_extension_for_class(x509.CRLReason).value.reason


def key_changes(server: Server) -> int:
    """How many the audit log tells of."""
    with rows_of(server.database) as ask:
        return len(ask("SELECT id FROM core_audit WHERE event_type = 'account.key-change'"))


def leaf_of(server: Server, file: Path, *names: str) -> x509.Certificate:
    return verified(file.read_text(), server, *names)


@both_databases
def test_certbot_revokes_by_its_account_and_by_the_key_of_the_certificate(server: Server, tmp_path: Path) -> None:
    certbot = Path(sys.executable).with_name("certbot")
    own = ("--config-dir", tmp_path / "config", "--work-dir", tmp_path / "work", "--logs-dir", tmp_path / "logs", "--non-interactive")
    stranger = ("--config-dir", tmp_path / "other", "--work-dir", tmp_path / "work", "--logs-dir", tmp_path / "logs", "--non-interactive")
    asked = ("--standalone", "--http-01-port", server.validation_port, "--server", server.directory)
    for name in (FIRST, SECOND):
        run(certbot, "certonly", *asked, "-d", name, "--agree-tos", "--register-unsafely-without-email", *own, folder=tmp_path)
    live = tmp_path / "config" / "live"
    first, second = [leaf_of(server, live / name / "fullchain.pem", name) for name in (FIRST, SECOND)]

    by_account = ("--cert-name", FIRST, "--reason", "superseded", "--no-delete-after-revoke", "--server", server.directory)
    run(certbot, "revoke", *by_account, *own, folder=tmp_path)
    files = ("--cert-path", live / SECOND / "cert.pem", "--key-path", live / SECOND / "privkey.pem")
    run(certbot, "revoke", *files, "--no-delete-after-revoke", "--server", server.directory, *stranger, folder=tmp_path)

    assert told(first) is x509.ReasonFlags.superseded
    assert told(second) is x509.ReasonFlags.key_compromise


def test_lego_revokes(server: Server, program: Program, tmp_path: Path) -> None:
    common = (program("lego", "lego"), "--server", server.directory, "--email", "someone@example.test", "--accept-tos", "--path", tmp_path)
    run(*common, "--http", "--http.port", f":{server.validation_port}", "-d", FIRST, "run", folder=tmp_path)
    certificate = leaf_of(server, tmp_path / "certificates" / f"{FIRST}.crt", FIRST)

    run(*common, "-d", FIRST, "revoke", "--reason", SUPERSEDED, folder=tmp_path)

    assert told(certificate) is x509.ReasonFlags.superseded


def test_uacme_changes_its_key_and_revokes_by_account_and_by_key(server: Server, program: Program, webroot: Path, tmp_path: Path) -> None:
    common = (program("uacme", "uacme"), "-v", "-c", tmp_path, "-a", server.directory, "-y")
    hook = {"UACME_CHALLENGE_PATH": str(webroot)}
    run(*common, "new", folder=tmp_path)
    run(*common, "newkey", folder=tmp_path)
    for name in (FIRST, SECOND):
        run(*common, "-h", "/usr/share/uacme/uacme.sh", "issue", name, folder=tmp_path, environ=hook)
    first, second = [leaf_of(server, tmp_path / name / "cert.pem", name) for name in (FIRST, SECOND)]

    run(*common, "-r", SUPERSEDED, "revoke", tmp_path / FIRST / "cert.pem", folder=tmp_path)
    run(*common, "revoke", tmp_path / SECOND / "cert.pem", tmp_path / "private" / SECOND / "key.pem", folder=tmp_path)

    assert key_changes(server) == 1
    assert told(first) is x509.ReasonFlags.superseded
    assert told(second) is x509.ReasonFlags.key_compromise


def test_npm_acme_client_changes_its_key_and_revokes(server: Server, program: Program, webroot: Path, tmp_path: Path) -> None:
    if not (SCRIPTS / "node_modules" / "acme-client").is_dir():
        pytest.skip("acme-client is not installed: make peers")
    chain = tmp_path / "chain.pem"

    run(program("node", "nodejs"), SCRIPTS / "acme-client.mjs", server.directory, webroot, chain, FIRST, folder=tmp_path)

    assert key_changes(server) == 1
    assert told(leaf_of(server, chain, FIRST)) is x509.ReasonFlags.superseded


@pytest.mark.parametrize(("how", "reason"), [("account", x509.ReasonFlags.superseded), ("key", x509.ReasonFlags.key_compromise)])
def test_golang_x_crypto_changes_its_key_and_revokes(
    server: Server, go_program: Callable[[str], Path], tmp_path: Path, how: str, reason: x509.ReasonFlags
) -> None:
    chain = tmp_path / "chain.pem"

    run(go_program("xcrypto-acme"), server.directory, server.validation_port, how, chain, FIRST, folder=tmp_path)

    assert key_changes(server) == 1
    assert told(leaf_of(server, chain, FIRST)) is reason


def test_acme4j_changes_its_key_and_revokes(server: Server, java_program: Callable[[str], Path], webroot: Path, tmp_path: Path) -> None:
    chain = tmp_path / "chain.pem"

    run("java", "-jar", java_program("acme4j-key-change"), server.directory, webroot, chain, FIRST, folder=tmp_path)

    assert key_changes(server) == 1
    assert told(leaf_of(server, chain, FIRST)) is x509.ReasonFlags.superseded
