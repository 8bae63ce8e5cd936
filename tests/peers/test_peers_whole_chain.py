"""From a keytab to an ID token, with software that others wrote at each end.

A host that has a keytab gets credentials for ACME by its ticket (curl), a certificate with its Kerberos name (certbot), a ticket by PKINIT
with that certificate (kinit), and is signed in by SPNEGO with that ticket (curl). KDC and LDAP server hold the same principals.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
import pytest
import requests
import tomlkit
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from rig.clients import run
from rig.kdc import REALM, Kdc
from rig.provider import CALLBACK, Provider
from rig.slapd import Slapd

from greatseal.testing.service import free_port

HOST, KDC_HOST = "web1.chancery.test", "kdc.chancery.test"
PRINCIPAL = f"host/{HOST}@{REALM}"
PROFILES = {
    "default": {},
    "kdc": {"eku": ["pkInitKDC"], "kpn_san_templates": [f"krbtgt/{REALM}@{REALM}"]},
    "machine": {"eku": ["pkInitClientAuth"], "inject_account_kpn": True},
}


class Realm(msgspec.Struct, frozen=True):
    """A KDC, a directory, and the service, which is identity provider and CA."""

    kdc: Kdc
    service: Provider
    folder: Path
    port: int

    def certified(self, profile: str, name: str, *more: str) -> tuple[Path, Path]:
        """certbot gets a certificate: its file, and that of its key."""
        own = self.folder / profile
        folders = ("--config-dir", own / "config", "--work-dir", own / "work", "--logs-dir", own / "logs")
        listen = ("--standalone", "--http-01-port", self.port, "--http-01-address", "127.0.0.1")
        asked = ("--server", f"{self.service.base_url}/acme/directory", "--required-profile", profile, "-d", name, "--cert-name", "made")
        agreed = ("--agree-tos", "--register-unsafely-without-email", "--non-interactive")
        run(Path(sys.executable).with_name("certbot"), "certonly", *listen, *asked, *agreed, *more, *folders, folder=self.folder)
        live = own / "config" / "live" / "made"
        return live / "cert.pem", live / "privkey.pem"

    def curl(self, environ: Mapping[str, str], path: str) -> tuple[int, Mapping[str, str], str]:
        """Ask by a ticket of the cache: status, headers and body."""
        body = self.folder / "body"
        command = ("curl", "-sS", "-D", "-", "-o", str(body), "--negotiate", "-u", ":", f"{self.service.base_url}{path}")
        done = subprocess.run(command, env=dict(environ), check=True, capture_output=True, text=True, timeout=60)
        status, *lines = done.stdout.strip().split("\n\n")[-1].split("\n")
        return (
            int(status.split()[1]),
            {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)},
            body.read_text(),
        )


@pytest.fixture(scope="module")
def realm() -> Iterator[Realm]:
    if missing := Kdc.missing() or Slapd.missing():
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report(f"{missing} is not installed: make peers")
    with tempfile.TemporaryDirectory(prefix="gs-chain-", dir="/tmp") as name:
        folder, port = Path(name), free_port()
        for part in ("kdc", "ldap", "service"):
            (folder / part).mkdir()
        kdc = Kdc(folder / "kdc", pkinit_indicator="pkinit")
        kdc.make()
        with Slapd(folder / "ldap", environ=kdc.environ, keytab=kdc.folder / "ldap.keytab").running() as directory:
            service = Provider(folder / "service")
            settings = configured(tomlkit.parse(service.configuration.read_text()).unwrap(), kdc, directory, port)
            service.configuration.write_text(tomlkit.dumps(settings))
            with service.running(kdc.environ):
                realm = Realm(kdc, service, folder, port)
                certificate, key = realm.certified("kdc", KDC_HOST)
                (kdc.folder / "kdc.pem").write_bytes(certificate.read_bytes())
                (kdc.folder / "kdc.key").write_bytes(key.read_bytes())
                for file, what in (("root.pem", "root"), ("issuing.pem", "chain")):
                    first = x509.load_pem_x509_certificates(requests.get(f"{service.base_url}/ca/{what}.pem", timeout=10).content)[0]
                    (kdc.folder / file).write_bytes(first.public_bytes(Encoding.PEM))
                with kdc.serving():
                    yield realm


def configured(settings: dict[str, Any], kdc: Kdc, directory: Slapd, port: int) -> dict[str, Any]:
    """One service for all of it: the directory is read by the service's own ticket."""
    settings["plugins"] = {"sets": ["ca", "idp-all"], "enabled": ["gssapi", "san-kerberos"]}
    settings["server"] |= {
        "realm": REALM,
        "http_validation_port": port,
        "http_validation_allow_private_ips": True,
        "eab_master_secret": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
    }
    settings["resolver"] = {"hosts": {HOST: ["127.0.0.1"], KDC_HOST: ["127.0.0.1"]}}
    settings["profiles"] = PROFILES
    settings["gssapi"] = {"keytab_file": str(kdc.folder / "http.keytab")}
    settings["ipa"] = {"gssapi": True, "ldap_uri": directory.uri, "start_tls": False}
    return settings


def test_x1_from_a_keytab_to_an_id_token(realm: Realm) -> None:
    by_keytab = realm.kdc.ticket_for(PRINCIPAL, keytab="web1.keytab", cache="keytab.cc")
    status, _, body = realm.curl(by_keytab, "/acme/eab")
    assert status == 200
    given = json.loads(body)
    assert given["principal"] == PRINCIPAL

    files = realm.certified("machine", HOST, "--eab-kid", given["kid"], "--eab-hmac-key", given["hmac_key"])
    asked = realm.kdc.kinit(PRINCIPAL, *files)
    assert asked.returncode == 0, asked.stderr
    assert realm.kdc.ticket() == PRINCIPAL

    client = realm.service.register(redirect_uris=[CALLBACK], scopes=["openid"], consent="implicit")
    wanted = {"response_type": "code", "client_id": client["client_id"], "redirect_uri": CALLBACK, "scope": "openid", "nonce": "n"}
    by_certificate = {**realm.kdc.environ, "KRB5CCNAME": f"FILE:{realm.kdc.folder / 'cc'}"}
    status, headers, body = realm.curl(by_certificate, f"/authorize?{urlencode(wanted)}")
    assert status in {302, 303}, body
    (code,) = parse_qs(urlsplit(headers["location"]).query)["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    answer = requests.post(
        f"{realm.service.base_url}/token", data=form, auth=(client["client_id"], client["client_secret"]), timeout=10
    ).json()
    claims = json.loads(base64.urlsafe_b64decode(answer["id_token"].split(".")[1] + "=="))

    assert claims["sub"] == PRINCIPAL
    assert claims["amr"] == ["kerberos", "sc"]
