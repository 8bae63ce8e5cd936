"""``greatseal ipa setup`` against FreeIPA's own directory server, with its schema and permissions; a real KDC makes the keytab."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import tomlkit
from rig.ds389 import MANAGER, MANAGER_PASSWORD, Ds389
from rig.kdc import REALM, Kdc
from rig.slapd import DATA, SUFFIX
from system import test_ldap_passkeys as passkeys
from system import test_ldap_tokens as tokens

from greatseal.testing.passkeys import some_passkey

HOST = "db1.chancery.test"
GETKEYTAB = """\
#!/bin/sh
# The part of ipa-getkeytab that its KDC plays: a new key of the principal, in the file.
kadmin.local -r {realm} -q "addprinc -randkey $2" 2>&1 && exec kadmin.local -r {realm} -q "ktadd -k $4 $2"
"""
OTHERS = ((f"uid=bob,cn=users,cn=accounts,{SUFFIX}", "bobpw"), (f"uid=chancery,cn=sysaccounts,cn=etc,{SUFFIX}", "chancerypw"))
SHIPPED = Path(__file__).parents[2] / "config/freeipa.toml"


class Place(msgspec.Struct, frozen=True):
    """A KDC, a directory, and a machine that is enrolled and nothing more."""

    kdc: Kdc
    directory: Ds389
    folder: Path

    def setup(
        self, *options: str, cache: str = "admin.cc", typed: str = MANAGER_PASSWORD, **more: str
    ) -> "subprocess.CompletedProcess[str]":
        """The command, as an administrator with a ticket types it; ``more`` is of the environment."""
        environ = {**os.environ, **self.kdc.environ, "KRB5CCNAME": f"FILE:{self.kdc.folder / cache}", **more}
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

    def seen(self, dn: str, who: str, password: str) -> str:
        """What another entry sees of one."""
        command = ("ldapsearch", "-x", "-LLL", "-H", self.directory.uri, "-D", who, "-w", password, "-b", dn, "*")
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60).stdout


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
    config["ipa"] |= {"ldap_uri": directory.uri, "start_tls": False, "passkey_rp_id": "chancery.test"}
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
    assert "ipa permission-add 'Greatseal - Read OTP tokens' --subtree=cn=otp,dc=chancery,dc=test" in looked.stdout
    assert "ipa privilege-add-permission Greatseal --permissions='System: Manage Passkey Mappings'" in looked.stdout
    assert looked.stderr.startswith("greatseal: 15 missing")

    applied = place.setup("--apply", "--client-id", "freeipa")

    assert (applied.returncode, applied.stderr) == (0, "")
    assert len(lines(applied.stdout, "made")) == 15

    before = place.dump()
    again = place.setup("--apply", "--client-id", "freeipa")
    assert (again.returncode, lines(again.stdout, "made"), len(lines(again.stdout, "ok"))) == (0, [], 16)
    assert place.dump() == before


async def test_what_was_made_lets_the_service_do_its_work_and_nobody_else(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.setup("--apply", "--client-id", "freeipa").returncode == 0

    dave, providers = f"uid=dave,cn=users,cn=accounts,{SUFFIX}", f"cn=greatseal,cn=idp,{SUFFIX}"
    assert "ipaIdpSub: dave@upstream.example" in place.read(dave, "ipaIdpSub")
    assert f"ipaIdpTokenEndpoint: https://{HOST}/token" in place.read(providers, "ipaIdpTokenEndpoint")
    assert "ipaIdpClientSecret" not in place.read(f"cn=keycloak,cn=idp,{SUFFIX}", "cn", "ipaIdpClientSecret")
    environ = place.kdc.ticket_for(f"HTTP/{HOST}", keytab=str(place.folder / "http.keytab"), cache="service.cc")
    for name in ("KRB5_CONFIG", "KRB5CCNAME"):
        monkeypatch.setenv(name, environ[name])
    codes = tokens.Place(place.directory, bind=lambda link: link.bind_gssapi(None))
    people = passkeys.Home(place.directory, bind=lambda link: link.bind_gssapi(None))
    try:
        alice = await codes.holder("alice")
        made = await codes.store.add(alice, tokens.new())
        (key,) = await codes.store.keys(alice)
        assert await codes.store.advance(alice, key, 1)
        assert made.created_at is not None
        assert await codes.store.remove(alice, made.token_id)
        henry = await codes.holder("henry")
        hotp = next(one for one in await codes.store.keys(henry) if one.type == "hotp")
        assert await codes.store.advance(henry, hotp, 0)
        passkey = some_passkey(passkeys.ALICE)
        await people.store.add(passkey, passkeys.note)
        assert await people.store.find(passkey.id) == passkey
        assert await people.store.remove(passkeys.ALICE, passkey.id, passkeys.note)
    finally:
        for one in (codes, people):
            one.parts.close()
    phone = f"ipatokenuniqueid={tokens.PHONE},cn=otp,{SUFFIX}"
    assert place.read(phone, "ipatokenOTPkey")
    assert not any("ipatokenOTPkey" in place.seen(phone, dn, password) for dn, password in OTHERS)


def test_a_keytab_that_is_there_is_not_made_anew(place: Place) -> None:
    """Who types --apply need not be who may use the keys: new ones would end a service that works."""
    assert place.setup("--apply", "--client-id", "freeipa").returncode == 0
    keytab = place.folder / "http.keytab"
    keys = keytab.read_bytes()
    keytab.chmod(0o644)

    done = place.setup("--apply", "--client-id", "freeipa")
    keytab.chmod(0o600)

    assert (done.returncode, keytab.read_bytes()) == (2, keys)
    assert "others than its owner may read" in done.stdout
    assert "ipa-getkeytab -p" not in done.stdout
    assert done.stderr == "greatseal: 1 missing: do what is said above\n"
    assert place.setup("--client-id", "freeipa").returncode == 0


def test_a_service_that_has_keys_elsewhere_keeps_them(place: Place) -> None:
    assert place.setup("--apply", "--client-id", "freeipa").returncode == 0
    service = f"krbprincipalname=HTTP/{HOST}@{REALM},cn=services,cn=accounts,{SUFFIX}"
    place.directory.modify(f"dn: {service}\nchangetype: modify\nreplace: krbLastPwdChange\nkrbLastPwdChange: 20260102030405Z\n")
    keytab, away = place.folder / "http.keytab", place.folder / "away.keytab"
    keytab.rename(away)

    done = place.setup("--apply", "--client-id", "freeipa")
    made = keytab.exists()
    away.rename(keytab)

    assert (done.returncode, made) == (2, False)
    assert "has keys since 20260102030405Z" in done.stdout
    assert f"ipa-getkeytab -p HTTP/{HOST} -k {keytab}" in done.stdout


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


def test_s090_without_a_ticket_it_says_what_to_do(place: Place) -> None:
    done = place.setup(cache="nobody.cc")

    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"greatseal: no bind by a ticket at {place.directory.uri}: No Kerberos credentials available")
    assert line.endswith("; get one with kinit; or name an entry with --admin-dn")


def test_s090_a_ticket_that_has_ended_is_told_from_none(place: Place) -> None:
    environ = place.kdc.ticket_for("admin", password="adminpw", cache="ended.cc", life="1s")
    deadline = time.monotonic() + 60
    while subprocess.run(["klist", "-s"], env=environ, check=False, timeout=60).returncode == 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)

    done = place.setup(cache="ended.cc")

    assert done.returncode == 1
    assert done.stderr == (
        f"greatseal: no bind by a ticket at {place.directory.uri}: Ticket expired; get another one with kinit; "
        "or name an entry with --admin-dn\n"
    )


def test_s090_a_kdc_that_is_away_is_told_from_a_directory_that_is(place: Place) -> None:
    cure = "see that a KDC of the realm runs, that krb5.conf or DNS names it, and that the firewall lets this machine ask it"
    place.kdc.ticket_for("admin", password="adminpw", cache="fresh.cc")  # without one for the directory
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        away = place.setup(cache="fresh.cc", KRB5_CONFIG=place.kdc.elsewhere(nobody.getsockname()[1]))

    assert away.returncode == 1
    assert f"no bind by a ticket at {place.directory.uri}: Cannot contact any KDC for realm '{REALM}'; {cure}; or" in away.stderr


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
