"""ACME clients that we did not write at a CA with a log: what they get of an ordinary profile, and what they say of a tree certificate."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from rig.clients import verified
from rig.server import Server

FIRST, SECOND = "first.example.test", "second.example.test"
Program = Callable[[str, str], Path]
Client = Callable[[Server, Path], subprocess.CompletedProcess[str]]


@pytest.fixture
def logged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A CA with a log and one profile, by default an ordinary one."""
    folder = tmp_path / "server"
    folder.mkdir()
    server = Server(folder, [FIRST, SECOND])
    profile = f'[profiles.default]\nissue_as = "{getattr(request, "param", "x509")}"\n'
    with server.configuration.open("a") as file:
        file.write(f'\n[mtc]\ntrust_anchor_id = "32473.1"\n{profile}')
    with server.forked():
        yield server


def positions(server: Server, count: int) -> list[int]:
    """The indices of certificates in the log, when there are so many: those of ordinary certificates come after these."""
    until = time.monotonic() + 30
    with sqlite3.connect(server.folder / "greatseal.db") as store:
        while True:
            found = [row[0] for row in store.execute("SELECT position FROM mtc_entry ORDER BY position")]
            if len(found) >= count or time.monotonic() > until:
                return found
            time.sleep(0.05)


def ran(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    words = [str(part) for part in command]
    return subprocess.run(words, cwd=folder, env=clean, check=False, timeout=90, capture_output=True, text=True, errors="replace")


def certbot(server: Server, folder: Path) -> subprocess.CompletedProcess[str]:
    own = ("--config-dir", folder / "config", "--work-dir", folder / "work", "--logs-dir", folder / "logs", "--non-interactive")
    asked = ("--standalone", "--http-01-port", server.validation_port, "--server", server.directory, "-d", FIRST, "-d", SECOND)
    program = Path(sys.executable).with_name("certbot")
    return ran(folder, program, "certonly", *asked, *own, "--agree-tos", "--register-unsafely-without-email")


def lego(program: Path, server: Server, folder: Path) -> subprocess.CompletedProcess[str]:
    common = (program, "--server", server.directory, "--email", "someone@example.test", "--accept-tos", "--path", folder)
    return ran(folder, *common, "--http", "--http.port", f":{server.validation_port}", "-d", FIRST, "-d", SECOND, "run")


def test_certbot_and_lego_get_certificates_that_are_logged(logged: Server, program: Program, tmp_path: Path) -> None:
    for done in (certbot(logged, tmp_path), lego(program("lego", "lego"), logged, tmp_path)):
        assert done.returncode == 0, done.stdout + done.stderr
    verified((tmp_path / "config" / "live" / FIRST / "fullchain.pem").read_text(), logged, FIRST, SECOND)
    verified((tmp_path / "certificates" / f"{FIRST}.crt").read_text(), logged, FIRST, SECOND)

    assert positions(logged, 2) == [1, 2]


@pytest.mark.parametrize("logged", ["mtc"], indirect=True)
def test_certbot_refuses_a_tree_certificate_and_lego_keeps_it_as_it_came(logged: Server, program: Program, tmp_path: Path) -> None:
    """It is one certificate, in DER: certbot wants PEM with an issuer after it; lego stores what it was given, in a file for PEM."""
    refused, kept = certbot(logged, tmp_path), lego(program("lego", "lego"), logged, tmp_path)

    assert refused.returncode != 0
    assert "failed to parse fullchain into cert and chain: less than 2 certificates in chain" in refused.stdout + refused.stderr
    assert kept.returncode == 0, kept.stdout + kept.stderr
    found = x509.load_der_x509_certificate((tmp_path / "certificates" / f"{FIRST}.crt").read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    assert (sorted(names), found.serial_number) == ([FIRST, SECOND], 1 << 48 | 2)
    assert found.signature_algorithm_oid.dotted_string == "1.3.6.1.4.1.44363.47.0"
    assert positions(logged, 2) == [1, 2]
