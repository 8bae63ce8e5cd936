"""A Kerberos realm of its own: the KDC of MIT, on loopback, unprivileged, in one folder."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from greatseal.testing.service import free_port

REALM = "CHANCERY.TEST"
TEMPLATES = Path(__file__).with_name("krb")
PROGRAMS = {"krb5kdc": "krb5-kdc", "kdb5_util": "krb5-kdc", "kadmin.local": "krb5-admin-server", "kinit": "krb5-user"}
PLUGIN = "krb5/plugins/preauth/pkinit.so"
PATIENCE = 60.0
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
"""What gives a program another clock (Debian: the package libfaketime)."""


def clock_that_is_off(by: str) -> dict[str, str]:
    """The environment of a program whose clock is off by ``-2h``, ``+1h`` and the like; none for ``""``."""
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": by, "FAKETIME_DONT_FAKE_MONOTONIC": "1"} if by else {}


class Kdc:
    """Principals are those of principals.kadmin, their keytabs in the folder. PKINIT needs root.pem, issuing.pem, kdc.pem and kdc.key.

    ``settings`` are those of the realm in kdc.conf. A process that is to be of this realm takes ``environ``. Its ``clock`` may be off.
    """

    def __init__(self, folder: Path, *, clock: str = "", **settings: str) -> None:
        self.folder = folder
        self.port, self.kadmind, self.kpasswd = free_port(), free_port(), free_port()
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        self.environ = {
            "PATH": path,
            "LC_ALL": "C",
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5RCACHEDIR": str(folder),
            **clock_that_is_off(clock),
        }
        more = "".join(f"  {name} = {value}\n" for name, value in settings.items())
        self._places = {
            "@DIR@": str(folder),
            "@PORT@": str(self.port),
            "@KADMIND@": str(self.kadmind),
            "@KPASSWD@": str(self.kpasswd),
            "@MORE@": more,
        }
        for template in TEMPLATES.glob("*.in"):
            (folder / template.stem).write_text(self._filled(template))
        (folder / "kadm5.acl").write_text(f"*/admin@{REALM} *\n")

    @staticmethod
    def missing() -> str:
        """The Debian package of a program that is not there."""
        for program, package in PROGRAMS.items():
            if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
                return package
        return "" if any(path.exists() for path in Path("/usr/lib").glob(f"*/{PLUGIN}")) else "krb5-pkinit"

    def run(self, *command: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """A program of Kerberos in this realm."""
        return subprocess.run(
            command, cwd=self.folder, env=self.environ, input=stdin, check=False, capture_output=True, text=True, timeout=PATIENCE
        )

    @contextmanager
    def running(self, *, passwords: bool = False) -> Iterator["Kdc"]:
        """With its database, and listening; with ``passwords`` kadmind changes them."""
        self.make()
        with ExitStack() as servers:
            servers.enter_context(self.serving())
            if passwords:
                servers.enter_context(self._serving(self.kpasswd, "kadmind", "-nofork"))
            yield self

    def make(self) -> None:
        """The database and the keytabs."""
        self._done("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self.admin(self._filled(TEMPLATES / "principals.kadmin"))

    @contextmanager
    def serving(self) -> Iterator[None]:
        """The KDC alone, on the database that is there: one that was stopped comes back."""
        with self._serving(self.port, "krb5kdc", "-n"):
            yield

    def admin(self, commands: str) -> str:
        """Lines for kadmin.local."""
        return self._done("kadmin.local", "-r", REALM, stdin=commands)

    def ticket_for(self, principal: str, *, keytab: str = "", password: str = "", cache: str = "cc", life: str = "1d") -> dict[str, str]:
        """A ticket by keytab (a file of the folder) or password, in a cache of the folder: the environment in which programs use it.

        ``life`` is how long it is good, such as ``1h``.
        """
        environ = {**self.environ, "KRB5CCNAME": f"FILE:{self.folder / cache}"}
        how = ("-k", "-t", str(self.folder / keytab)) if keytab else ()
        command = ("kinit", "-l", life, *how, principal)
        done = subprocess.run(command, env=environ, input=password, check=False, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"kinit {principal} ended with {done.returncode}:\n{done.stderr}\n{self.log()}"
        return environ

    def kinit(self, principal: str, certificate: Path, key: Path) -> "subprocess.CompletedProcess[str]":
        """Ask for a ticket by PKINIT, and by nothing else: there is no password to type."""
        return self.run("kinit", "-X", f"X509_user_identity=FILE:{certificate},{key}", principal)

    def ticket(self) -> str:
        """Whose ticket is in the cache."""
        return self._done("klist").partition("Default principal: ")[2].partition("\n")[0]

    def elsewhere(self, port: int) -> str:
        """KRB5_CONFIG of a process that looks for the KDC on another port."""
        path = self.folder / f"elsewhere-{port}.conf"
        path.write_text((self.folder / "krb5.conf").read_text().replace(f":{self.port}", f":{port}"))
        return str(path)

    def log(self) -> str:
        return (self.folder / "kdc.log").read_text()

    @contextmanager
    def _serving(self, port: int, program: str, *options: str) -> Iterator[None]:
        log = self.folder / f"{program}.out"
        with log.open("w") as out:
            process = subprocess.Popen([program, *options, "-r", REALM], cwd=self.folder, env=self.environ, stdout=out, stderr=out)
        try:
            self._wait(process, port, log)
            yield
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)

    def _filled(self, template: Path) -> str:
        text = template.read_text()
        for place, value in self._places.items():
            text = text.replace(place, value)
        return text

    def _done(self, *command: str, stdin: str = "") -> str:
        done = self.run(*command, stdin=stdin)
        assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _wait(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            assert process.poll() is None, log.read_text() + self.log()
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.01)
            else:
                return
