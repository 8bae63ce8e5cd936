"""A directory of its own: 389-ds, FreeIPA's own server, with its schema and permissions, on loopback, unprivileged, in one folder."""

import hashlib
import re
import shutil
import signal
import socket
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from rig.slapd import DATA, PATIENCE, REALM, SUFFIX, WHERE, stopped

from greatseal.testing.service import free_port

MANAGER, MANAGER_PASSWORD = "cn=Directory Manager", "dmpw"
SYSTEM = Path("/usr/share/dirsrv")
PROGRAMS = {"ns-slapd": "389-ds-base", "ldapmodify": "ldap-utils"}
FOLDERS = ("schema", "lock", "tmp", "ldif", "bak", "run", "inst", "log", "db")
PLUGINS = ("MemberOf Plugin", "Multisupplier Replication Plugin", "whoami")
"""What the minimal template lacks: without the one for replication nothing can be changed."""
MEMBERS = "memberOfGroupAttr: memberUser\nmemberOfGroupAttr: memberHost\nmemberOfGroupAttr: memberService\n"
DEPENDS = "nsslapd-plugin-depends-on-named"
TREE = "dn: cn=mapping tree,cn=config"


class Ds389:
    """Entries are those of seed.ldif, readable as FreeIPA has them; every user's password is ``<uid>pw``, dave has none.

    ``environ`` is that of a realm (:class:`rig.kdc.Kdc`), for binds by a ticket with the keytab ``keytab``. There is no TLS.
    """

    def __init__(self, folder: Path, *, environ: Mapping[str, str] | None = None, keytab: Path | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.uri = f"ldap://localhost:{self.port}"
        self.socket = f"ldapi://{quote(str(folder / 'ldapi'), safe='')}"
        self.environ = {"PATH": WHERE, "LC_ALL": "C", **(environ or {})}
        if keytab is not None:
            self.environ["KRB5_KTNAME"] = str(keytab)
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def missing() -> str:
        """The Debian package of a program that is not there."""
        return next((package for program, package in PROGRAMS.items() if shutil.which(program, path=WHERE) is None), "")

    @contextmanager
    def running(self) -> Iterator["Ds389"]:
        """With its entries, and listening."""
        self.make()
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def make(self) -> None:
        """The database."""
        conf = self.folder / "conf"
        conf.mkdir()
        for name in FOLDERS:
            (conf if name == "schema" else self.folder).joinpath(name).mkdir()
        for file in (SYSTEM / "schema").iterdir():
            (conf / "schema" / file.name).symlink_to(file)
        shutil.copy(DATA / "389ds-schema.ldif", conf / "schema" / "99chancery.ldif")
        (conf / "certmap.conf").write_text("certmap default default\n")
        (conf / "dse.ldif").write_text(self._configuration())
        (self.folder / "seed.ldif").write_text(self._seed())
        self._done("ns-slapd", "ldif2db", "-D", str(conf), "-n", "userRoot", "-i", str(self.folder / "seed.ldif"))

    def start(self) -> None:
        """From here it listens; again after :meth:`stop` on the same port with the same entries."""
        command = ["ns-slapd", "-D", str(self.folder / "conf"), "-i", str(self.folder / "run" / "pid"), "-d", "0"]
        with (self.folder / "ns-slapd.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, env=self.environ, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self._process.poll() is None, self._log()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline, self._log()
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
        """The template of the distribution, filled in; a second empty line between entries would end it."""
        conf = self.folder / "conf"
        places = {f"{name}_dir": self.folder / name for name in FOLDERS} | {"schema_dir": conf / "schema"}
        places |= {"cert_dir": conf, "config_dir": conf}
        values = {name: str(path) for name, path in places.items()} | {
            "fqdn": "localhost",
            "ds_port": str(self.port),
            "ds_user": self.folder.owner(),
            "rootdn": MANAGER,
            "ds_passwd": _hashed(MANAGER_PASSWORD),
            "ldapi_enabled": "on",
            "ldapi": str(self.folder / "ldapi"),
            "ldapi_autobind": "off",
        }
        text = (SYSTEM / "data" / "template-dse-minimal.ldif").read_text()
        extra = (DATA / "389ds-dse-extra.ldif.in").read_text().replace("@DIR@", str(self.folder))
        extra = re.sub(rf"{TREE}\n(?:.+\n)+\n", "", extra) if TREE in text else extra
        text = re.sub(r"%(\w+)%", lambda found: values[found[1]], text)
        text = text.replace("dn: cn=config\n", "dn: cn=config\nnsslapd-rootpwstoragescheme: SSHA\n", 1)
        return re.sub(r"\n{3,}", "\n\n", _filled("\n\n".join([text.rstrip(), _said(extra).rstrip(), *_plugins()]) + "\n"))

    def _seed(self) -> str:
        """The entries, with what FreeIPA lets whom read."""
        suffix = f"dn: {SUFFIX}\n"
        rights = _said((DATA / "389ds-aci.ldif.in").read_text())
        return (DATA / "seed.ldif").read_text().replace(suffix, f"{suffix}{_filled(rights)}", 1)

    def _log(self) -> str:
        errors = self.folder / "log" / "errors"
        return (self.folder / "ns-slapd.log").read_text() + (errors.read_text() if errors.exists() else "")

    def _done(self, *command: str) -> None:
        done = subprocess.run(command, cwd=self.folder, env=self.environ, check=False, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}\n{self._log()}"


def _plugins() -> Iterator[str]:
    """Of the whole template, switched on; memberOf follows access rules as FreeIPA has it."""
    for entry in (SYSTEM / "data" / "template-dse.ldif").read_text().split("\n\n"):
        if entry.strip().partition(",")[0].removeprefix("dn: cn=") in PLUGINS:
            text = entry.strip().replace("pluginenabled: off", "pluginenabled: on").removesuffix(f"\n{DEPENDS}: Class of Service")
            yield text.replace("memberOfGroupAttr: member\n", f"memberOfGroupAttr: member\n{MEMBERS}")


def _filled(text: str) -> str:
    return text.replace("@SUFFIX@", SUFFIX).replace("@REALM@", REALM)


def _said(text: str) -> str:
    """Without comments."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def _hashed(password: str) -> str:
    salt = b"chancery"
    return "{SSHA}" + b64encode(hashlib.sha1(password.encode() + salt, usedforsecurity=False).digest() + salt).decode()
