"""Certificates of this CA sign in at a real Kerberos KDC by PKINIT (RFC 4556): certbot gets them, MIT's kinit uses them.

The KDC's own certificate is of this CA too.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from rig.acme import Site, acme_site
from rig.clients import run
from rig.kdc import REALM, Kdc

from greatseal.testing.service import free_port

HOSTS = ("kdc.chancery.test", "web1.chancery.test", "laptop.chancery.test")
PKINIT = ["pkInitClientAuth"]
PROFILES: dict[str, Any] = {
    "default": {},
    "kdc": {"eku": ["pkInitKDC"], "kpn_san_templates": [f"krbtgt/{REALM}@{REALM}"]},
    "host": {"eku": PKINIT, "kpn_san_templates": [f"host/{{dns}}@{REALM}"]},
    "user": {"eku": PKINIT, "inject_account_kpn": True},
    "windows": {"eku": ["smartcardLogon"], "ms_upn_san_template": f"alice@{REALM}"},
}


class Realm(msgspec.Struct, frozen=True):
    """A running KDC, the CA, and where clients keep what they have."""

    kdc: Kdc
    site: Site
    folder: Path
    port: int

    async def certified(self, profile: str, name: str, *more: str) -> tuple[Path, Path]:
        """certbot gets a certificate: its file, and that of its key."""
        own = self.folder / profile
        folders = ("--config-dir", own / "config", "--work-dir", own / "work", "--logs-dir", own / "logs")
        listen = (
            "--standalone",
            "--http-01-port",
            self.port,
            "--http-01-address",
            "127.0.0.1",
            "--server",
            f"{self.site.url}/acme/directory",
        )
        asked = ("--required-profile", profile, "-d", name, "--cert-name", "made", *more)
        agreed = ("--agree-tos", "--register-unsafely-without-email", "--non-interactive")
        certbot = Path(sys.executable).with_name("certbot")
        await asyncio.to_thread(run, certbot, "certonly", *listen, *asked, *agreed, *folders, folder=self.folder)
        live = own / "config" / "live" / "made"
        return live / "cert.pem", live / "privkey.pem"

    async def kinit(self, principal: str, certificate: Path, key: Path) -> str:
        """The principal of the ticket, or what kinit complained of."""
        asked = await asyncio.to_thread(self.kdc.kinit, principal, certificate, key)
        return self.kdc.ticket() if asked.returncode == 0 else asked.stderr


@pytest.fixture
async def realm(request: pytest.FixtureRequest, start_service: Callable[..., Any], tmp_path: Path) -> AsyncIterator[Realm]:
    """The indirect parameter has further settings of the KDC."""
    if missing := Kdc.missing():
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report(f"{missing} is not installed: make peers")
    folder, port = tmp_path / "realm", free_port()
    folder.mkdir()
    kdc = Kdc(folder, **getattr(request, "param", {}))
    hosts = {name: ["127.0.0.1"] for name in HOSTS}
    server = {"http_validation_port": port, "eab_master_secret": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}
    async with acme_site(start_service, "eab", "san-kerberos", server=server, profiles=PROFILES, resolver={"hosts": hosts}) as site:
        realm = Realm(kdc, site, tmp_path, port)
        certificate, key = await realm.certified("kdc", "kdc.chancery.test")
        (folder / "kdc.pem").write_bytes(certificate.read_bytes())
        (folder / "kdc.key").write_bytes(key.read_bytes())
        for name, what in (("root.pem", "root"), ("issuing.pem", "chain")):
            async with site.session.get(f"{site.url}/ca/{what}.pem") as answer:
                first = x509.load_pem_x509_certificates(await answer.read())[0]
            (folder / name).write_bytes(first.public_bytes(Encoding.PEM))
        with kdc.running():
            yield realm


async def test_a_host_gets_a_ticket_by_the_name_that_a_template_made(realm: Realm) -> None:
    files = await realm.certified("host", "web1.chancery.test")

    assert await realm.kinit("host/web1.chancery.test", *files) == f"host/web1.chancery.test@{REALM}"
    assert "name mismatch" in (await realm.kinit("host/web2.chancery.test", *files)).lower()


async def test_a_person_gets_a_ticket_by_the_principal_of_the_account(realm: Realm) -> None:
    host, plugin = realm.site.service.host("eab"), realm.site.service.kernel.hooks.instances["eab"]
    keys = plugin.keys(host)
    given = await host.db.write(keys.obtain, keys.principal(f"alice@{REALM}"))

    files = await realm.certified("user", "laptop.chancery.test", "--eab-kid", given.kid, "--eab-hmac-key", given.hmac_key)

    assert await realm.kinit("alice", *files) == f"alice@{REALM}"
    assert "name mismatch" in (await realm.kinit("bob", *files)).lower()


async def test_a_certificate_for_sign_in_to_windows_gets_no_ticket_of_this_kdc(realm: Realm) -> None:
    files = await realm.certified("windows", "laptop.chancery.test")

    refused = await realm.kinit("alice", *files)

    assert "Inconsistent key purpose" in refused


@pytest.mark.parametrize("realm", [{"pkinit_eku_checking": "scLogin", "pkinit_allow_upn": "true"}], indirect=True)
async def test_a_kdc_that_is_told_so_takes_the_user_principal_name(realm: Realm) -> None:
    files = await realm.certified("windows", "laptop.chancery.test")

    assert await realm.kinit("alice", *files) == f"alice@{REALM}"
    assert "name mismatch" in (await realm.kinit("bob", *files)).lower()
