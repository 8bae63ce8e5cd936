"""Proxies that have the TLS and say whose certificate they saw, as docs/guide/clients-with-certificates.md configures them."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rig.apache import APACHE, MODULES, wait_until_it_listens

GUIDE = Path(__file__).parents[2] / "docs/guide/clients-with-certificates.md"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
NJS = Path("/usr/lib/nginx/modules/ngx_http_js_module.so")
INSTALLED = {"apache": APACHE is not None, "nginx": NGINX is not None and NJS.exists()}
PARTS = ("mpm_event", "unixd", "authz_core", "headers", "ssl", "socache_shmcb", "proxy", "proxy_http")
APACHE_CONFIGURATION = """\
ServerName localhost
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/proxy.pid
ErrorLog {folder}/error.log
Listen 127.0.0.1:{port}
{modules}
User www-data
Group www-data
StartServers 1
DocumentRoot {folder}
SSLSessionCache none
{documented}
"""
NGINX_CONFIGURATION = """\
daemon off;
worker_processes 1;
pid {folder}/proxy.pid;
error_log {folder}/error.log;
load_module {njs};
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
{documented}
}}
"""


@contextlib.contextmanager
def proxy(kind: str, port: int, behind: int, certificate: Path, key: Path) -> Iterator[None]:
    """``apache`` or ``nginx`` on that port, in front of ``behind``. Raises RuntimeError with its words when it does not start."""
    # Their children are another user, who must read the folder.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copyfile(certificate, folder / "tls.pem")
        shutil.copyfile(key, folder / "tls.key")
        command = {"apache": _apache, "nginx": _nginx}[kind](folder, port, behind)
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            wait_until_it_listens(process, port, folder)
            yield
        finally:
            process.terminate()
            process.wait(timeout=10)


def _apache(folder: Path, port: int, behind: int) -> list[str]:
    present = [part for part in PARTS if (MODULES / f"mod_{part}.so").exists()]  # Debian builds unixd in
    modules = "\n".join(f"LoadModule {part}_module {MODULES}/mod_{part}.so" for part in present)
    documented = _documented("apache", folder, port, behind)
    configuration = folder / "apache.conf"
    configuration.write_text(APACHE_CONFIGURATION.format(folder=folder, port=port, modules=modules, documented=documented))
    return [str(APACHE), "-f", str(configuration), "-DFOREGROUND"]


def _nginx(folder: Path, port: int, behind: int) -> list[str]:
    (folder / "greatseal.js").write_text(_documented("js", folder, port, behind))
    configuration = folder / "nginx.conf"
    documented = _documented("nginx", folder, port, behind)
    configuration.write_text(NGINX_CONFIGURATION.format(folder=folder, njs=NJS, documented=documented))
    return [str(NGINX), "-p", str(folder), "-c", str(configuration)]


def block(language: str, number: int = 0) -> str:
    """That block of the guide."""
    return str(re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)[number])


def _documented(language: str, folder: Path, port: int, behind: int) -> str:
    """The first block of the guide; only names, ports and files are ours."""
    text = block(language)
    ours = {
        "*:443": f"127.0.0.1:{port}",
        "listen 443": f"listen 127.0.0.1:{port}",
        "id.example.org": "localhost",
        "/etc/ssl/id.pem": f"{folder}/tls.pem",
        "/etc/ssl/private/id.key": f"{folder}/tls.key",
        "/etc/nginx/greatseal.js": f"{folder}/greatseal.js",
        "127.0.0.1:8080": f"127.0.0.1:{behind}",
    }
    for theirs, instead in ours.items():
        text = text.replace(theirs, instead)
    return text
