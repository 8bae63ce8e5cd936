"""Pebble, the ACME test server of Let's Encrypt, as a yardstick: no random refusals, no waits, names by its own DNS server."""

import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import trustme

from greatseal.testing.service import free_port


class Pebble:
    """Every name is 127.0.0.1; ``ca_file`` verifies its https."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.validation_port = free_port()
        self.dns_port = free_port()
        self.ca_file = folder / "pebble-https.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.ca_file))
        issued = authority.issue_cert("localhost")
        issued.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
        issued.private_key_pem.write_to_path(str(folder / "key.pem"))
        settings = {
            "listenAddress": f"127.0.0.1:{self.port}",
            "certificate": str(folder / "cert.pem"),
            "privateKey": str(folder / "key.pem"),
            "httpPort": self.validation_port,
            "tlsPort": free_port(),
        }
        (folder / "pebble.json").write_text(json.dumps({"pebble": settings}))

    @staticmethod
    def installed() -> bool:
        return shutil.which("pebble") is not None and shutil.which("pebble-challtestsrv") is not None

    @property
    def directory(self) -> str:
        return f"https://localhost:{self.port}/dir"

    def ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file))

    @contextlib.contextmanager
    def running(self) -> "Iterator[subprocess.Popen[bytes]]":
        """From ready to stopped."""
        unused = ("-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", "")
        names = ["pebble-challtestsrv", *unused, "-dns01", f"127.0.0.1:{self.dns_port}", "-management", f"127.0.0.1:{free_port()}"]
        server = ["pebble", "-config", str(self.folder / "pebble.json"), "-dnsserver", f"127.0.0.1:{self.dns_port}"]
        environ = {**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"}
        with contextlib.ExitStack() as stack:
            log = stack.enter_context((self.folder / "pebble.log").open("ab"))
            for command in (names, server):
                process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
                stack.callback(process.wait)
                stack.callback(process.kill)
            self._wait_until_ready()
            yield process

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(self.directory, timeout=5, context=self.ssl_context()):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError, socket.gaierror):
                time.sleep(0.01)
        raise RuntimeError("pebble is not ready after 30 s; see pebble.log")
