"""What doctor says of Kerberos, with a real KDC: each fault names its cure."""

import socket
import time
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.kdc import Kdc

from greatseal.testing import FakeClock
from greatseal_gssapi import doctor, keytab
from greatseal_gssapi.ticket_cache import authtime

REALM = {"realm": "CHANCERY.TEST"}


async def told(door):
    """Every line, by its name."""
    checks = door.plugin.checks(door.gssapi)
    assert not any(check.ready for check in checks)
    return {check.name: await check.run() for check in checks}


async def test_all_is_well(kdc, door_of):
    said = await told(await door_of(kdc.folder / "http.keytab", server=REALM))

    assert {name: result.ok for name, result in said.items()} == {"kerberos keytab": True, "kerberos kdc": True, "kerberos name": True}
    assert "HTTP/localhost@CHANCERY.TEST (kvno 2, aes256-cts-hmac-sha1-96)" in said["kerberos keytab"].detail
    assert said["kerberos kdc"].detail == "it gave HTTP/localhost@CHANCERY.TEST a ticket, and has the same keys and time"


async def test_without_a_section_there_is_nothing_to_say(kdc, door_of):
    (only,) = (await told(await door_of())).values()

    assert (only.ok, only.detail) == (True, "[gssapi] is not configured")


async def test_a_keytab_that_is_not_there(kdc, door_of, tmp_path):
    said = await told(await door_of(tmp_path / "absent.keytab", server=REALM))

    assert (said["kerberos keytab"].ok, said["kerberos kdc"].ok) == (False, False)
    assert "No such file" in said["kerberos keytab"].cause


async def test_a_keytab_of_another_host(kdc, door_of):
    said = await told(await door_of(kdc.folder / "web1.keytab", server=REALM))

    assert not said["kerberos keytab"].ok
    assert "clients ask for a ticket for HTTP/localhost, and the keytab has keys of" in said["kerberos keytab"].detail


async def test_a_keytab_of_another_realm_than_that_of_the_service(kdc, door_of):
    said = await told(await door_of(kdc.folder / "http.keytab"))

    assert said["kerberos keytab"].detail == '[server] realm is LOCALHOST, and the keytab is of CHANCERY.TEST: set realm = "CHANCERY.TEST"'


async def test_keys_of_weak_types_alone(kdc, door_of, monkeypatch):
    door = await door_of(kdc.folder / "http.keytab", server=REALM)
    monkeypatch.setattr(doctor.keytabs, "read", lambda _: [keytab.Entry("HTTP/localhost@CHANCERY.TEST", 2, 23)])

    assert "weak types alone (arcfour-hmac)" in (await told(door))["kerberos keytab"].detail


async def test_keys_that_the_kdc_changed(kdc, door_of, tmp_path):
    folder = tmp_path / "realm"
    folder.mkdir()
    with Kdc(folder).running():  # its keys are of no use to the KDC that is asked
        said = await told(await door_of(folder / "http.keytab", server=REALM))

    assert (said["kerberos kdc"].ok, "export it again" in said["kerberos kdc"].cause) == (False, True)


async def test_a_kdc_that_is_away(kdc, door_of, tmp_path, monkeypatch):
    away = Kdc(tmp_path)
    monkeypatch.setenv("KRB5_CONFIG", away.environ["KRB5_CONFIG"])

    said = await told(await door_of(kdc.folder / "http.keytab", server=REALM))

    assert not said["kerberos kdc"].ok
    assert "Cannot contact any KDC" in said["kerberos kdc"].cause


@pytest.mark.parametrize(("hours", "side"), [(1, "ahead of"), (-1, "behind")])
async def test_a_clock_that_is_an_hour_off(kdc, door_of, hours, side):
    clock = FakeClock(time.time_ns() // 1000 + hours * 3_600_000_000)

    said = await told(await door_of(kdc.folder / "http.keytab", server=REALM, clock=clock))

    assert not said["kerberos kdc"].ok
    assert f" s {side} that of the KDC: set it right" in said["kerberos kdc"].detail


@pytest.mark.parametrize(
    ("behind", "ok", "detail"),
    [
        ("localhost", True, "clients ask for HTTP/localhost"),
        ("idp.chancery.test", True, "localhost is an alias of idp.chancery.test, and the keytab has keys of both"),
        ("farm.chancery.test", False, "add HTTP/farm.chancery.test to the keytab too"),
        (None, False, "DNS has no localhost, the host of base_url"),
    ],
)
async def test_the_name_that_browsers_ask_for(kdc, door_of, monkeypatch, behind, ok, detail):
    door = await door_of(kdc.folder / "http.keytab", server=REALM)
    (check,) = (check for check in door.plugin.checks(door.gssapi) if check.name == "kerberos name")

    def resolve(name, port, flags):
        if behind is None:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, behind, ("127.0.0.1", 0))]

    monkeypatch.setattr(doctor.socket, "getaddrinfo", resolve)
    said = await check.run()

    assert (said.ok, detail in said.detail) == (ok, True)


async def test_who_does_not_answer_is_waited_for_a_while_alone(kdc, door_of, monkeypatch):
    monkeypatch.setattr(doctor, "PATIENCE", 0.01)
    door, done = await door_of(kdc.folder / "http.keytab", server=REALM), Event()
    (check,) = (check for check in door.plugin.checks(door.gssapi) if check.name == "kerberos name")
    monkeypatch.setattr(doctor.socket, "getaddrinfo", lambda *_args, **_more: done.wait(30))

    said = await check.run()
    done.set()

    assert (said.ok, "in time" in said.detail) == (False, True)


@given(st.binary(max_size=200))
def test_a_cache_that_cannot_be_read_is_refused(content):
    with pytest.raises(ValueError, match="cache"):
        authtime(b"\x05\x04" + content[:150])
    with pytest.raises(ValueError, match="version 4"):
        authtime(content[:1])
