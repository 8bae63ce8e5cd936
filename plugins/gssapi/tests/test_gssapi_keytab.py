"""The keytab of the service: absent, wrong, replaced; what the listener's certificate binds; what is read of the file."""

import hashlib
import shutil
import ssl
from contextlib import suppress
from datetime import UTC, datetime

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st
from rig.initiator import Initiator

from greatseal.api.kerberos import NotConfigured, Ready, Unusable
from greatseal.api.problems import StartProblem
from greatseal.api.services import NEGOTIATE
from greatseal.testing import FakeClock
from greatseal_gssapi import keytab
from greatseal_gssapi.binding import end_point


async def test_without_a_section_nothing_is_configured(kdc, door_of, alice):
    door = await door_of()

    assert door.host.service(NEGOTIATE).state == NotConfigured()
    assert (await door.ask(alice.negotiate())).status == 503
    assert (await door.ask()).json == {"absent": True}


async def test_a_keytab_that_comes_later_is_used(kdc, door_of, alice, tmp_path):
    late = tmp_path / "later.keytab"
    door = await door_of(late)
    negotiator = door.host.service(NEGOTIATE)

    assert negotiator.state == Unusable(reason=f"the keytab {late}: No such file or directory")
    refused = await door.ask(alice.negotiate())
    assert (refused.status, str(late) in str(refused.json)) == (503, False)
    assert any(str(late) in note for note in door.plugin.notes(door.gssapi))

    shutil.copy(kdc.folder / "http.keytab", late)

    assert (await door.ask(alice.negotiate())).status == 200
    assert negotiator.state == Ready()
    assert not door.plugin.notes(door.gssapi)

    late.unlink()
    assert (await door.ask(alice.negotiate())).status == 503


async def test_a_keytab_without_keys_of_the_service_is_unusable(kdc, door_of, alice):
    door = await door_of(kdc.folder / "bastion.keytab")

    state = door.host.service(NEGOTIATE).state

    assert isinstance(state, Unusable)
    assert "has no keys of HTTP" in state.reason
    assert (await door.ask(alice.negotiate())).status == 503


async def test_a_keytab_that_others_may_read_is_not_used(kdc, door_of, tmp_path):
    own = tmp_path / "open.keytab"
    shutil.copy(kdc.folder / "http.keytab", own)
    own.chmod(0o644)

    door = await door_of(own)

    assert "chmod 0600" in door.host.service(NEGOTIATE).state.reason
    own.chmod(0o640)
    assert door.host.service(NEGOTIATE).state == Ready()


async def test_a_keytab_that_is_replaced_while_it_serves_is_followed(kdc, door_of, tmp_path):
    own = tmp_path / "own.keytab"
    kdc.admin(f"addprinc -randkey HTTP/rekeyed.chancery.test\nktadd -k {own} HTTP/rekeyed.chancery.test\n")
    door, target = await door_of(own), "HTTP@rekeyed.chancery.test"
    assert (await door.ask(Initiator(kdc, "alice", password="alicepw").negotiate(target))).status == 200

    fresh = tmp_path / "fresh.keytab"
    kdc.admin(f"ktadd -k {fresh} HTTP/rekeyed.chancery.test\n")
    bob = Initiator(kdc, "bob", password="bobpw")
    assert (await door.ask(bob.negotiate(target))).status == 403
    fresh.replace(own)

    assert (await door.ask(bob.negotiate(target))).status == 200


async def test_a_credential_that_failed_is_tried_again(kdc, door_of, monkeypatch):
    clock = FakeClock()
    door = await door_of(kdc.folder / "http.keytab", clock=clock)
    negotiator = door.host.service(NEGOTIATE)
    (kdc.folder / "broken.conf").write_text("[libdefaults\n")
    with monkeypatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(kdc.folder / "broken.conf"))
        assert isinstance(negotiator.state, Unusable)
    assert isinstance(negotiator.state, Unusable)

    clock.advance(6)

    assert negotiator.state == Ready()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({}, "has no keys"),
        ({"keytab_file": "/x", "gssproxy": True}, "exclude each other"),
        ({"service_name": "HTTP/a", "gssproxy": True}, "service_name"),
    ],
)
async def test_a_section_that_says_nothing_usable_stops_the_start(door_of, section, said):
    with pytest.raises(StartProblem, match=said):
        await door_of(gssapi=section)


# ---- Channel bindings


@pytest.fixture
def certificate(tmp_path):
    authority = trustme.CA()
    own = authority.issue_cert("localhost")
    own.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    own.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o600)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return tmp_path, context, ssl.PEM_cert_to_DER_cert(own.cert_chain_pems[0].bytes().decode())


async def test_a_token_that_is_bound_to_another_certificate_is_refused(kdc, door_of, alice, certificate):
    folder, context, der = certificate
    door = await door_of(
        kdc.folder / "http.keytab", server={"tls_cert_file": str(folder / "cert.pem"), "tls_key_file": str(folder / "key.pem")}
    )
    door.url = door.url.replace("http:", "https:")

    own, other = end_point(der), b"tls-server-end-point:" + bytes(32)
    assert (await door.ask(alice.negotiate(binding=own), ssl=context)).status == 200
    assert (await door.ask(alice.negotiate(binding=other), ssl=context)).status == 403
    assert (await door.ask(alice.negotiate(), ssl=context)).status == 200


async def test_s085_behind_a_trusted_proxy_the_certificate_that_the_client_saw_is_not_ours(kdc, door_of, alice, certificate):
    folder, context, _ = certificate
    files = {"tls_cert_file": str(folder / "cert.pem"), "tls_key_file": str(folder / "key.pem")}
    door = await door_of(kdc.folder / "http.keytab", server={**files, "trusted_proxies": ["127.0.0.1/32"]})
    door.url = door.url.replace("http:", "https:")
    token = alice.negotiate(binding=b"tls-server-end-point:" + bytes(32))

    assert (await door.ask(token, more=[("X-Forwarded-For", "192.0.2.7")], ssl=context)).status == 200


async def test_without_tls_a_binding_says_nothing(door, alice):
    assert (await door.ask(alice.negotiate(binding=b"tls-server-end-point:" + bytes(32)))).status == 200


def signed(key, hash):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    return builder.sign(key, hash).public_bytes(Encoding.DER)


def test_the_digest_is_that_of_the_signature_rfc_5929_s4_1():
    for hash in (hashes.SHA256(), hashes.SHA384()):
        der = signed(ec.generate_private_key(ec.SECP384R1()), hash)
        assert end_point(der) == b"tls-server-end-point:" + hashlib.new(hash.name, der).digest()
    assert end_point(signed(ed25519.Ed25519PrivateKey.generate(), None)) is None
    assert end_point(b"no certificate") is None


# ---- What is read of the file


def test_the_entries_of_a_keytab(kdc):
    found = keytab.read(kdc.folder / "http.keytab")

    assert [(one.principal, one.type) for one in found] == [
        ("HTTP/localhost@CHANCERY.TEST", "aes256-cts-hmac-sha1-96"),
        ("HTTP/idp.chancery.test@CHANCERY.TEST", "aes256-cts-hmac-sha1-96"),
    ]
    assert {one.kvno for one in found} == {2}


@pytest.mark.parametrize("content", [b"", b"\x05\x01", b"\x05\x02\0\0", b"\x05\x02\0\0\0\x09abc", b"\x05\x02\0\0\0\x04\0\x01\0\x09"])
def test_what_is_no_keytab_says_so(content):
    with pytest.raises(ValueError, match=r"expected 0502|cut off"):
        keytab.parse(content)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content):
    with suppress(ValueError):
        assert isinstance(keytab.parse(b"\x05\x02" + content), list)
