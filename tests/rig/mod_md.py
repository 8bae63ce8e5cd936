"""An Apache HTTP Server that gets and renews its certificates itself: mod_md."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from rig.apache import APACHE, MODULES

MOD_MD = MODULES / "mod_md.so"
PARTS = ("mpm_event", "unixd", "authz_core", "watchdog", "ssl", "socache_shmcb", "md")
CONFIGURATION = """\
ServerName 127.0.0.1
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
LogLevel info md:debug
Listen 127.0.0.1:{port}
Listen 127.0.0.1:{tls_port} https
{modules}
User www-data
Group www-data
StartServers 1
DocumentRoot {folder}
MDPortMap http:{port} https:{tls_port}
MDStoreDir {folder}/md
MDContactEmail someone@example.test
MDCertificateAgreement accepted
MDRetryDelay 5s
MDCheckInterval 1s
{settings}
MDomain {name}
<VirtualHost 127.0.0.1:{tls_port}>
  ServerName {name}
  SSLEngine on
</VirtualHost>
<VirtualHost 127.0.0.1:{port}>
  ServerName {name}
</VirtualHost>
"""


class ModMd:
    """``name`` is the one name of its certificate; http-01 is answered on ``port``."""

    def __init__(self, folder: Path, name: str, port: int, tls_port: int) -> None:
        self.folder = folder
        self.name = name
        self.port = port
        self.tls_port = tls_port

    @property
    def log(self) -> str:
        path = self.folder / "error.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def chain(self, where: str) -> str | None:
        """The PEM of leaf and chain in ``domains`` (in use) or ``staging`` (got, for the next start)."""
        path = self.folder / "md" / where / self.name / "pubcert.pem"
        return path.read_text() if path.exists() else None

    @contextlib.contextmanager
    def running(self, settings: Mapping[str, str]) -> Iterator[None]:
        """With these directives of mod_md. What is staged is in use from the next start on."""
        present = [part for part in PARTS if (MODULES / f"mod_{part}.so").exists()]  # Debian builds some in
        modules = "\n".join(f"LoadModule {part}_module {MODULES}/mod_{part}.so" for part in present)
        lines = "\n".join(f'{name} "{value}"' for name, value in settings.items())
        configuration = self.folder / "apache.conf"
        configuration.write_text(
            CONFIGURATION.format(
                folder=self.folder, port=self.port, tls_port=self.tls_port, modules=modules, settings=lines, name=self.name
            )
        )
        with (self.folder / "output").open("wb") as output:
            process = subprocess.Popen([str(APACHE), "-f", configuration, "-DFOREGROUND"], stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=20)


@contextlib.contextmanager
def mod_md(name: str, port: int, tls_port: int) -> Iterator[ModMd]:
    """One in a folder of its own, which Apache's children can read, whoever they are."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o755)
        try:
            yield ModMd(folder, name, port, tls_port)
        finally:
            shutil.rmtree(folder / "md", ignore_errors=True)
