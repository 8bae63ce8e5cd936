"""A realm, and a service that says who came."""

from types import SimpleNamespace

import aiohttp
import pytest
from rig.realm import need_kerberos, realm_in

from greatseal.testing.distributions import install

WHO = """
from greatseal import hookimpl
from greatseal.api.http import Handler, Reply, Route
from greatseal.api.identity import Continue
from greatseal.api.kerberos import Absent
from greatseal.api.services import NEGOTIATE, TICKETS


class Plugin:
    requires = (NEGOTIATE, TICKETS)

    @hookimpl
    def routes(self, host):
        async def who(call):
            match found := await host.service(NEGOTIATE).accept(call):
                case Absent():
                    return Reply.json({"absent": True}, status=401)
                case Continue(headers=headers):
                    return Reply.empty(401).with_headers(*headers)
            told = {"principal": found.principal, "indicators": found.indicators}
            return Reply.json(told).with_headers(*found.headers)

        return [Route("GET", "/who", who, auth=Handler("the ticket proves the caller"))]
"""


@pytest.fixture(scope="module")
def kdc(tmp_path_factory):
    need_kerberos()
    with realm_in(tmp_path_factory.mktemp("realm")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def alice(kdc):
    from rig.initiator import Initiator

    return Initiator(kdc, "alice", password="alicepw")


class Door:
    """The service, asked by one client: a connection for each, or one that stays."""

    def __init__(self, service, http):
        self.service = service
        self.url = f"{service.url}/who"
        self._http = http
        self.host = service.host("who")
        self.gssapi = service.host("gssapi")
        self.plugin = service.kernel.hooks.instances["gssapi"]

    async def ask(self, *authorizations, more=(), **options):
        headers = [("Authorization", one) for one in authorizations] + list(more)
        async with self._http.get(self.url, headers=headers, **options) as answer:
            body = await answer.read()
            told = await answer.json() if body else {}
            return SimpleNamespace(
                status=answer.status, json=told, answer=answer.headers.get("WWW-Authenticate", ""), headers=answer.headers
            )


@pytest.fixture
async def door_of(start_service, tmp_path, monkeypatch):
    """Start the service with sections, by default with the keytab of HTTP."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    feature = install(folder, "greatseal-who", WHO)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as http:

        async def start(keytab=None, *, gssapi=None, clock=None, **sections):
            section = {"keytab_file": str(keytab), **(gssapi or {})} if keytab else gssapi
            more = {"gssapi": section} if section is not None else {}
            return Door(await start_service("gssapi", feature, clock=clock, **more, **sections), http)

        yield start


@pytest.fixture
async def door(kdc, door_of):
    return await door_of(kdc.folder / "http.keytab")
