"""Operators sign in with tickets of a real KDC: greatseal ctl, and curl."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from rig.kdc import REALM, Kdc
from rig.realm import need_kerberos, realm_in
from rig.server import Server

from greatseal.testing.service import free_port

ALICE = f"alice@{REALM}"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    need_kerberos()
    with realm_in(tmp_path_factory.mktemp("realm")) as kdc:
        yield kdc


@pytest.fixture
def admin(kdc: Kdc, tmp_path: Path) -> Iterator[str]:
    """The address of the admin listener of a CA whose first administrator is alice."""
    folder = tmp_path / "server"
    folder.mkdir()
    authority, port = trustme.CA(), free_port()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server = Server(folder, authority=authority)
    files = f'tls_cert_file = "{folder}/tls.pem"\ntls_key_file = "{folder}/tls.key"\n'
    text = server.configuration.read_text().replace('sets = ["ca"]\n', 'sets = ["ca"]\nenabled = ["gssapi"]\n')
    listener = f'[admin]\nlisten = "127.0.0.1:{port}"\n{files}bootstrap_principal = "{ALICE}"\n'
    server.configuration.write_text(f'{text}\n{listener}\n[gssapi]\nkeytab_file = "{kdc.folder}/http.keytab"\n')
    with server.running():
        yield f"https://localhost:{port}"


def ctl(url: str, folder: Path, environ: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    own = {"GREATSEAL_SERVER": url, "GREATSEAL_CA_FILE": str(folder / "ca.pem"), "GREATSEAL_SESSION": str(folder / "session.json")}
    command = (str(Path(sys.executable).with_name("greatseal")), "ctl", *arguments)
    return subprocess.run(command, env={**os.environ, **environ, **own}, check=False, capture_output=True, text=True, timeout=60)


def test_ca_192_the_first_administrator_signs_in_with_a_ticket_of_the_kdc(kdc: Kdc, admin: str, tmp_path: Path) -> None:
    alice, bob = (kdc.ticket_for(name, password=f"{name}pw", cache=f"cc-{name}") for name in ("alice", "bob"))

    signed_in = ctl(admin, tmp_path, alice, "login", "--negotiate")
    assert signed_in.returncode == 0, signed_in.stderr
    assert signed_in.stdout == f"signed in to {admin} as {ALICE}\n"
    added = ctl(admin, tmp_path, {}, "operators", "add", "bob", "--role", "auditor", "--principal", f"bob@{REALM}")
    assert added.returncode == 0, added.stderr
    command = ("curl", "-sS", "--cacert", str(tmp_path / "ca.pem"), "--negotiate", "-u", ":", "-X", "POST", f"{admin}/admin/session")
    told = subprocess.run(command, env=bob, check=True, capture_output=True, text=True, timeout=60).stdout
    assert json.loads(told)["role"] == "auditor"


def test_what_is_wrong_with_a_ticket_is_said_in_a_line(kdc: Kdc, admin: str, tmp_path: Path) -> None:
    henry = kdc.ticket_for("henry", password="henrypw", cache="cc-henry")
    nobody = {**kdc.environ, "KRB5CCNAME": f"FILE:{tmp_path}/no-cache"}
    other = admin.replace("localhost", "127.0.0.1")

    for words, done in (
        ("no active operator has this Kerberos principal", ctl(admin, tmp_path, henry, "login", "--negotiate")),
        ("get a ticket with kinit", ctl(admin, tmp_path, nobody, "login", "--negotiate")),
        ("get a ticket with kinit", ctl(other, tmp_path, henry, "login", "--negotiate")),
        ("a sign-in of its own", ctl(admin, tmp_path, henry, "login", "henry", "--negotiate")),
        ("over https:// alone", ctl("http://ca.example:1", tmp_path, henry, "login", "--negotiate")),
    ):
        assert (done.returncode != 0, len(done.stderr.splitlines()), words in done.stderr) == (True, 1, True), done.stderr
    assert not (tmp_path / "session.json").exists()
