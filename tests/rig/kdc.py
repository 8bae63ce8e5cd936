"""A Kerberos realm of its own: the KDC of MIT, on loopback, unprivileged, in one folder."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from greatseal.testing.service import free_port

REALM = "CHANCERY.TEST"
TEMPLATES = Path(__file__).with_name("krb")
PROGRAMS = {"krb5kdc": "krb5-kdc", "kdb5_util": "krb5-kdc", "kadmin.local": "krb5-admin-server", "kinit": "krb5-user"}
PLUGIN = "krb5/plugins/preauth/pkinit.so"
PATIENCE = 60.0


class Kdc:
    """Principals are those of principals.kadmin. PKINIT needs root.pem, issuing.pem, kdc.pem and kdc.key in the folder.

    ``settings`` are those of the realm in kdc.conf.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.port = free_port()
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        self.environ = {
            "PATH": path,
            "LC_ALL": "C",
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5RCACHEDIR": str(folder),
        }
        more = "".join(f"  {name} = {value}\n" for name, value in settings.items())
        for template in TEMPLATES.glob("*.in"):
            text = template.read_text().replace("@DIR@", str(folder)).replace("@PORT@", str(self.port)).replace("@MORE@", more)
            (folder / template.stem).write_text(text)

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
    def running(self) -> Iterator["Kdc"]:
        """With its database, and listening."""
        self._done("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self._done("kadmin.local", "-r", REALM, stdin=(TEMPLATES / "principals.kadmin").read_text())
        with (self.folder / "krb5kdc.log").open("w") as log:
            process = subprocess.Popen(["krb5kdc", "-n", "-r", REALM], cwd=self.folder, env=self.environ, stdout=log, stderr=log)
        try:
            self._wait(process)
            yield self
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)

    def kinit(self, principal: str, certificate: Path, key: Path) -> "subprocess.CompletedProcess[str]":
        """Ask for a ticket by PKINIT, and by nothing else: there is no password to type."""
        return self.run("kinit", "-X", f"X509_user_identity=FILE:{certificate},{key}", principal)

    def ticket(self) -> str:
        """Whose ticket is in the cache."""
        return self._done("klist").partition("Default principal: ")[2].partition("\n")[0]

    def log(self) -> str:
        return (self.folder / "kdc.log").read_text()

    def _done(self, *command: str, stdin: str = "") -> str:
        done = self.run(*command, stdin=stdin)
        assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            assert process.poll() is None, (self.folder / "krb5kdc.log").read_text() + self.log()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.01)
            else:
                return
