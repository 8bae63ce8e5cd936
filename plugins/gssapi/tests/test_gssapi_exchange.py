"""Contexts, credentials and keytabs that no honest library, KDC or administrator gives."""

import struct
from types import SimpleNamespace

import pytest
from rig.realm import need_kerberos

from greatseal.api.kerberos import Unusable
from greatseal.api.problems import Unavailable
from greatseal.testing import FakeClock
from greatseal_gssapi import keytab, ticket_cache

NTLM = "1.3.6.1.4.1.311.2.2.10"
ANONYMOUS = 64


@pytest.fixture
def taken(monkeypatch):
    """Give :func:`greatseal_gssapi.exchange.accept` a context that the library accepted; the result is that of the leg."""
    need_kerberos()
    from greatseal_gssapi import exchange

    class Name:
        def __init__(self, given):
            self.attributes = given

        def __str__(self):
            return "alice@EXAMPLE.COM"

    def take(*, mech=exchange.KERBEROS.dotted_form, flags=0, attributes=None, more=False):
        mech = exchange.gssapi.OID.from_int_seq(mech)
        answer = SimpleNamespace(more_steps=more, mech=mech, flags=flags, token=b"t", initiator_name=attributes, context="c")
        monkeypatch.setattr(exchange.raw, "accept_sec_context", lambda *_, **__: answer)
        monkeypatch.setattr(exchange.gssapi, "Name", Name)
        return exchange.accept(None, b"x", None)

    return take


def indicators(*values, authenticated=True):
    return {b"auth-indicators": SimpleNamespace(values=frozenset(values), authenticated=authenticated)}


def test_s081_another_mechanism_than_kerberos_proves_nobody(taken):
    with pytest.raises(ValueError, match="only Kerberos"):
        taken(mech=NTLM)


def test_a_ticket_of_nobody_proves_nobody(taken):
    with pytest.raises(ValueError, match="anonymous"):
        taken(flags=ANONYMOUS | 2)
    assert taken(flags=2).principal == "alice@EXAMPLE.COM"


def test_nobody_is_named_before_the_last_leg(taken):
    leg = taken(more=True, mech=NTLM)

    assert (leg.principal, leg.context) == (None, "c")


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        (None, ()),
        ({}, ()),
        ({b"auth-indicators": None}, ()),
        (indicators(b"otp", authenticated=False), ()),
        (indicators(b"pkinit", b"otp"), ("otp", "pkinit")),
        (indicators(b"\xff"), ("\ufffd",)),
    ],
)
def test_r74_indicators_count_where_the_kdc_signed_them(taken, attributes, told):
    assert taken(attributes=attributes).indicators == told


# ---- Files


def entry(*, key=b"k" * 16, claimed=None):
    """An entry of host/a@R; ``claimed`` is how long it says that its key is."""
    parts = b"".join(struct.pack(">H", len(part)) + part for part in (b"R", b"host", b"a"))
    return struct.pack(">H", 2) + parts + struct.pack(">IIBHH", 1, 0, 3, 18, len(key) if claimed is None else claimed) + key


def file_of(record, *, longer=0):
    return keytab.VERSION + struct.pack(">i", len(record) + longer) + record


def test_an_entry_that_says_more_than_it_has_is_cut_off():
    assert [(one.principal, one.kvno) for one in keytab.parse(file_of(entry()))] == [("host/a@R", 3)]
    for content in (file_of(entry(), longer=1), file_of(entry(claimed=17)), file_of(entry(claimed=65_535))):
        with pytest.raises(ValueError, match="cut off"):
            keytab.parse(content)


def test_a_file_that_is_far_too_long_is_no_keytab(tmp_path):
    path = tmp_path / "keytab"
    path.write_bytes(keytab.VERSION + struct.pack(">i", -(keytab.LARGEST - 6)) + b"\0" * (keytab.LARGEST - 6))
    assert keytab.read(path) == []
    path.write_bytes(path.read_bytes() + b"\0" * 4)
    with pytest.raises(ValueError, match="more than"):
        keytab.read(path)


def test_a_cache_that_is_cut_off_is_told_from_one_without_a_ticket():
    empty = b"\x05\x04\0\0" + struct.pack(">II", 1, 0) + struct.pack(">I", 1) + b"R"

    with pytest.raises(ValueError, match="has no ticket"):
        ticket_cache.authtime(empty)
    for content in (empty[:-6], empty + b"\0\0\0\1", empty + b"\0"):
        with pytest.raises(ValueError, match="cut off"):
            ticket_cache.authtime(content)


# ---- A credential that goes while it is needed


class Going:
    """An acceptor's credential that is what is given first, and unusable after that."""

    def __init__(self, *first):
        self.first = list(first)

    def get(self):
        return self.first.pop(0) if self.first else Unusable(reason="it went")


def tickets_of(tmp_path, acceptor=None, *, content=None):
    need_kerberos()
    from greatseal_gssapi.settings import GssapiSettings
    from greatseal_gssapi.tickets import KerberosTickets

    path = tmp_path / "http.keytab"
    if content is not None:
        path.write_bytes(content)
    host = SimpleNamespace(base_url="https://idp.example", clock=SimpleNamespace(monotonic=lambda: 0.0))
    return KerberosTickets(host, GssapiSettings(keytab_file=path, service_name="HTTP"), acceptor)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "No such file"), (b"no keytab", "expected 0502"), (file_of(entry()), "no keys of HTTP")]
)
def test_without_a_key_of_its_own_the_service_has_no_name(tmp_path, content, said):
    with pytest.raises(Unavailable) as problem:
        tickets_of(tmp_path, content=content).own.name()
    assert said in problem.value.cause


def test_a_keytab_that_goes_is_the_reason_that_is_told(tmp_path):
    tickets = tickets_of(tmp_path, Going(), content=file_of(entry()))

    for do in (lambda: tickets.credentials("ldap@localhost"), lambda: tickets._prove(None, "alice@EXAMPLE.COM")):
        with pytest.raises(Unavailable) as problem:
            do()
        assert problem.value.cause == "it went"


def test_a_ticket_of_somebody_else_proves_no_password(tmp_path, monkeypatch):
    tickets = tickets_of(tmp_path, Going("held", "held"), content=file_of(entry()))
    from greatseal_gssapi import tickets as module

    monkeypatch.setattr(tickets.own, "name", lambda: None)
    monkeypatch.setattr(module.raw, "init_sec_context", lambda *_, **__: SimpleNamespace(token=b"x"))
    monkeypatch.setattr(module, "accept", lambda *_: SimpleNamespace(principal="alice@EXAMPLE.COM"))

    tickets._prove(None, "alice@EXAMPLE.COM")
    with pytest.raises(Unavailable) as problem:
        tickets._prove(None, "bob@EXAMPLE.COM")
    assert problem.value.cause == "the KDC gave a ticket of alice@EXAMPLE.COM for the password of bob@EXAMPLE.COM"


def test_a_credential_that_is_good_is_not_acquired_again(kdc):
    from greatseal_gssapi.credential import AcceptorCredential
    from greatseal_gssapi.settings import GssapiSettings

    clock = FakeClock()
    credential = AcceptorCredential(GssapiSettings(keytab_file=kdc.folder / "http.keytab"), clock.monotonic)
    first = credential.get()
    clock.advance(3_600)

    assert not isinstance(first, Unusable)
    assert credential.get() is first


def test_a_token_is_accepted_by_no_credential_that_went(taken):
    from greatseal_gssapi.acceptor import Acceptor

    host = SimpleNamespace(metrics=SimpleNamespace(counter=lambda *_: None))
    for credential, cause in ((Going(), "it went"), (None, "")):
        with pytest.raises(Unavailable) as problem:
            Acceptor(host, SimpleNamespace(max_token_bytes=100), credential)._take(b"x", None, None)
        assert problem.value.cause == cause


async def test_without_a_keytab_even_what_is_no_token_is_503(kdc, door_of, tmp_path):
    door = await door_of(tmp_path / "absent.keytab")

    assert (await door.ask("Negotiate ???")).status == 503
