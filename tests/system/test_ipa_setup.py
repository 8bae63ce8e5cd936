"""``greatseal ipa setup`` against FreeIPA's own directory server, with its schema and permissions; a real KDC makes the keytab."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import tomlkit
from rig.ds389 import MANAGER, MANAGER_PASSWORD, Ds389
from rig.kdc import REALM, Kdc
from rig.slapd import DATA, SUFFIX

HOST = "db1.chancery.test"
GETKEYTAB = """\
#!/bin/sh
# The part of ipa-getkeytab that its KDC plays: a new key of the principal, in the file.
kadmin.local -r {realm} -q "addprinc -randkey $2" 2>&1 && exec kadmin.local -r {realm} -q "ktadd -k $4 $2"
"""
SHIPPED = Path(__file__).parents[2] / "config/freeipa.toml"


class Place(msgspec.Struct, frozen=True):
    """A KDC, a directory, and a machine that is enrolled and nothing more."""

    kdc: Kdc
    directory: Ds389
    folder: Path

    def setup(self, *options: str, cache: str = "admin.cc", typed: str = MANAGER_PASSWORD) -> "subprocess.CompletedProcess[str]":
        """The command, as an administrator with a ticket types it."""
        environ = {**os.environ, **self.kdc.environ, "KRB5CCNAME": f"FILE:{self.kdc.folder / cache}"}
        environ["PATH"] = f"{self.folder}:{environ['PATH']}"
        command = [str(Path(sys.executable).with_name("greatseal")), "ipa", "setup", "-c", str(self.folder / "freeipa.toml"), *options]
        return subprocess.run(command, env=environ, input=typed, check=False, capture_output=True, text=True, timeout=60)

    def dump(self) -> str:
        """Every entry and every right."""
        command = ("ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-H", self.directory.uri, "-D", MANAGER, "-w", MANAGER_PASSWORD)
        done = subprocess.run((*command, "-b", SUFFIX, "*", "aci"), check=True, capture_output=True, text=True, timeout=60)
        return done.stdout

    def read(self, dn: str, *attributes: str) -> str:
        """What the service may read, with its own keytab, by OpenLDAP's client."""
        environ = self.kdc.ticket_for(f"HTTP/{HOST}", keytab=str(self.folder / "http.keytab"), cache="service.cc")
        command = ("ldapsearch", "-Q", "-N", "-LLL", "-Y", "GSSAPI", "-H", self.directory.uri, "-b", dn, "-s", "base", *attributes)
        done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    if missing := Kdc.missing() or Ds389.missing():
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report(f"{missing} is not installed: make peers")
    with tempfile.TemporaryDirectory(prefix="gs-ipa-", dir="/tmp") as name:
        folder = Path(name)
        for part in ("kdc", "ds"):
            (folder / part).mkdir()
        kdc = Kdc(folder / "kdc")
        with kdc.running():
            directory = Ds389(folder / "ds", environ=kdc.environ, keytab=kdc.folder / "ldap.keytab")
            with directory.running():
                directory.modify((DATA / "389ds-pbac.ldif").read_text())
                kdc.ticket_for("admin", password="adminpw", cache="admin.cc")
                program = folder / "ipa-getkeytab"
                program.write_text(GETKEYTAB.format(realm=REALM))
                program.chmod(program.stat().st_mode | stat.S_IXUSR)
                (folder / "freeipa.toml").write_text(shipped(folder, directory))
                yield Place(kdc, directory, folder)


def shipped(folder: Path, directory: Ds389) -> str:
    """config/freeipa.toml with the names of here."""
    config = tomlkit.parse(SHIPPED.read_text()).unwrap()
    config["server"] |= {"issuer": f"https://{HOST}", "realm": REALM}
    config["database"]["url"] = f"sqlite:///{folder}/greatseal.db"
    config["gssapi"]["keytab_file"] = f"{folder}/http.keytab"
    del config["ipa"]["ca_cert_file"]
    config["ipa"] |= {"ldap_uri": directory.uri, "start_tls": False}
    return tomlkit.dumps(config)


def lines(output: str, state: str) -> list[str]:
    return [line.removeprefix(state).strip() for line in output.splitlines() if line.startswith(state)]


def test_each_missing_thing_is_named_with_its_command_and_apply_makes_it_once(place: Place) -> None:
    looked = place.setup()

    assert looked.returncode == 2
    assert lines(looked.stdout, "ok") == [f"the host {HOST}"]
    assert f"ipa service-add HTTP/{HOST}" in looked.stdout
    assert f"ipa-getkeytab -p HTTP/{HOST} -k {place.folder}/http.keytab" in looked.stdout
    assert "--client-id" in looked.stdout
    assert looked.stderr.startswith("greatseal: 10 missing")

    applied = place.setup("--apply", "--client-id", "freeipa")

    assert (applied.returncode, applied.stderr) == (0, "")
    assert len(lines(applied.stdout, "made")) == 10

    before = place.dump()
    again = place.setup("--apply", "--client-id", "freeipa")
    assert (again.returncode, lines(again.stdout, "made"), len(lines(again.stdout, "ok"))) == (0, [], 11)
    assert place.dump() == before


def test_what_was_made_lets_the_service_read_and_nobody_else(place: Place) -> None:
    assert place.setup("--apply", "--client-id", "freeipa").returncode == 0

    dave, providers = f"uid=dave,cn=users,cn=accounts,{SUFFIX}", f"cn=greatseal,cn=idp,{SUFFIX}"
    assert "ipaIdpSub: dave@upstream.example" in place.read(dave, "ipaIdpSub")
    assert f"ipaIdpTokenEndpoint: https://{HOST}/token" in place.read(providers, "ipaIdpTokenEndpoint")
    assert "ipaIdpClientSecret" not in place.read(f"cn=keycloak,cn=idp,{SUFFIX}", "cn", "ipaIdpClientSecret")


def test_an_entry_can_look_instead_of_a_ticket(place: Place) -> None:
    wrong = place.setup("--admin-dn", f"uid=alice,cn=users,cn=accounts,{SUFFIX}")
    assert wrong.returncode == 2
    assert "the directory does not take who you are" in wrong.stderr

    looked = place.setup("--admin-dn", MANAGER)
    assert f"the host {HOST}" in looked.stdout


def test_s089_an_empty_password_is_nobodys(place: Place) -> None:
    done = place.setup("--admin-dn", MANAGER, typed="\n")

    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "the password is empty" in done.stderr


def test_s090_without_a_ticket_it_says_so(place: Place) -> None:
    done = place.setup(cache="nobody.cc")

    assert done.returncode == 1
    assert "No Kerberos credentials" in done.stderr


def test_s090_a_directory_that_the_service_would_refuse_gets_no_password(tmp_path: Path) -> None:
    """No word is said in clear to another machine, and a file that is missing is named."""
    config = tomlkit.parse(SHIPPED.read_text()).unwrap()
    config["ipa"] |= {"ldap_uri": "ldap://ldap.invalid", "start_tls": False, "ca_cert_file": f"{tmp_path}/ca.crt"}
    (tmp_path / "freeipa.toml").write_text(tomlkit.dumps(config))
    command = [str(Path(sys.executable).with_name("greatseal")), "ipa", "setup", "-c", f"{tmp_path}/freeipa.toml", "--admin-dn", MANAGER]

    done = subprocess.run(command, input=MANAGER_PASSWORD, check=False, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (2, "")
    assert "[ipa] start_tls = false: ldap://ldap.invalid is not of this machine" in done.stderr
    assert f"[ipa] ca_cert_file: {tmp_path}/ca.crt is not there" in done.stderr
