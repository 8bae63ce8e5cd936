"""An identity provider that clients reach with certificates: by TLS of its own, or through a proxy that has the TLS."""

import contextlib
import ssl
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import trustme
from cryptography import x509
from rig.provider import Provider
from rig.proxies import proxy

from greatseal.testing.service import free_port


class Certified(Provider):
    """It has the plugin, and knows the CA of ``clients``. ``behind`` a proxy of :mod:`rig.proxies` it serves plain HTTP."""

    def __init__(
        self, folder: Path, authority: trustme.CA, clients: trustme.CA, *, database: str | None = None, behind: str | None = None
    ) -> None:
        self._behind = behind
        self._proxied = free_port() if behind else 0
        super().__init__(folder, database=database)
        self.context = self._certified(authority)
        clients.cert_pem.write_to_path(folder / "cas.pem")
        way = 'trusted_proxies = ["127.0.0.1/32"]'
        if not behind:
            way = f'tls_cert_file = "{folder}/tls.pem"\ntls_key_file = "{folder}/tls.key"'
        text = self.configuration.read_text()
        for before, after in (
            (f"http://localhost:{self.port}", self.base_url),
            ("[plugins]", f"{way}\n\n[plugins]"),
            ("[oauth]", f'[oauth]\nclient_ca_file = "{folder}/cas.pem"'),
        ):
            text = text.replace(before, after)
        self.configuration.write_text(text)
        https = urllib.request.HTTPSHandler(context=self.context)
        self._admin = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()), https)

    @property
    def base_url(self) -> str:
        return f"https://localhost:{self._proxied or self.port}"

    @contextlib.contextmanager
    def reachable(self) -> Iterator[None]:
        """Running, behind its proxy where it has one."""
        with contextlib.ExitStack() as stack:
            if self._behind:
                stack.enter_context(proxy(self._behind, self._proxied, self.port, self.folder / "tls.pem", self.folder / "tls.key"))
            stack.enter_context(self.forked())
            yield


def issuing_ca() -> trustme.CA:
    """One with two CAs between it and its root: all three are in the TLS handshake of a client."""
    return trustme.CA().create_child_ca().create_child_ca().create_child_ca()


class Own:
    """A client's certificate, in files; ``certificate`` has those of the CAs that are sent along too."""

    def __init__(self, folder: Path, by: trustme.CA, name: str) -> None:
        issued = by.issue_cert("client.example")
        self.certificate, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        self.certificate.write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(self.key)
        self.pem = issued.cert_chain_pems[0].bytes().decode()
        self.der = ssl.PEM_cert_to_DER_cert(self.pem)
        self.serial = x509.load_der_x509_certificate(self.der).serial_number
        self.pair = (str(self.certificate), str(self.key))
