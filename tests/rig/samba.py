"""An Active Directory of its own: a domain controller of Samba with LDAP and KDC, on an address of loopback, in one folder.

LDAP has the ports 389 and 636 there and no others, so it needs root, or `net.ipv4.ip_unprivileged_port_start` below 389.
"""

import re
import shutil
import signal
import socket
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import randrange

from rig.slapd import DATA, PATIENCE, WHERE

from greatseal.testing.service import free_port

REALM, SUFFIX, DOMAIN = "AD.CHANCERY.TEST", "DC=ad,DC=chancery,DC=test", "ADCH"
ADMINISTRATOR, PASSWORD = f"CN=Administrator,CN=Users,{SUFFIX}", "Adm1n-pass"
SERVICE, SERVICE_PASSWORD = f"CN=Chancery,CN=Users,{SUFFIX}", "chancerypw"
PROGRAMS = {"samba": "samba", "samba-tool": "samba-common-bin", "ldapmodify": "ldap-utils", "openssl": "openssl"}
MODULES, SETUP = "samba/ldb/samba_dsdb.so", Path("/usr/share/samba/setup")
STRIKES = 3
POLICY = f"""dn: {SUFFIX}
changetype: modify
replace: pwdProperties
pwdProperties: 0
-
replace: minPwdLength
minPwdLength: 1
-
replace: minPwdAge
minPwdAge: 0
-
replace: pwdHistoryLength
pwdHistoryLength: 0
-
replace: lockoutThreshold
lockoutThreshold: {STRIKES}
-

"""
PROVISIONING = "[global]\nvfs objects = dfs_samba4 acl_xattr\nposix:eadb = {folder}/eadb.tdb\nlog file = {folder}/log.%m\n"
RUNNING = """[global]
netbios name = DC1
realm = {realm}
workgroup = {domain}
server role = active directory domain controller
server services = ldap, kdc
interfaces = {address}/8
bind interfaces only = yes
krb5 port = {kdc}
kpasswd port = {kpasswd}
private dir = {folder}/private
state directory = {folder}/state
cache directory = {folder}/cache
lock directory = {folder}
pid directory = {folder}
ncalrpc dir = {folder}/ncalrpc
winbindd socket directory = {folder}/winbindd
ntp signd socket directory = {folder}/ntp
log file = {folder}/log.%m
vfs objects = dfs_samba4 acl_xattr
posix:eadb = {folder}/eadb.tdb
tls cafile = {folder}/tls.pem
tls certfile = {folder}/tls.pem
tls keyfile = {folder}/tls.key
"""
KERBEROS = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = {address}:{kdc}
  kpasswd_server = {address}:{kpasswd}
}}
"""


class Samba:
    """Entries are those of samba-seed.ldif; a user's password is ``<name>pw``, frank is locked, and STRIKES wrong passwords lock anybody.

    A process that is to be of this realm takes ``environ``. ``certificate`` is whom to trust at ``uri``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "dc"
        self.address = _address()
        self.uri = f"ldaps://{self.address}:636"
        self.plain_uri = f"ldap://{self.address}:389"
        self.certificate = self.folder / "tls.pem"
        self.environ = {"PATH": WHERE, "LC_ALL": "C", "KRB5_CONFIG": str(self.folder / "krb5.conf"), "KRB5RCACHEDIR": str(self.folder)}
        self._environ = {**self.environ, "LDAPTLS_CACERT": str(self.certificate)}
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def missing() -> str:
        """What is not there: a Debian package, or the right to listen on the ports."""
        for program, package in PROGRAMS.items():
            if shutil.which(program, path=WHERE) is None:
                return package
        if not SETUP.exists():
            return "samba-ad-provision"
        if not any(path.exists() for path in Path("/usr/lib").glob(f"*/{MODULES}")):
            return "samba-dsdb-modules"
        return "" if _may_listen() else "samba (and root: its ports are 389 and 636)"

    @contextmanager
    def running(self) -> Iterator["Samba"]:
        """With its entries, and listening."""
        self.make()
        try:
            self.start()
            self._fill()
            yield self
        finally:
            self.stop()

    def make(self) -> None:
        """The domain."""
        self.folder.mkdir()
        self.folder.chmod(0o755)
        conf = self.folder / "provisioning.conf"
        conf.write_text(PROVISIONING.format(folder=self.folder))
        self._done(
            "samba-tool", "domain", "provision", f"--configfile={conf}", f"--targetdir={self.folder}", f"--realm={REALM}",
            f"--domain={DOMAIN}", "--server-role=dc", f"--adminpass={PASSWORD}", "--dns-backend=NONE", "--host-name=dc1",
            f"--host-ip={self.address}", "--use-rfc2307",
        )  # fmt: skip
        places = {"folder": self.folder, "realm": REALM, "domain": DOMAIN, "address": self.address}
        places |= {"kdc": free_port(), "kpasswd": free_port()}
        (self.folder / "smb.conf").write_text(RUNNING.format_map(places))
        (self.folder / "krb5.conf").write_text(KERBEROS.format_map(places))
        self._done(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=dc1",
            "-addext", f"subjectAltName=DNS:dc1.ad.chancery.test,IP:{self.address}", "-keyout", str(self.folder / "tls.key"),
            "-out", str(self.certificate),
        )  # fmt: skip
        (self.folder / "tls.key").chmod(0o600)

    def start(self) -> None:
        """From here it listens; again after :meth:`stop` on the same address with the same entries."""
        command = ["samba", "-i", "-M", "single", "--no-process-group", "-s", str(self.folder / "smb.conf")]
        with (self.folder / "samba.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, env=self._environ, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self._process.poll() is None, (self.folder / "samba.log").read_text()
            try:
                socket.create_connection((self.address, 636), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline, (self.folder / "samba.log").read_text()
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """It listens no more."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait(timeout=PATIENCE)
            self._process = None

    def modify(self, ldif: str) -> None:
        """Change entries, as an administrator does; @SUFFIX@, @REALM@ and @PASSWORD:...@ are filled in."""
        done = self._client("ldapmodify", ADMINISTRATOR, PASSWORD, stdin=_filled(ldif))
        assert done.returncode == 0, done.stderr

    def binds(self, dn: str, password: str) -> "subprocess.CompletedProcess[str]":
        """Sign in as an entry, with ldapsearch."""
        return self._client("ldapsearch", dn, password, "-s", "base", "-b", "", "1.1")

    def _fill(self) -> None:
        self.modify(POLICY + (DATA / "samba-seed.ldif").read_text())
        for _ in range(STRIKES):
            assert self.binds(f"CN=Frank Fisher,CN=Users,{SUFFIX}", "wrong").returncode == 49

    def _client(self, program: str, dn: str, password: str, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        command = [program, "-x", "-H", self.uri, "-D", dn, "-w", password, *arguments]
        return subprocess.run(command, env=self._environ, input=stdin, check=False, capture_output=True, text=True, timeout=PATIENCE)

    def _done(self, *command: str) -> None:
        done = subprocess.run(command, cwd=self.folder, env=self._environ, check=False, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"


def quoted(password: str) -> str:
    """A password as AD takes it: in quotation marks, UTF-16, and for LDIF in base64."""
    return b64encode(f'"{password}"'.encode("utf-16-le")).decode()


def _filled(ldif: str) -> str:
    text = re.sub(r"@PASSWORD:(.+?)@", lambda found: quoted(found[1]), ldif)
    return text.replace("@SUFFIX@", SUFFIX).replace("@REALM@", REALM)


def _address() -> str:
    """One of loopback that nobody listens on."""
    while True:
        address = f"127.{randrange(1, 255)}.{randrange(1, 255)}.{randrange(1, 255)}"
        with socket.socket() as probe:
            if probe.connect_ex((address, 636)) != 0:
                return address


def _may_listen() -> bool:
    try:
        with socket.socket() as probe:
            probe.bind((_address(), 389))
    except PermissionError:
        return False
    return True
