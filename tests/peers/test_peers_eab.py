"""Unmodified ACME clients bind their account to a key of the operator (RFC 8555 s7.3.4), and without one they get none."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from rig.clients import run, verified
from rig.server import Server

NAME = "first.example.test"
KID, HMAC_KEY = "kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
"""48 bytes in base64url."""

Program = Callable[[str, str], Path]
both_databases = pytest.mark.parametrize("server", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server where accounts need a binding."""
    how = getattr(request, "param", "sqlite")
    folder = tmp_path / "server"
    folder.mkdir()
    server = Server(folder, [NAME], database=request.getfixturevalue("postgres_url") if how == "postgresql" else None)
    text = server.configuration.read_text().replace("[server]\n", "[server]\nexternal_account_required = true\n", 1)
    server.configuration.write_text(f'{text}\n[server.eab_keys]\n{KID} = "{HMAC_KEY}"\n')
    with server.forked():
        yield server


def used(server: Server) -> bool:
    """Whether the key was used for the one account that there is; of a server on SQLite."""
    with closing(sqlite3.connect(server.folder / "greatseal.db")) as store:
        ((moment,),) = store.execute("SELECT used_at FROM eab_key").fetchall()
        accounts = store.execute("SELECT binding FROM acme_account").fetchall()
    assert len(accounts) == (moment is not None)
    return moment is not None


@both_databases
def test_certbot_binds_its_account(server: Server, tmp_path: Path) -> None:
    certbot = Path(sys.executable).with_name("certbot")
    own = ("--config-dir", tmp_path / "config", "--work-dir", tmp_path / "work", "--logs-dir", tmp_path / "logs", "--non-interactive")
    agreed = ("--agree-tos", "--register-unsafely-without-email")
    asked = (*agreed, "--standalone", "--http-01-port", server.validation_port, "--server", server.directory, "-d", NAME)
    refused = subprocess.run([str(one) for one in (certbot, "certonly", *asked, *own)], check=False, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "requires external account binding" in refused.stderr

    run(certbot, "certonly", *asked, "--eab-kid", KID, "--eab-hmac-key", HMAC_KEY, *own, folder=tmp_path)

    verified((tmp_path / "config" / "live" / NAME / "fullchain.pem").read_text(), server, NAME)


@pytest.mark.parametrize("alg", ["HS384", "HS512"])
def test_certbot_binds_its_account_with_another_mac(server: Server, tmp_path: Path, alg: str) -> None:
    certbot = Path(sys.executable).with_name("certbot")
    own = ("--config-dir", tmp_path / "config", "--work-dir", tmp_path / "work", "--logs-dir", tmp_path / "logs", "--non-interactive")
    account = ("--eab-kid", KID, "--eab-hmac-key", HMAC_KEY, "--eab-hmac-alg", alg, "--agree-tos", "--register-unsafely-without-email")

    run(certbot, "register", "--server", server.directory, *account, *own, folder=tmp_path)

    assert used(server)


def test_lego_binds_its_account(server: Server, program: Program, tmp_path: Path) -> None:
    common = (program("lego", "lego"), "--server", server.directory, "--email", "someone@example.test", "--accept-tos", "--path", tmp_path)
    eab = ("--eab", "--kid", KID, "--hmac", HMAC_KEY)

    run(*common, *eab, "--http", "--http.port", f":{server.validation_port}", "-d", NAME, "run", folder=tmp_path)

    verified((tmp_path / "certificates" / f"{NAME}.crt").read_text(), server, NAME)
    assert used(server)


def test_dehydrated_binds_its_account(server: Server, program: Program, webroot: Path, tmp_path: Path) -> None:
    config = tmp_path / "config"
    eab = f'EAB_KID="{KID}"\nEAB_HMAC_KEY="{HMAC_KEY}"\n'
    config.write_text(f'CA="{server.directory}"\nBASEDIR="{tmp_path}"\nWELLKNOWN="{webroot}"\n{eab}')
    dehydrated = program("dehydrated", "dehydrated")

    run(dehydrated, "--config", config, "--register", "--accept-terms", folder=tmp_path)
    run(dehydrated, "--config", config, "--cron", "--domain", NAME, folder=tmp_path)

    verified((tmp_path / "certs" / NAME / "fullchain.pem").read_text(), server, NAME)
    assert used(server)


def test_uacme_binds_its_account(server: Server, program: Program, webroot: Path, tmp_path: Path) -> None:
    common = (program("uacme", "uacme"), "-v", "-c", tmp_path, "-a", server.directory, "-y")

    run(*common, "-e", f"{KID}:{HMAC_KEY}", "new", folder=tmp_path)
    run(*common, "-h", "/usr/share/uacme/uacme.sh", "issue", NAME, folder=tmp_path, environ={"UACME_CHALLENGE_PATH": str(webroot)})

    verified((tmp_path / NAME / "cert.pem").read_text(), server, NAME)
    assert used(server)


def test_golang_x_crypto_binds_its_account(server: Server, go_program: Callable[[str], Path], tmp_path: Path) -> None:
    chain = tmp_path / "chain.pem"

    run(go_program("x-crypto-eab"), server.directory, KID, HMAC_KEY, server.validation_port, chain, NAME, folder=tmp_path)

    verified(chain.read_text(), server, NAME)
    assert used(server)


def test_acme4j_binds_its_account(server: Server, java_program: Callable[[str], Path], webroot: Path, tmp_path: Path) -> None:
    chain = tmp_path / "chain.pem"

    run("java", "-jar", java_program("acme4j-eab"), server.directory, KID, HMAC_KEY, webroot, chain, NAME, folder=tmp_path)

    verified(chain.read_text(), server, NAME)
    assert used(server)
