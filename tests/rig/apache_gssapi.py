"""An Apache HTTP Server that takes Kerberos tickets for the service behind it: mod_auth_gssapi as the trusted proxy."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rig.apache import APACHE, MODULES, wait_until_it_listens
from rig.kdc import Kdc

MOD_AUTH_GSSAPI = MODULES / "mod_auth_gssapi.so"
PARTS = ("mpm_event", "unixd", "authn_core", "authz_core", "authz_user", "headers", "proxy", "proxy_http", "auth_gssapi")
CONFIGURATION = """\
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
RequestHeader unset X-Remote-User early
<Location /acme/eab>
  AuthType GSSAPI
  AuthName "Kerberos"
  GssapiCredStore keytab:{folder}/http.keytab
  Require valid-user
  RequestHeader set X-Remote-User "expr=%{{REMOTE_USER}}"
</Location>
ProxyPass / {behind}/
"""


@contextmanager
def ticket_proxy(kdc: Kdc, port: int, behind: str) -> Iterator[str]:
    """Its base URL; ``X-Remote-User`` at /acme/eab has the principal. Raises RuntimeError with Apache's words."""
    # Apache's children are another user, who must read the keytab and write the replay cache.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        shutil.copy(kdc.folder / "http.keytab", folder / "http.keytab")
        shutil.copy(kdc.folder / "krb5.conf", folder / "krb5.conf")
        for file in ("http.keytab", "krb5.conf"):
            (folder / file).chmod(0o644)
        present = [part for part in PARTS if (MODULES / f"mod_{part}.so").exists()]
        modules = "\n".join(f"LoadModule {part}_module {MODULES}/mod_{part}.so" for part in present)
        configuration = folder / "apache.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, port=port, modules=modules, behind=behind))
        environ = {**os.environ, "KRB5_CONFIG": str(folder / "krb5.conf"), "KRB5RCACHEDIR": name}
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen([str(APACHE), "-f", configuration, "-DFOREGROUND"], stdout=output, stderr=output, env=environ)
        try:
            wait_until_it_listens(process, port, folder)
            yield f"http://localhost:{port}"
        finally:
            process.terminate()
            process.wait(timeout=10)
