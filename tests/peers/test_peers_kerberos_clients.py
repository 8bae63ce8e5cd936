"""Unmodified clients of Kerberos against a real KDC: curl and requests-gssapi get tokens with the keytab of a host."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from rig.kdc import REALM, Kdc
from rig.people import write_users
from rig.realm import need_kerberos, realm_in

from greatseal.testing.desk import Desk, forgetful
from greatseal.testing.service import document, serve

HOST = f"host/web1.chancery.test@{REALM}"
PASSWORD = "correct horse battery"
GROUPS = {"grant_type": "client_credentials", "scope": "groups"}
REQUESTS = """
import json, sys
import requests
from requests_gssapi import REQUIRED, HTTPSPNEGOAuth

auth = HTTPSPNEGOAuth(mutual_authentication=REQUIRED, opportunistic_auth=len(sys.argv) > 2)
answer = requests.post(sys.argv[1], data=json.load(sys.stdin), auth=auth, timeout=30)
print(json.dumps([answer.status_code, answer.json()]))
"""


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    need_kerberos()
    with realm_in(tmp_path_factory.mktemp("realm")) as kdc:
        yield kdc


@pytest.fixture
async def desk(kdc: Kdc, tmp_path: Path) -> AsyncIterator[Desk]:
    users = write_users(tmp_path / "users.toml", PASSWORD, {"admin": {}})
    config = document(
        tmp_path,
        ["idp", "users-file", "client-auth-kerberos", "hbac", "gssapi"],
        users={"file": str(users)},
        rbac={"role": [{"name": "admin", "permissions": ["*"], "users": ["admin"]}]},
        gssapi={"keytab_file": str(kdc.folder / "http.keytab")},
        ipa={"gssapi": True},
    )
    async with serve(config) as service, forgetful() as http:
        yield Desk(service, http)


async def made(desk: Desk, **fields: Any) -> str:
    body = {"client_name": "Hosts", "scopes": ["groups"], "token_endpoint_auth_method": "kerberos_client_auth", **fields}
    cookie = (await desk.login("admin", PASSWORD)).cookie
    answer = await desk.post("/api/admin/clients", cookie=cookie, json=body)
    assert answer.status == 201, answer.text
    return str(answer.json["client_id"])


async def run(*command: str, environ: dict[str, str], stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """A program beside the service, which runs in this process."""
    return await asyncio.to_thread(
        subprocess.run, command, env=environ, input=stdin, check=False, capture_output=True, text=True, timeout=60
    )


async def curl(desk: Desk, path: str, form: dict[str, str], environ: dict[str, str]) -> tuple[int, dict[str, Any]]:
    if shutil.which("curl") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("curl is not installed: apt install curl")
    fields = [part for name, value in form.items() for part in ("--data-urlencode", f"{name}={value}")]
    done = await run(
        "curl",
        "--silent",
        "--show-error",
        "--negotiate",
        "--user",
        ":",
        "--write-out",
        "\n%{http_code}",
        *fields,
        desk.url.replace("127.0.0.1", "localhost") + path,
        environ=environ,
    )
    assert done.returncode == 0, done.stderr
    body, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(body) if body else {}


def by_keytab(kdc: Kdc) -> dict[str, str]:
    """The library gets the ticket itself when it is needed."""
    return {**kdc.environ, "KRB5_CLIENT_KTNAME": str(kdc.folder / "web1.keytab"), "KRB5CCNAME": f"FILE:{kdc.folder / 'cc-from-keytab'}"}


async def test_idp_346_curl_gets_a_token_with_the_keytab_of_a_host(kdc: Kdc, desk: Desk) -> None:
    client_id = await made(desk, kerberos_principal=HOST)
    environ = kdc.ticket_for(HOST, keytab="web1.keytab", cache="cc-web1")

    status, got = await curl(desk, "/token", GROUPS, environ)
    looked, found = await curl(desk, "/introspect", {"token": got["access_token"]}, environ)

    assert (status, looked, found["sub"], found["client_id"]) == (200, 200, client_id, client_id)
    assert [(one.sub, one.client_id, one.detail) for one in await desk.events("kerberos_client_auth")] == [(HOST, client_id, "groups")]
    assert (await curl(desk, "/token", GROUPS, by_keytab(kdc)))[0] == 200
    assert (await curl(desk, "/token", {**GROUPS, "scope": "nothing"}, environ))[1]["error"] == "invalid_scope"


async def test_idp_350_the_template_of_all_hosts_and_somebody_elses_ticket(kdc: Kdc, desk: Desk) -> None:
    client_id = await made(desk, kerberos_principal_pattern=f"host/*@{REALM}")
    host, alice = by_keytab(kdc), kdc.ticket_for("alice", password="alicepw", cache="cc-alice")

    status, got = await curl(desk, "/token", GROUPS, host)
    _, found = await curl(desk, "/introspect", {"token": got["access_token"]}, host)
    refused, problem = await curl(desk, "/token", {**GROUPS, "client_id": client_id}, alice)

    assert (status, found["sub"], found["client_id"]) == (200, HOST, client_id)
    assert (refused, problem["error"]) == (401, "invalid_client")


@pytest.mark.parametrize("how", [(), ("opportunistic",)], ids=["asked", "opportunistic"])
async def test_requests_gssapi_believes_answers_and_refusals(kdc: Kdc, desk: Desk, how: tuple[str, ...]) -> None:
    pytest.importorskip("requests_gssapi")
    await made(desk, kerberos_principal=HOST)
    await made(desk, kerberos_principal=f"HTTP/web1.chancery.test@{REALM}", kerberos_hbac_service="idp")
    url = desk.url.replace("127.0.0.1", "localhost") + "/token"

    for principal, form, expected in (
        (HOST, GROUPS, 200),
        (HOST, {**GROUPS, "scope": "nothing"}, 400),
        (f"HTTP/web1.chancery.test@{REALM}", GROUPS, 403),
    ):
        environ = kdc.ticket_for(principal, keytab="web1.keytab", cache="cc-requests")
        done = await run(sys.executable, "-c", REQUESTS, url, *how, environ=environ, stdin=json.dumps(form))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[0] == expected, done.stdout
