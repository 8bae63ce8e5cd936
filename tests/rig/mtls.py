"""An identity provider that clients reach with certificates: by TLS of its own, or through an Apache HTTP Server that has the TLS."""

import contextlib
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import trustme
from rig.apache import APACHE, MODULES
from rig.provider import Provider

PARTS = ("mpm_event", "unixd", "authz_core", "headers", "ssl", "socache_shmcb", "proxy", "proxy_http")
PROXY = """\
ServerName localhost
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
Listen 127.0.0.1:{port}
{modules}
User www-data
Group www-data
StartServers 1
DocumentRoot {folder}
SSLSessionCache none
<VirtualHost 127.0.0.1:{port}>
  SSLEngine on
  SSLCertificateFile {folder}/tls.pem
  SSLCertificateKeyFile {folder}/tls.key
{configuration}
  ProxyPass / http://127.0.0.1:{behind}/
</VirtualHost>
"""
CLIENT_CERT = """\
  SSLVerifyClient optional_no_ca
  RequestHeader set Client-Cert "%{SSL_CLIENT_CERT}s"
  RequestHeader edit* Client-Cert " " ""
  RequestHeader edit Client-Cert "^-----BEGINCERTIFICATE-----(.*)-----ENDCERTIFICATE-----$" ":$1:"
  RequestHeader unset Client-Cert "expr=%{SSL_CLIENT_VERIFY} == 'NONE'"
"""
"""As docs/guide/clients-with-certificates.md has it."""


class Certified(Provider):
    """It has the plugin, and knows the CA of ``clients``. With ``proxied`` it serves plain HTTP, for the proxy at that port."""

    def __init__(self, folder: Path, authority: trustme.CA, clients: trustme.CA, *, database: str | None = None, proxied: int = 0) -> None:
        self.proxied = proxied
        super().__init__(folder, database=database)
        self.context = self._certified(authority)
        clients.cert_pem.write_to_path(folder / "cas.pem")
        way = 'trusted_proxies = ["127.0.0.1/32"]'
        if not proxied:
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
        return f"https://localhost:{self.proxied or self.port}"

    @contextlib.contextmanager
    def reachable(self) -> Iterator[None]:
        """Running, behind its proxy where it has one."""
        with self._proxy() if self.proxied else contextlib.nullcontext(), self.running():
            yield

    @contextlib.contextmanager
    def _proxy(self) -> Iterator[None]:
        # Apache's children are another user, who must read the folder.
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            for file in ("tls.pem", "tls.key"):
                (folder / file).write_bytes((self.folder / file).read_bytes())
            present = [part for part in PARTS if (MODULES / f"mod_{part}.so").exists()]
            modules = "\n".join(f"LoadModule {part}_module {MODULES}/mod_{part}.so" for part in present)
            whole = PROXY.format(folder=folder, port=self.proxied, behind=self.port, modules=modules, configuration=CLIENT_CERT)
            (folder / "apache.conf").write_text(whole)
            with (folder / "output").open("wb") as output:
                process = subprocess.Popen([str(APACHE), "-f", folder / "apache.conf", "-DFOREGROUND"], stdout=output, stderr=output)
            try:
                yield
            finally:
                process.terminate()
                process.wait(timeout=10)


class Own:
    """A client's certificate, in files."""

    def __init__(self, folder: Path, by: trustme.CA, name: str) -> None:
        issued = by.issue_cert("client.example")
        self.certificate, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(self.certificate)
        issued.private_key_pem.write_to_path(self.key)
        self.pem = self.certificate.read_text()
        self.der = ssl.PEM_cert_to_DER_cert(self.pem)
