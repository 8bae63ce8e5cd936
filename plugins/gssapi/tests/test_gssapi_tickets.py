"""The service as a client of a real KDC: its own tickets, and the passwords of people."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import gssapi
import pytest
from gssapi import raw
from rig.kdc import Kdc
from rig.realm import OURS, silent

from greatseal.api.declarations import Secret
from greatseal.api.kerberos import PasswordVerdict
from greatseal.api.problems import Unavailable
from greatseal.api.services import TICKETS
from greatseal.testing import FakeClock
from greatseal_gssapi import own as own_tickets
from greatseal_gssapi import tickets
from greatseal_gssapi.exchange import accept

HTTP, LDAP = "HTTP@idp.chancery.test", "ldap@localhost"


@pytest.fixture
def own(door):
    return door.host.service(TICKETS)


VERDICTS = [
    ("alice", "alicepw", PasswordVerdict.RIGHT),
    ("alice", "wrong", PasswordVerdict.WRONG),
    ("alice", "", PasswordVerdict.WRONG),
    ("alice", "alicepw\0", PasswordVerdict.WRONG),
    ("alice", "alicepw\0more", PasswordVerdict.WRONG),
    ("alice", "\0", PasswordVerdict.WRONG),
    ("alice", "x" * 1025, PasswordVerdict.WRONG),
    ("nobody", "alicepw", PasswordVerdict.UNKNOWN),
    ("carol", "carolpw", PasswordVerdict.EXPIRED),
    ("frank", "frankpw", PasswordVerdict.REVOKED),
    ("gina", "ginapw", PasswordVerdict.ACCOUNT_EXPIRED),
]


@pytest.mark.parametrize(("name", "password", "verdict"), VERDICTS)
async def test_what_the_kdc_says_of_a_password(own, name, password, verdict):
    assert await own.password(f"{name}@CHANCERY.TEST", Secret(password)) is verdict


async def test_without_preauthentication_a_wrong_password_is_wrong_too(kdc, own):
    kdc.admin("addprinc -requires_preauth -pw openpw open\n")

    assert await own.password("open@CHANCERY.TEST", Secret("openpw")) is PasswordVerdict.RIGHT
    assert await own.password("open@CHANCERY.TEST", Secret("wrong")) is PasswordVerdict.WRONG


@pytest.mark.parametrize(
    "principal", ["", "alice", "@CHANCERY.TEST", "alice@", "al\0ice@CHANCERY.TEST", "a" * 2000 + "@CHANCERY.TEST", "a\\b@R"]
)
async def test_what_is_no_principal_is_unknown(own, principal):
    assert await own.password(principal, Secret("x")) is PasswordVerdict.UNKNOWN


async def test_a_realm_without_a_kdc_cannot_be_asked(own):
    with pytest.raises(Unavailable):
        await own.password("alice@EVIL.TEST", Secret("x"))


async def test_a_kdc_that_does_not_know_our_key_is_not_believed(kdc, own, tmp_path, monkeypatch):
    forged = Kdc(tmp_path)
    with forged.running(), monkeypatch.context() as patch:
        forged.admin("cpw -pw forged alice\n")
        for name in OURS:
            patch.setenv(name, forged.environ[name])

        with pytest.raises(Unavailable) as refused:
            await own.password("alice@CHANCERY.TEST", Secret("forged"))

    assert "its ticket for this service is not accepted" in refused.value.cause
    assert await own.password("alice@CHANCERY.TEST", Secret("forged")) is PasswordVerdict.WRONG


async def test_a_kdc_that_is_away_cannot_be_asked(kdc, own, tmp_path, monkeypatch):
    away = Kdc(tmp_path)
    monkeypatch.setenv("KRB5_CONFIG", away.environ["KRB5_CONFIG"])

    with pytest.raises(Unavailable, match="try again") as refused:
        await own.password("alice@CHANCERY.TEST", Secret("alicepw"))
    with pytest.raises(Unavailable):
        own.credentials(HTTP)

    assert "CHANCERY.TEST" in refused.value.cause


async def test_a_kdc_that_is_silent_costs_a_sign_in_its_patience_and_no_more(kdc, own, monkeypatch):
    with silent(kdc), monkeypatch.context() as patch:
        patch.setattr(tickets, "PATIENCE", 0.2)
        with pytest.raises(Unavailable, match="try again") as refused:
            await own.password("alice@CHANCERY.TEST", Secret("alicepw"))

    assert "did not answer" in refused.value.cause


async def test_without_a_keytab_nothing_can_be_proven(kdc, door_of, tmp_path):
    reasons = {None: "[gssapi] is not configured", tmp_path / "absent.keytab": "No such file"}
    for keytab, reason in reasons.items():
        own = (await door_of(*filter(None, [keytab]))).host.service(TICKETS)
        with pytest.raises(Unavailable) as refused:
            own.credentials(HTTP)
        assert reason in refused.value.cause
        with pytest.raises(Unavailable) as refused:
            await own.password("alice@CHANCERY.TEST", Secret("alicepw"))
        assert reason in refused.value.cause


def served(kdc, credential, target="HTTP@idp.chancery.test"):
    """Who a service sees."""
    sent = raw.init_sec_context(gssapi.Name(target, gssapi.NameType.hostbased_service), creds=credential)
    accepting = gssapi.Credentials(usage="accept", store={"keytab": f"FILE:{kdc.folder / 'http.keytab'}"})
    return accept(accepting, sent.token, None).principal


async def test_the_service_goes_to_others_by_its_own_name(kdc, own):
    first = own.credentials(HTTP)

    assert served(kdc, first) == "HTTP/localhost@CHANCERY.TEST"
    assert own.credentials(HTTP) is first


async def test_without_keys_of_its_host_the_first_of_the_service_is_its_name(kdc, door_of):
    door = await door_of(kdc.folder / "web1.keytab")

    assert served(kdc, door.host.service(TICKETS).credentials(HTTP)) == "HTTP/web1.chancery.test@CHANCERY.TEST"


async def test_a_credential_is_renewed_before_its_end_and_with_another_keytab(kdc, door_of, tmp_path):
    keytab, clock = tmp_path / "own.keytab", FakeClock()
    shutil.copy(kdc.folder / "http.keytab", keytab)
    own = (await door_of(keytab, clock=clock)).host.service(TICKETS)
    first = own.credentials(HTTP)

    clock.advance(first.lifetime - own_tickets.RENEWED - 5)
    assert own.credentials(HTTP) is first
    clock.advance(10)
    second = own.credentials(HTTP)
    assert second is not first

    shutil.copy(kdc.folder / "web1.keytab", keytab)
    assert served(kdc, own.credentials(HTTP)) == "HTTP/web1.chancery.test@CHANCERY.TEST"


async def test_a_ticket_of_the_service_is_good_to_its_end_though_no_kdc_renews_it(kdc, door_of, tmp_path, monkeypatch):
    clock, away = FakeClock(), Kdc(tmp_path)
    own = (await door_of(kdc.folder / "http.keytab", clock=clock)).host.service(TICKETS)
    first = own.credentials(HTTP)
    with monkeypatch.context() as patch:
        patch.setenv("KRB5_CONFIG", away.environ["KRB5_CONFIG"])
        clock.advance(first.lifetime - own_tickets.RENEWED + 5)
        assert own.credentials(HTTP) is first
        clock.advance(own_tickets.RENEWED)
        for _ in range(2):
            with pytest.raises(Unavailable) as refused:
                own.credentials(HTTP)
            assert "CHANCERY.TEST" in refused.value.cause

    clock.advance(own_tickets.AGAIN)
    assert own.credentials(HTTP) is not first


def asked(own, service):
    """What a caller gets, and how long it waited."""
    began = time.monotonic()
    try:
        return own.credentials(service), time.monotonic() - began
    except Unavailable as problem:
        return problem.cause, time.monotonic() - began


def under_way():
    return [one for one in threading.enumerate() if one.name == "gssapi-own"]


def until_under_way():
    deadline = time.monotonic() + 60
    while not under_way():
        assert time.monotonic() < deadline
        time.sleep(0.001)


async def test_a_kdc_that_swallows_what_it_is_asked_holds_nobody_up(kdc, own, monkeypatch):
    monkeypatch.setattr(own_tickets, "PATIENCE", 0.3)
    monkeypatch.setattr(own_tickets, "AGAIN", 0.1)
    other = own.credentials(LDAP)
    with silent(kdc):
        with ThreadPoolExecutor(8) as callers:
            found = list(callers.map(lambda _: asked(own, HTTP), range(8)))
        late = asked(own, HTTP)

        assert all("no KDC answered" in cause and "krb5.conf" in cause and waited < 5 for cause, waited in [*found, late])
        assert late[1] < 0.2
        assert len(under_way()) == 1
        assert own.credentials(LDAP) is other
    for one in under_way():
        one.join(60)  # its connection was cut

    assert served(kdc, eventually(own, HTTP)) == "HTTP/localhost@CHANCERY.TEST"


def eventually(own, service):
    """A caller who comes again as long as nobody answers."""
    deadline = time.monotonic() + 60
    while isinstance(found := asked(own, service)[0], str):
        assert time.monotonic() < deadline, found
    return found


async def test_a_ticket_that_is_still_good_is_used_while_a_silent_kdc_is_asked_for_the_next(kdc, door_of, monkeypatch):
    monkeypatch.setattr(own_tickets, "PATIENCE", 0.3)
    clock = FakeClock()
    own = (await door_of(kdc.folder / "http.keytab", clock=clock)).host.service(TICKETS)
    first = own.credentials(HTTP)
    with silent(kdc):
        clock.advance(first.lifetime - own_tickets.RENEWED + 5)
        found = [asked(own, HTTP) for _ in range(3)]
        assert [one for one, _ in found] == [first] * 3
        assert all(waited < 0.2 for _, waited in found[1:])
        assert len(under_way()) == 1
    for one in under_way():
        one.join(60)


async def test_nobody_but_the_first_waits_for_a_silent_kdc_while_the_ticket_is_still_good(kdc, door_of, monkeypatch):
    monkeypatch.setattr(own_tickets, "PATIENCE", 60.0)
    clock = FakeClock()
    own = (await door_of(kdc.folder / "http.keytab", clock=clock)).host.service(TICKETS)
    first = own.credentials(HTTP)
    with ThreadPoolExecutor(2) as callers:
        with silent(kdc):
            clock.advance(first.lifetime - own_tickets.RENEWED + 5)
            waiting = callers.submit(own.credentials, HTTP)
            until_under_way()

            assert callers.submit(own.credentials, HTTP).result(timeout=10) is first
            assert not waiting.done()
        assert waiting.result() is first


async def test_whoever_has_the_credentials_asks_no_kdc(kdc, own, tmp_path, monkeypatch):
    credentials = own.credentials(LDAP)

    monkeypatch.setenv("KRB5_CONFIG", Kdc(tmp_path).environ["KRB5_CONFIG"])
    assert raw.init_sec_context(gssapi.Name(LDAP, gssapi.NameType.hostbased_service), creds=credentials).token
    with pytest.raises(raw.GSSError):
        raw.init_sec_context(gssapi.Name("host@web1.chancery.test", gssapi.NameType.hostbased_service), creds=credentials)


async def test_a_server_that_the_kdc_does_not_know_is_named_with_what_to_do(own):
    with pytest.raises(Unavailable) as refused:
        own.credentials("ldap@nowhere.chancery.test")

    assert "ldap/nowhere.chancery.test@CHANCERY.TEST not found" in refused.value.cause
    assert "has to name the server as the KDC does" in refused.value.cause


async def test_tickets_are_kept_for_so_many_services(own, monkeypatch):
    monkeypatch.setattr(own_tickets, "MOST_SERVICES", 1)
    first = own.credentials(HTTP)
    own.credentials(LDAP)

    assert own.credentials(HTTP) is not first


async def test_a_mistake_of_ours_is_told_to_who_waits(own, monkeypatch):
    def broken(_self):
        raise RuntimeError("broken")

    monkeypatch.setattr(own_tickets.OwnTickets, "name", broken)
    with pytest.raises(Unavailable) as refused:
        own.credentials(HTTP)

    assert refused.value.cause == "RuntimeError: broken"


async def test_keys_that_the_kdc_changed_are_named_as_the_reason(kdc, door_of, tmp_path):
    old, new = tmp_path / "old.keytab", tmp_path / "new.keytab"
    kdc.admin(
        f"addprinc -randkey HTTP/moved.chancery.test\nktadd -k {old} HTTP/moved.chancery.test\nktadd -k {new} HTTP/moved.chancery.test\n"
    )
    own = (await door_of(old)).host.service(TICKETS)

    with pytest.raises(Unavailable) as refused:
        own.credentials(HTTP)

    assert "export it again" in refused.value.cause
    new.replace(old)
    assert served(kdc, own.credentials(HTTP)) == "HTTP/moved.chancery.test@CHANCERY.TEST"
