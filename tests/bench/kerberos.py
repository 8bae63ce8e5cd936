"""``python -m bench.kerberos`` in tests: sign-ins and tokens by Kerberos ticket, in turns with a page behind mod_auth_gssapi of Apache.

It takes less than a minute and is not part of `make bench`. Every request brings a ticket of its own, which the replay cache remembers.
"""

import asyncio
import itertools
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import msgspec
from bench.measure import Sample, cpu_us, reference_us, row
from rig.apache import APACHE, MODULES, wait_until_it_listens
from rig.apache_gssapi import MOD_AUTH_GSSAPI, PARTS
from rig.initiator import Initiator
from rig.kdc import REALM, Kdc
from rig.people import write_users
from rig.provider import ADMINISTRATOR, PASSWORD, Provider
from rig.realm import realm_in

from greatseal.testing.service import free_port

ROUNDS = 5
REQUESTS = 400
CALLERS = 8
HOST = "host/web1.chancery.test"
GUARDED = """\
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
DocumentRoot {folder}/pages
<Location />
  AuthType GSSAPI
  AuthName "Kerberos"
  GssapiCredStore keytab:{folder}/http.keytab
  Require valid-user
</Location>
"""


class Door(msgspec.Struct, frozen=True):
    """What is asked for with a ticket, the status of the answer, and the process that gives it."""

    name: str
    url: str
    status: int
    pid: int
    form: Mapping[str, str] | None = None


@contextmanager
def guarded(kdc: Kdc) -> Iterator[Door]:
    """A page of Apache, for people with a ticket."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        folder.chmod(0o777)
        (folder / "pages").mkdir()
        (folder / "pages" / "index.html").write_text("signed in")
        for file in ("http.keytab", "krb5.conf"):
            shutil.copy(kdc.folder / file, folder / file)
            (folder / file).chmod(0o644)
        present = [part for part in PARTS if (MODULES / f"mod_{part}.so").exists()]
        modules = "\n".join(f"LoadModule {part}_module {MODULES}/mod_{part}.so" for part in present)
        (folder / "apache.conf").write_text(GUARDED.format(folder=folder, port=port, modules=modules))
        environ = {**kdc.environ, "KRB5_CONFIG": str(folder / "krb5.conf"), "KRB5RCACHEDIR": name}
        with (folder / "output").open("wb") as output:
            command = [str(APACHE), "-f", str(folder / "apache.conf"), "-DFOREGROUND"]
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environ)
        try:
            wait_until_it_listens(process, port, folder)
            yield Door("mod_auth_gssapi of Apache, a page", f"http://localhost:{port}/index.html", 200, process.pid)
        finally:
            process.terminate()
            process.wait(timeout=10)


@contextmanager
def ours(kdc: Kdc, folder: Path) -> Iterator[list[Door]]:
    """A sign-in, and a token for a client."""
    provider = Provider(folder)
    write_users(folder / "users.toml", PASSWORD, {"alice": {}, ADMINISTRATOR: {"groups": ["administrators"]}})
    text = provider.configuration.read_text().replace("[server]\n", f'[server]\nrealm = "{REALM}"\nauth_rate_limit = 0\n')
    text = text.replace("[plugins]\n", '[plugins]\nenabled = ["gssapi"]\n')
    provider.configuration.write_text(f'{text}\n[gssapi]\nkeytab_file = "{kdc.folder}/http.keytab"\n\n[ipa]\ngssapi = true\n')
    with provider.running() as process:
        client = provider.register(
            grant_types=None,
            redirect_uris=None,
            post_logout_redirect_uris=None,
            scopes=["groups"],
            token_endpoint_auth_method="kerberos_client_auth",
            client_secret=None,
            kerberos_principal=f"{HOST}@{REALM}",
        )
        form = {"grant_type": "client_credentials", "client_id": client["client_id"]}
        yield [
            Door("sign-in by ticket (SPNEGO)", f"{provider.base_url}/ui/auth/login", 302, process.pid),
            Door("client_credentials by kerberos_client_auth", f"{provider.base_url}/token", 200, process.pid, form),
        ]


def used(pid: int) -> float:
    """CPU of a process and of its children that run."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(map(cpu_us, (pid, *map(int, children))))


def load(door: Door, people: Initiator, host: Initiator) -> Sample:
    """One round."""
    who = people if door.form is None else host
    headers = [who.negotiate() for _ in range(REQUESTS)]
    reference, before, began = reference_us(), used(door.pid), time.perf_counter()
    asyncio.run(_ask(door, headers))
    return Sample(cpu_us=used(door.pid) - before, seconds=time.perf_counter() - began, operations=REQUESTS, reference_us=reference)


async def _ask(door: Door, headers: list[str]) -> None:
    waiting = iter(headers)
    method = "GET" if door.form is None else "POST"

    async def caller(http: aiohttp.ClientSession) -> None:
        for header in waiting:
            sent = {"Authorization": header}
            async with http.request(method, door.url, data=door.form, headers=sent, allow_redirects=False) as answer:
                assert answer.status == door.status, await answer.text()

    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        await asyncio.gather(*(caller(http) for _ in itertools.repeat(None, CALLERS)))


def main() -> None:
    """All rows, whose rounds take turns."""
    missing = Kdc.missing() or ("" if APACHE and MOD_AUTH_GSSAPI.exists() else "apache2 libapache2-mod-auth-gssapi")
    if missing:
        sys.exit(f"apt install {missing}")
    with tempfile.TemporaryDirectory(prefix="gs-krb-", dir="/tmp") as name:
        folder = Path(name)
        for part in ("realm", "provider"):
            (folder / part).mkdir()
        with realm_in(folder / "realm") as kdc, guarded(kdc) as apache, ours(kdc, folder / "provider") as doors:
            alice, host = Initiator(kdc, "alice", password="alicepw"), Initiator(kdc, HOST, keytab="web1.keytab")
            every = [*doors, apache]
            rounds = [[load(door, alice, host) for door in every] for _ in range(ROUNDS + 1)][1:]
            for door, samples in zip(every, zip(*rounds, strict=True), strict=True):
                found = row(door.name, samples)
                spread = statistics.pstdev(sample.cpu_us / sample.operations for sample in samples)
                print(f"{door.name:<46}{found.cpu_us_per_op:8.0f} us CPU (+- {spread:.0f}){found.ops_per_s:8.0f}/s{found.ratio:8.1f} ref")


if __name__ == "__main__":
    main()
