"""A directory that the service reads by its own ticket, and passwords that the KDC checks: one realm, in a KDC and in slapd."""

import asyncio
import time

import pytest
import structlog
from rig.realm import need_kerberos, realm_in, silent
from rig.slapd import REALM, SUFFIX

from greatseal.testing.desk import Desk, forgetful


@pytest.fixture(scope="module")
def kdc(tmp_path_factory):
    need_kerberos()
    with realm_in(tmp_path_factory.mktemp("realm")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def slapd(kdc, make_slapd):
    with make_slapd(environ=kdc.environ, keytab=kdc.folder / "ldap.keytab") as slapd:
        yield slapd


@pytest.fixture
def start(kdc, slapd, start_service):
    async def begin(**more):
        gssapi = {"keytab_file": str(kdc.folder / "http.keytab"), "service_name": "HTTP@idp.chancery.test"}
        ipa = {"ldap_uri": slapd.uri, "base_dn": SUFFIX, "start_tls": False, "gssapi": True, **more}
        return await start_service("idp", "gssapi", "ipa", server={"realm": REALM}, gssapi=gssapi, ipa=ipa)

    return begin


async def test_the_service_reads_by_its_own_ticket(start):
    service = await start()
    async with forgetful() as http:
        desk = Desk(service, http)

        assert (await desk.login("alice", "alicepw")).status == 200
        assert (await desk.login("alice", "wrong")).status == 401


async def test_a_ticket_that_cannot_be_had_is_an_outage_with_its_reason_for_the_operator(start, kdc):
    service = await start()
    hidden = kdc.folder / "hidden"
    (kdc.folder / "http.keytab").rename(hidden)
    try:
        async with forgetful() as http:
            answer = await Desk(service, http).login("alice", "alicepw")
    finally:
        hidden.rename(kdc.folder / "http.keytab")

    assert answer.outcome == (503, "unavailable")
    assert "keytab" not in answer.text


async def test_f14_a_kdc_that_swallows_what_it_is_asked_is_an_outage_of_seconds_and_no_thread_waits_for_it(start, kdc, monkeypatch):
    from greatseal_gssapi import own

    monkeypatch.setattr(own, "PATIENCE", 0.3)
    monkeypatch.setattr(own, "AGAIN", 0.1)
    service = await start()
    pool = service.kernel.hooks.instances["ipa"]._assembly.pool
    async with forgetful() as http:
        desk = Desk(service, http)
        with silent(kdc), structlog.testing.capture_logs() as lines:
            began = time.monotonic()
            away = await asyncio.gather(*(desk.login(name, f"{name}pw") for name in ("alice", "bob", "carol", "erin", "frank", "grace")))
            assert time.monotonic() - began < 5
        deadline = time.monotonic() + 60
        while pool.servers.down():
            await pool.look()
            assert time.monotonic() < deadline
        back = await desk.login("alice", "alicepw")

    assert {answer.outcome for answer in away} == {(503, "unavailable")}
    (told,) = [line for line in lines if line["event"] == "a server of the directory is not asked"]
    assert "no Kerberos ticket of the service itself: no KDC answered" in told["cause"]
    assert "krb5.conf" in told["cause"]
    assert back.status == 200


@pytest.mark.parametrize(
    ("username", "password", "outcome"),
    [
        ("alice", "alicepw", (200, "")),
        ("alice", "wrong", (401, "invalid_credentials")),
        ("carol", "carolpw", (403, "password_expired")),
        ("carol", "wrong", (401, "invalid_credentials")),
        ("frank", "frankpw", (401, "invalid_credentials")),  # the KDC says locked before it looks at the password
        ("erin", "erinpw", (401, "invalid_credentials")),  # is in the directory alone
        ("nobody", "x", (401, "invalid_credentials")),
    ],
)
async def test_a_cell_of_the_table_by_a_real_kdc(start, username, password, outcome):
    service = await start(password="kinit")
    async with forgetful() as http:
        answer = await Desk(service, http).login(username, password)

    assert (answer.status, "" if answer.status == 200 else answer.error) == outcome
