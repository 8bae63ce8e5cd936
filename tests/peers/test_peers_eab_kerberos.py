"""A host with a keytab gets EAB credentials by curl, from us and through mod_auth_gssapi, and certbot makes its account with them."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from rig.apache import APACHE
from rig.apache_gssapi import MOD_AUTH_GSSAPI, ticket_proxy
from rig.clients import run, verified
from rig.kdc import REALM, Kdc
from rig.realm import need_kerberos, realm_in
from rig.server import Server

from greatseal.testing.service import free_port

NAME = "web1.chancery.test"
HOST = f"host/{NAME}@{REALM}"
MASTER = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    need_kerberos()
    with realm_in(tmp_path_factory.mktemp("realm")) as kdc:
        yield kdc


def need(present: bool, package: str) -> None:
    if not present:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"not installed: apt install {package}")


def server_in(folder: Path, more: str, *, plugins: str = "") -> Server:
    folder.mkdir()
    server = Server(folder, [NAME], eab_master_secret=MASTER)
    text = server.configuration.read_text().replace('sets = ["ca"]\n', f'sets = ["ca"]\n{plugins}')
    server.configuration.write_text(f"{text}\n{more}")
    return server


def curl(url: str, environ: dict[str, str], *options: str) -> tuple[int, dict[str, str]]:
    need(shutil.which("curl") is not None, "curl")
    command = ("curl", "--silent", "--show-error", "--write-out", "\n%{http_code}", *options, url)
    done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True, timeout=60)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(body) if body.startswith("{") else {}


def certified(server: Server, credentials: dict[str, str], folder: Path) -> None:
    """certbot makes its account with them, and the account is the host's."""
    certbot = Path(sys.executable).with_name("certbot")
    own = ("--config-dir", folder / "config", "--work-dir", folder / "work", "--logs-dir", folder / "logs", "--non-interactive")
    asked = ("--agree-tos", "--register-unsafely-without-email", "--standalone", "--http-01-port", server.validation_port)
    eab = ("--eab-kid", credentials["kid"], "--eab-hmac-key", credentials["hmac_key"])
    run(certbot, "certonly", *asked, "--server", server.directory, "-d", NAME, *eab, *own, folder=folder)
    verified((folder / "config" / "live" / NAME / "fullchain.pem").read_text(), server, NAME)
    with closing(sqlite3.connect(server.folder / "greatseal.db")) as store:
        assert store.execute("SELECT kerberos_principal FROM acme_account").fetchall() == [(HOST,)]


def test_ca_111_ca_113_curl_gets_the_credentials_of_a_host_for_certbot(kdc: Kdc, tmp_path: Path) -> None:
    gssapi = f'[gssapi]\nkeytab_file = "{kdc.folder}/http.keytab"\n'
    server = server_in(tmp_path / "server", gssapi, plugins='enabled = ["gssapi"]\n')
    with server.running():
        url = f"http://localhost:{server.port}/acme/eab"
        environ = kdc.ticket_for(HOST, keytab="web1.keytab", cache="cc-web1")
        status, credentials = curl(url, environ, "--negotiate", "--user", ":")
        assert (status, credentials["principal"], credentials["alg"]) == (200, HOST, "HS256")
        assert curl(url, environ, "--negotiate", "--user", ":")[1] == credentials
        assert curl(url, environ)[0] == 401
        assert curl(url, environ, "-H", "X-Remote-User: alice@CHANCERY.TEST")[0] == 401

        certified(server, credentials, tmp_path)

        assert curl(url, environ, "--negotiate", "--user", ":")[0] == 409


def test_ca_191_mod_auth_gssapi_names_the_host_and_nobody_else_does(kdc: Kdc, tmp_path: Path) -> None:
    need(APACHE is not None and MOD_AUTH_GSSAPI.exists(), "apache2 libapache2-mod-auth-gssapi")
    server = server_in(tmp_path / "server", '[eab]\nidentity_header = "X-Remote-User"\n')
    text = server.configuration.read_text().replace("[server]\n", '[server]\ntrusted_proxies = ["127.0.0.1/32"]\n', 1)
    server.configuration.write_text(text)
    with server.running(), ticket_proxy(kdc, free_port(), f"http://127.0.0.1:{server.port}") as proxy:
        environ = kdc.ticket_for(HOST, keytab="web1.keytab", cache="cc-web1")
        forged = ("-H", "X-Remote-User: alice@CHANCERY.TEST")

        status, credentials = curl(f"{proxy}/acme/eab", environ, "--negotiate", "--user", ":", *forged)

        assert (status, credentials["principal"]) == (200, HOST)
        assert curl(f"{proxy}/acme/eab", environ, *forged)[0] == 401
        assert curl(f"{proxy}/acme/directory", environ, *forged)[0] == 200
        certified(server, credentials, tmp_path)
