"""The service as a client of a real KDC: its own tickets, and the passwords of people."""

import shutil
import socket

import gssapi
import pytest
from gssapi import raw
from rig.kdc import Kdc
from rig.realm import OURS

from greatseal.api.declarations import Secret
from greatseal.api.kerberos import PasswordVerdict
from greatseal.api.problems import Unavailable
from greatseal.api.services import TICKETS
from greatseal.testing import FakeClock
from greatseal_gssapi import tickets
from greatseal_gssapi.exchange import accept


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
        own.credentials()

    assert "CHANCERY.TEST" in refused.value.cause


async def test_a_kdc_that_is_silent_costs_a_sign_in_its_patience_and_no_more(own, tmp_path, monkeypatch):
    with socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        kdc = f"kdc = 127.0.0.1:{silent.getsockname()[1]}"
        (tmp_path / "krb5.conf").write_text(f"[libdefaults]\ndns_lookup_kdc = false\n[realms]\nCHANCERY.TEST = {{\n{kdc}\n}}\n")
        with monkeypatch.context() as patch:
            patch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
            patch.setattr(tickets, "PATIENCE", 0.2)
            with pytest.raises(Unavailable, match="try again") as refused:
                await own.password("alice@CHANCERY.TEST", Secret("alicepw"))

    assert "did not answer" in refused.value.cause


async def test_without_a_keytab_nothing_can_be_proven(kdc, door_of, tmp_path):
    for door in (await door_of(), await door_of(tmp_path / "absent.keytab")):
        own = door.host.service(TICKETS)
        with pytest.raises(Unavailable):
            own.credentials()
        with pytest.raises(Unavailable):
            await own.password("alice@CHANCERY.TEST", Secret("alicepw"))


def served(kdc, credential, target="HTTP@idp.chancery.test"):
    """Who a service sees."""
    sent = raw.init_sec_context(gssapi.Name(target, gssapi.NameType.hostbased_service), creds=credential)
    accepting = gssapi.Credentials(usage="accept", store={"keytab": f"FILE:{kdc.folder / 'http.keytab'}"})
    return accept(accepting, sent.token, None).principal


async def test_the_service_goes_to_others_by_its_own_name(kdc, own):
    first = own.credentials()

    assert served(kdc, first) == "HTTP/localhost@CHANCERY.TEST"
    assert own.credentials() is first


async def test_without_keys_of_its_host_the_first_of_the_service_is_its_name(kdc, door_of):
    door = await door_of(kdc.folder / "web1.keytab")

    assert served(kdc, door.host.service(TICKETS).credentials()) == "HTTP/web1.chancery.test@CHANCERY.TEST"


async def test_a_credential_is_renewed_before_its_end_and_with_another_keytab(kdc, door_of, tmp_path):
    keytab, clock = tmp_path / "own.keytab", FakeClock()
    shutil.copy(kdc.folder / "http.keytab", keytab)
    own = (await door_of(keytab, clock=clock)).host.service(TICKETS)
    first = own.credentials()

    clock.advance(first.lifetime - tickets.RENEWED - 5)
    assert own.credentials() is first
    clock.advance(10)
    second = own.credentials()
    assert second is not first

    shutil.copy(kdc.folder / "web1.keytab", keytab)
    assert served(kdc, own.credentials()) == "HTTP/web1.chancery.test@CHANCERY.TEST"


async def test_a_ticket_of_the_service_is_good_to_its_end_though_no_kdc_renews_it(kdc, door_of, tmp_path, monkeypatch):
    clock, away = FakeClock(), Kdc(tmp_path)
    own = (await door_of(kdc.folder / "http.keytab", clock=clock)).host.service(TICKETS)
    first = own.credentials()
    with monkeypatch.context() as patch:
        patch.setenv("KRB5_CONFIG", away.environ["KRB5_CONFIG"])
        clock.advance(first.lifetime - tickets.RENEWED + 5)
        assert own.credentials() is first
        clock.advance(tickets.RENEWED)
        for _ in range(2):
            with pytest.raises(Unavailable) as refused:
                own.credentials()
            assert "CHANCERY.TEST" in refused.value.cause

    clock.advance(tickets.AGAIN)
    assert own.credentials() is not first


async def test_keys_that_the_kdc_changed_are_named_as_the_reason(kdc, door_of, tmp_path):
    old, new = tmp_path / "old.keytab", tmp_path / "new.keytab"
    kdc.admin(
        f"addprinc -randkey HTTP/moved.chancery.test\nktadd -k {old} HTTP/moved.chancery.test\nktadd -k {new} HTTP/moved.chancery.test\n"
    )
    own = (await door_of(old)).host.service(TICKETS)

    with pytest.raises(Unavailable) as refused:
        own.credentials()

    assert "export it again" in refused.value.cause
    new.replace(old)
    assert served(kdc, own.credentials()) == "HTTP/moved.chancery.test@CHANCERY.TEST"
