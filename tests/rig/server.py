"""A server in a process of its own: started by the command, as a user starts it, or forked from a warm one, in a tenth of the time."""

import contextlib
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import trustme
from cryptography import x509
from rig import warm

from greatseal.testing.service import free_port

CONFIGURATION = """\
[server]
base_url = "{base_url}"
listen = "127.0.0.1:{port}"
http_validation_port = {validation_port}
tls_alpn_validation_port = {tls_validation_port}
http_validation_allow_private_ips = true
{settings}

[plugins]
sets = ["ca"]

[database]
url = "{database}"
migrate = "auto"

[cluster]
key_file = "{folder}/cluster.key"

[resolver]
hosts = {{ {hosts} }}
"""


class Server:
    """``greatseal serve``; ``names`` are 127.0.0.1, http-01 looks at ``validation_port``, tls-alpn-01 at ``tls_validation_port``.

    With an ``authority`` it serves https. ``settings`` are those of [server].
    """

    def __init__(
        self, folder: Path, names: Sequence[str] = (), *, database: str | None = None, authority: trustme.CA | None = None, **settings: str
    ) -> None:
        self.folder = folder
        self.program: Sequence[str] = [str(Path(sys.executable).with_name("greatseal"))]
        self.patience = 180.0
        """Seconds until it has to be ready, and until it has to have stopped."""
        self.port = free_port()
        self.validation_port = free_port()
        self.tls_validation_port = free_port()
        self.context = None if authority is None else self._certified(authority)
        if authority is not None:
            settings |= {"tls_cert_file": str(folder / "tls.pem"), "tls_key_file": str(folder / "tls.key")}
        self.database = database or f"sqlite:///{folder}/greatseal.db"
        self.configuration = folder / "greatseal.toml"
        self.configuration.write_text(
            CONFIGURATION.format(
                folder=folder,
                port=self.port,
                base_url=self.base_url,
                validation_port=self.validation_port,
                tls_validation_port=self.tls_validation_port,
                settings="\n".join(f'{key} = "{value}"' for key, value in settings.items()),
                database=self.database,
                hosts=", ".join(f'"{name}" = ["127.0.0.1"]' for name in names),
            )
        )

    @property
    def base_url(self) -> str:
        return f"{'http' if self.context is None else 'https'}://localhost:{self.port}"

    @property
    def directory(self) -> str:
        return f"{self.base_url}/acme/directory"

    def _certified(self, authority: trustme.CA) -> ssl.SSLContext:
        """Files for https, and the context of those who trust them."""
        issued = authority.issue_cert("localhost")
        issued.cert_chain_pems[0].write_to_path(self.folder / "tls.pem")
        issued.private_key_pem.write_to_path(self.folder / "tls.key")
        (self.folder / "tls.key").chmod(0o600)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.configure_trust(context)
        return context

    def root(self) -> x509.Certificate:
        """The root certificate that the running server shows."""
        with urllib.request.urlopen(f"{self.base_url}/ca/root.pem", timeout=5, context=self.context) as answer:
            return x509.load_pem_x509_certificate(answer.read())

    @contextlib.contextmanager
    def running(self, environ: Mapping[str, str] | None = None) -> "Iterator[subprocess.Popen[bytes]]":
        """From ready to stopped by SIGTERM, which must end it with 0. The output is in ``server.log``."""
        command = [*self.program, "serve", "-c", str(self.configuration)]
        with (self.folder / "server.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, env={**os.environ, **(environ or {})})
        with self._until_stopped(process):
            yield process

    @contextlib.contextmanager
    def forked(self, environ: Mapping[str, str] | None = None) -> Iterator[warm.Process]:
        """The same in a process that is forked from a warm one (:mod:`rig.warm`)."""
        arguments = ["serve", "-c", str(self.configuration)]
        with (self.folder / "server.log").open("ab") as log, Path(os.devnull).open() as nothing:
            env = {**os.environ, **(environ or {})}
            process = warm.start(arguments, streams=(nothing, log, log), env=env, cwd=self.folder)
        with self._until_stopped(process):
            yield process

    @contextlib.contextmanager
    def _until_stopped(self, process: "subprocess.Popen[bytes] | warm.Process") -> Iterator[None]:
        try:
            self._wait_until_ready(process)
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=self.patience) == 0, self.log()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def _wait_until_ready(self, process: "subprocess.Popen[bytes] | warm.Process") -> None:
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}:\n{self.log()}")
            try:
                with urllib.request.urlopen(f"{self.base_url}/readyz", timeout=5, context=self.context):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.005)
        raise RuntimeError(f"the server is not ready after {self.patience:.0f} s:\n{self.log()}")
