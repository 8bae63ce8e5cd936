"""A directory of its own: OpenLDAP's slapd with the schema of FreeIPA, on loopback, unprivileged, in one folder."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from greatseal.testing.service import free_port

REALM, SUFFIX = "CHANCERY.TEST", "dc=chancery,dc=test"
SERVICE, SERVICE_PASSWORD = f"uid=chancery,cn=sysaccounts,cn=etc,{SUFFIX}", "chancerypw"
MANAGER, MANAGER_PASSWORD = f"cn=Directory Manager,{SUFFIX}", "dmpw"
DATA = Path(__file__).with_name("ldap")
PROGRAMS = {"slapd": "slapd", "slapadd": "slapd", "ldapsearch": "ldap-utils"}
SCHEMAS, MODULES = Path("/etc/ldap/schema"), Path("/usr/lib/ldap")
SASL = "sasl2/libgssapiv2.so"
PATIENCE = 60.0
WHERE = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def stopped(pid: int) -> None:
    """Wait until SIGSTOP has reached every thread of a process."""
    deadline = time.monotonic() + PATIENCE
    tasks = Path(f"/proc/{pid}/task")
    while not all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Slapd:
    """Entries are those of seed.ldif, or of ``seed``; every user's password is ``<uid>pw``, dave has none.

    ``environ`` is that of a realm (:class:`rig.kdc.Kdc`), for binds by a ticket with the keytab ``keytab``. ``tls`` are the paths of CA,
    certificate and key. ``config`` is LDIF that follows the configuration; ``schema`` replaces the schema of FreeIPA.
    ``loading`` is how many seconds the entries may take.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str] | None = None,
        keytab: Path | None = None,
        tls: tuple[Path, Path, Path] | None = None,
        config: str = "",
        schema: Path = DATA / "openldap-schema.ldif",
        seed: Path = DATA / "seed.ldif",
        port: int = 0,
        max_size: int = 67_108_864,
        loading: float = PATIENCE,
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.tls_port = free_port() if tls else 0
        self.uri = f"ldap://localhost:{self.port}"
        self.tls_uri = f"ldaps://localhost:{self.tls_port}"
        self.socket = f"ldapi://{quote(str(folder / 'ldapi'), safe='')}"
        self.seed = seed
        self.environ = {"PATH": WHERE, "LC_ALL": "C", **(environ or {})}
        if keytab is not None:
            self.environ["KRB5_KTNAME"] = str(keytab)
        self._config = config
        self._tls = tls
        self._max_size = max_size
        self._loading = loading
        self._schema = schema
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def missing() -> str:
        """The Debian package of a program that is not there."""
        for program, package in PROGRAMS.items():
            if shutil.which(program, path=WHERE) is None:
                return package
        return "" if any(path.exists() for path in Path("/usr/lib").glob(f"*/{SASL}")) else "libsasl2-modules-gssapi-mit"

    @contextmanager
    def running(self) -> Iterator["Slapd"]:
        """With its entries, and listening."""
        self.make()
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def make(self) -> None:
        """The database."""
        (self.folder / "slapd.d").mkdir()
        (self.folder / "db").mkdir()
        (self.folder / "config.ldif").write_text(self._configuration())
        self._done("slapadd", "-q", "-n", "0", "-F", "slapd.d", "-l", "config.ldif")
        self._done("slapadd", "-q", "-n", "1", "-F", "slapd.d", "-l", str(self.seed), seconds=self._loading)

    def start(self) -> None:
        """From here it listens; again after :meth:`stop` on the same port with the same entries."""
        where = [f"ldap://127.0.0.1:{self.port}/", f"{self.socket}/"]
        if self._tls:
            where.append(f"ldaps://127.0.0.1:{self.tls_port}/")
        command = ["slapd", "-d", "0", "-h", " ".join(where), "-F", str(self.folder / "slapd.d")]
        with (self.folder / "slapd.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, env=self.environ, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self._process.poll() is None, (self.folder / "slapd.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            else:
                return

    def stop(self) -> None:
        """It listens no more."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait(timeout=PATIENCE)
            self._process = None

    def pause(self) -> None:
        """It takes connections and says nothing, when this returns."""
        self._signal(signal.SIGSTOP)
        assert self._process is not None
        stopped(self._process.pid)

    def resume(self) -> None:
        """It goes on."""
        self._signal(signal.SIGCONT)

    def modify(self, ldif: str) -> None:
        """Change entries, as an administrator does."""
        command = ["ldapmodify", "-x", "-H", f"ldap://127.0.0.1:{self.port}", "-D", MANAGER, "-w", MANAGER_PASSWORD]
        done = subprocess.run(command, env=self.environ, input=ldif, check=False, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr

    def replace(self, uid: str, attribute: str, *values: str) -> None:
        """Give a user these values of an attribute, or none."""
        lines = "".join(f"{attribute}: {value}\n" for value in values)
        self.modify(f"dn: uid={uid},cn=users,cn=accounts,{SUFFIX}\nchangetype: modify\nreplace: {attribute}\n{lines}-\n")

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _configuration(self) -> str:
        text = (DATA / "openldap-config.ldif.in").read_text()
        text = text.replace("@RIG@/openldap-schema.ldif", str(self._schema))
        places = {"@DIR@": self.folder, "@SCHEMA@": SCHEMAS, "@MODULES@": MODULES, "@REALM@": REALM, "@SUFFIX@": SUFFIX}
        if self._tls:
            authority, certificate, key = self._tls
            lines = f"olcTLSCACertificateFile: {authority}\nolcTLSCertificateFile: {certificate}\nolcTLSCertificateKeyFile: {key}\n"
            text = text.replace("olcThreads: 4\n", f"olcThreads: 4\n{lines}")
        text = text.replace("olcDbMaxSize: 67108864", f"olcDbMaxSize: {self._max_size}")
        text = f"{text}\n{self._config}"
        for place, value in places.items():
            text = text.replace(place, str(value))
        return text

    def _done(self, *command: str, seconds: float = PATIENCE) -> None:
        done = subprocess.run(command, cwd=self.folder, env=self.environ, check=False, capture_output=True, text=True, timeout=seconds)
        assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"


PASSWORD_POLICY = f"""
dn: olcOverlay=ppolicy,olcDatabase={{1}}mdb,cn=config
objectClass: olcOverlayConfig
objectClass: olcPPolicyConfig
olcOverlay: ppolicy
olcPPolicyDefault: cn=policy,cn=etc,{SUFFIX}
"""
OPENLDAP = {"seed": DATA / "openldap-seed.ldif", "config": PASSWORD_POLICY}
"""A directory without FreeIPA, with a password policy (slapo-ppolicy)."""
