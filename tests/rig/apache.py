"""An Apache HTTP Server whose pages are for people that the identity provider knows: mod_auth_openidc."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

APACHE = shutil.which("apache2", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
MODULES = Path("/usr/lib/apache2/modules")
MOD_AUTH_OPENIDC = MODULES / "mod_auth_openidc.so"
PARTS = (
    *("mpm_event", "unixd", "authn_core", "authz_core", "authz_user", "dir", "mime", "include", "setenvif"),
    *("ssl", "socache_shmcb", "auth_openidc"),
)
CONFIGURATION = """\
ServerName 127.0.0.1
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
Listen 127.0.0.1:{port}
{modules}
User www-data
Group www-data
StartServers 1
KeepAlive Off
DocumentRoot {folder}/pages
DirectoryIndex index.shtml
TypesConfig /etc/mime.types
AddType text/html .shtml
AddOutputFilter INCLUDES .shtml
{settings}
<Directory {folder}/pages>
  Options +Includes
  Require all granted
</Directory>
<Location /private/>
  AuthType openid-connect
  Require valid-user
</Location>
<Location /api/>
  AuthType oauth20
  Require claim "scope~^(.* )?profile( .*)?$"
</Location>
<Location /callback>
  AuthType openid-connect
  Require valid-user
</Location>
"""
PAGE = """\
<!DOCTYPE html><title>Private</title><link rel=icon href=data:,>
<p id=user><!--#echo var="REMOTE_USER" --></p><p id=email><!--#echo var="OIDC_CLAIM_email" --></p>
<p id=name><!--#echo var="OIDC_CLAIM_name" --></p><p id=token><!--#echo var="OIDC_access_token" --></p>
<p id=userinfo><!--#echo var="OIDC_userinfo_json" --></p>
"""


@contextlib.contextmanager
def apache(port: int, settings: Mapping[str, str], files: Mapping[str, bytes] | None = None) -> Iterator[str]:
    """Serve ``/private/`` to people and ``/api/`` to access tokens, with these directives of mod_auth_openidc; the base URL.

    Directives name the ``files`` by ``{folder}``. Raises RuntimeError with Apache's words.
    """
    # Apache's children are another user, who must read the pages.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part, text in (
            ("private", PAGE),
            ("api", PAGE),
            ("", "<!DOCTYPE html><title>Out</title><link rel=icon href=data:,>Signed out"),
        ):
            (folder / "pages" / part).mkdir(parents=True, exist_ok=True)
            (folder / "pages" / part / "index.shtml").write_text(text)
        for file, content in (files or {}).items():
            (folder / file).write_bytes(content)
        present = [part for part in PARTS if (MODULES / f"mod_{part}.so").exists()]  # Debian builds unixd in
        modules = "\n".join(f"LoadModule {part}_module {MODULES}/mod_{part}.so" for part in present)
        lines = "\n".join(f'{name} "{_quoted(value)}"' for name, value in settings.items()).replace("{folder}", str(folder))
        configuration = folder / "apache.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, port=port, modules=modules, settings=lines))
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen([str(APACHE), "-f", configuration, "-DFOREGROUND"], stdout=output, stderr=output)
        try:
            wait_until_it_listens(process, port, folder)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=10)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def wait_until_it_listens(process: "subprocess.Popen[bytes]", port: int, folder: Path) -> None:
    """Raises RuntimeError with the words that the process wrote into ``output`` and ``error.log`` of its folder."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        time.sleep(0.005)
    log = folder / "error.log"
    raise RuntimeError(f"the server is not ready:\n{(folder / 'output').read_text()}\n{log.read_text() if log.exists() else ''}")
