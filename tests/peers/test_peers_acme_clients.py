"""Unmodified ACME clients get a certificate, each in its own way (reference acme.md 17)."""

import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from rig.clients import run, verified
from rig.server import Server

FIRST, SECOND = "first.example.test", "second.example.test"

Program = Callable[[str, str], Path]
both_databases = pytest.mark.parametrize("server", ["sqlite", "postgresql"], indirect=True)


def certbot(program: Path, server: Server, folder: Path, *arguments: object) -> str:
    own = ("--config-dir", folder / "config", "--work-dir", folder / "work", "--logs-dir", folder / "logs")
    run(program, *arguments, *own, "--non-interactive", folder=folder)
    return (folder / "config" / "live" / FIRST / "fullchain.pem").read_text()


def get_and_renew_with_certbot(program: Path, server: Server, folder: Path) -> None:
    asked = ("--standalone", "--http-01-port", server.validation_port, "--server", server.directory, "-d", FIRST, "-d", SECOND)
    chain = certbot(program, server, folder, "certonly", *asked, "--agree-tos", "--register-unsafely-without-email")
    first = verified(chain, server, FIRST, SECOND)

    chain = certbot(program, server, folder, "renew", "--force-renewal", "--no-random-sleep-on-renew")
    second = verified(chain, server, FIRST, SECOND)
    assert second.serial_number != first.serial_number


@pytest.mark.parametrize("server", ["command", "postgresql"], indirect=True)
def test_certbot_of_debian_gets_and_renews(server: Server, program: Program, tmp_path: Path) -> None:
    get_and_renew_with_certbot(program("certbot", "certbot"), server, tmp_path)


@both_databases
def test_certbot_of_pypi_gets_and_renews(server: Server, tmp_path: Path) -> None:
    get_and_renew_with_certbot(Path(sys.executable).with_name("certbot"), server, tmp_path)


@both_databases
def test_lego_gets_and_renews(server: Server, program: Program, tmp_path: Path) -> None:
    common = (program("lego", "lego"), "--server", server.directory, "--email", "someone@example.test", "--accept-tos", "--path", tmp_path)
    asked = ("--http", "--http.port", f":{server.validation_port}", "-d", FIRST, "-d", SECOND)
    run(*common, *asked, "run", folder=tmp_path)
    chain = tmp_path / "certificates" / f"{FIRST}.crt"
    first = verified(chain.read_text(), server, FIRST, SECOND)

    run(*common, *asked, "renew", "--days", "1000", "--no-random-sleep", folder=tmp_path)
    second = verified(chain.read_text(), server, FIRST, SECOND)
    assert second.serial_number != first.serial_number


def test_lego_gets_a_certificate_by_tls_alpn_01(server: Server, program: Program, tmp_path: Path) -> None:
    common = (program("lego", "lego"), "--server", server.directory, "--email", "someone@example.test", "--accept-tos", "--path", tmp_path)
    run(*common, "--tls", "--tls.port", f":{server.tls_validation_port}", "-d", FIRST, "-d", SECOND, "run", folder=tmp_path)
    verified((tmp_path / "certificates" / f"{FIRST}.crt").read_text(), server, FIRST, SECOND)


CADDYFILE = """\
{{
    acme_ca {directory}
    admin off
    http_port {http}
    https_port {https}
    storage file_system {folder}
}}
{first} {{
    tls {{
        issuer acme {{
            disable_http_challenge
        }}
    }}
    respond first
}}
{second} {{
    tls {{
        issuer acme {{
            disable_tlsalpn_challenge
        }}
    }}
    respond second
}}
"""


def test_caddy_gets_certificates_by_tls_alpn_01_and_by_http_01(server: Server, program: Program, tmp_path: Path) -> None:
    ports = {"http": server.validation_port, "https": server.tls_validation_port}
    names = {"first": FIRST, "second": SECOND}
    (tmp_path / "Caddyfile").write_text(CADDYFILE.format(directory=server.directory, folder=tmp_path, **ports, **names))
    with started(program("caddy", "caddy"), "run", "--config", tmp_path / "Caddyfile", folder=tmp_path):
        for name in names.values():
            shown = shown_certificate(name, server, tmp_path / "client.log")
            found = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
            assert found == [name]


@contextmanager
def started(*command: object, folder: Path) -> Iterator[None]:
    """A client that goes on running, as :func:`run` otherwise."""
    clean = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    with (folder / "client.log").open("w") as log:
        client = subprocess.Popen([str(part) for part in command], cwd=folder, env=clean, stdout=log, stderr=log, text=True)
    try:
        yield
    finally:
        client.terminate()
        client.wait(timeout=60)


def shown_certificate(name: str, server: Server, log: Path) -> x509.Certificate:
    """What the client shows for ``name`` as soon as it has one that verifies against the root of the server."""
    trust = ssl.create_default_context(cadata=server.root().public_bytes(Encoding.PEM).decode())
    deadline = time.monotonic() + 90
    while True:
        try:
            with (
                socket.create_connection(("127.0.0.1", server.tls_validation_port), timeout=10) as connection,
                trust.wrap_socket(connection, server_hostname=name) as session,
            ):
                return x509.load_der_x509_certificate(session.getpeercert(binary_form=True) or b"")
        except OSError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)


def test_dehydrated_gets_a_certificate(server: Server, program: Program, webroot: Path, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f'CA="{server.directory}"\nBASEDIR="{tmp_path}"\nWELLKNOWN="{webroot}"\n')
    dehydrated = program("dehydrated", "dehydrated")
    run(dehydrated, "--config", config, "--register", "--accept-terms", folder=tmp_path)
    run(dehydrated, "--config", config, "--cron", "--domain", f"{FIRST} {SECOND}", folder=tmp_path)
    verified((tmp_path / "certs" / FIRST / "fullchain.pem").read_text(), server, FIRST, SECOND)


def test_uacme_gets_a_certificate(server: Server, program: Program, webroot: Path, tmp_path: Path) -> None:
    common = (program("uacme", "uacme"), "-v", "-c", tmp_path, "-a", server.directory, "-y")
    run(*common, "new", folder=tmp_path)
    hook = {"UACME_CHALLENGE_PATH": str(webroot)}
    run(*common, "-h", "/usr/share/uacme/uacme.sh", "issue", FIRST, SECOND, folder=tmp_path, environ=hook)
    verified((tmp_path / FIRST / "cert.pem").read_text(), server, FIRST, SECOND)


def test_acme_tiny_gets_a_certificate_for_a_csr_with_a_common_name_alone(
    server: Server, program: Program, webroot: Path, tmp_path: Path
) -> None:
    account, request = tmp_path / "account.pem", tmp_path / "request.pem"
    account_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    account.write_bytes(account_key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, FIRST)])
    request.write_bytes(x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))

    asked = ("--account-key", account, "--csr", request, "--acme-dir", webroot, "--directory-url", server.directory)
    chain = run(program("acme-tiny", "acme-tiny"), *asked, "--disable-check", folder=tmp_path)

    assert verified(chain, server, FIRST).public_key() == key.public_key()


ACMETOOL = """\
request:
  provider: {directory}
  key:
    type: ecdsa
  challenge:
    http-ports:
      - 127.0.0.1:{port}
    http-self-test: false
"""
"""What acmetool keeps of its choices; it would test itself on port 80."""


def test_acmetool_gets_a_certificate(program: Program, tmp_path: Path) -> None:
    """Its command to revoke only notes that in its state folder: version 0.2.2 sends no request."""
    authority, folder, state = trustme.CA(), tmp_path / "server", tmp_path / "state"
    folder.mkdir()
    (state / "conf").mkdir(parents=True)
    server = Server(folder, [FIRST], authority=authority)  # it takes no other URL than https
    authority.cert_pem.write_to_path(tmp_path / "https.pem")
    (state / "conf" / "target").write_text(ACMETOOL.format(directory=server.directory, port=server.validation_port))
    (state / "conf" / "responses").write_text('"acme-enter-email": "someone@example.test"\n')
    common = (program("acmetool", "acmetool"), "--batch", "--state", state, "--hooks", tmp_path / "hooks", "--response-file")
    environ = {"SSL_CERT_FILE": str(tmp_path / "https.pem")}
    with server.forked():
        run(*common, state / "conf" / "responses", "want", FIRST, folder=tmp_path, environ=environ)
        verified((state / "live" / FIRST / "fullchain").read_text(), server, FIRST)


TORRC = """\
DataDirectory {folder}/data
HiddenServiceDir {folder}/onion
HiddenServicePort 443
SocksPort 0
DisableNetwork 1
"""


def test_certbot_gets_a_certificate_by_onion_csr_01_with_the_key_folder_that_tor_made(
    server: Server, program: Program, tmp_path: Path
) -> None:
    if find_spec("certbot_onion") is None:  # it has a wheel for one version of Python
        pytest.skip("certbot-onion is not installed: make peers, with Python 3.11")
    (tmp_path / "torrc").write_text(TORRC.format(folder=tmp_path))
    address = tmp_path / "onion" / "hostname"
    with started(program("tor", "tor"), "-f", tmp_path / "torrc", "--defaults-torrc", "/dev/null", folder=tmp_path):
        deadline = time.monotonic() + 60
        while not address.exists():
            assert time.monotonic() < deadline, (tmp_path / "client.log").read_text()
            time.sleep(0.05)
    name = address.read_text().strip()

    own = ("--config-dir", tmp_path / "config", "--work-dir", tmp_path / "work", "--logs-dir", tmp_path / "logs", "--non-interactive")
    asked = ("--authenticator", "onion-csr", "--onion-csr-hs-dir", tmp_path / "onion", "--server", server.directory, "-d", name)
    agreed = ("--agree-tos", "--register-unsafely-without-email")
    run(Path(sys.executable).with_name("certbot"), "certonly", *asked, *agreed, *own, folder=tmp_path)

    verified((tmp_path / "config" / "live" / name / "fullchain.pem").read_text(), server, name)
