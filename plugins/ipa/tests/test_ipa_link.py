"""What lies under ldap3, without a server: channel bindings, credentials that are copied, controls of a password policy."""

import re
import socket
import ssl
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal_ipa.ldap3_link import Ldap3, Ldap3Link, _copied, _Line, _policy
from greatseal_ipa.library import Down, NoTicket, Query, Server, Terms, Unusable


def certificate(key, hash):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    return builder.sign(key, hash).public_bytes(Encoding.DER)


def secured(found):
    """A line over TLS with a server of this certificate."""

    class Secure(ssl.SSLSocket):
        def getpeercert(self, binary_form=False):
            assert binary_form
            return found

    return _Line(Secure.__new__(Secure), 100)


def test_rfc_5929_s4_1_a_bind_is_bound_to_the_certificate_where_that_has_a_hash():
    hashed = certificate(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())

    assert secured(hashed).getpeercert(True) == hashed
    for found in (certificate(ed25519.Ed25519PrivateKey.generate(), None), None):
        with pytest.raises(ValueError, match="channel bindings"):
            secured(found).getpeercert(True)
    with socket.socket() as plain, pytest.raises(ValueError, match="no TLS"):
        _Line(plain, 100).getpeercert(True)


def test_credentials_are_copied_and_those_of_the_process_are_none():
    class Credentials:
        def __init__(self, token):
            self.token = token

        def export(self):
            return self.token

    own = Credentials(b"handle")

    assert _copied(own) is not own
    assert _copied(own).token == b"handle"
    assert _copied(None) is None


@pytest.mark.parametrize(
    ("value", "policy"),
    [
        (None, None),
        (b"", None),
        (bytes.fromhex("3000"), None),
        (bytes.fromhex("3003810100"), 0),
        (bytes.fromhex("3003810102"), 2),
        (bytes.fromhex("3005a003800105"), None),  # a warning: seconds until it expires
        (bytes.fromhex("3008a003800105810101"), 1),
        (bytes.fromhex("3005a003810105"), 0),  # a warning: binds that are left to an expired password
        (bytes.fromhex("3008a003810105810102"), 2),
        (bytes.fromhex("3002a000"), None),
        (bytes.fromhex("3003a00181"), None),
        (bytes.fromhex("30028100"), None),
        (bytes.fromhex("30ff"), None),
        (b"no DER", None),
    ],
)
def test_the_error_of_a_password_policy(value, policy):
    assert _policy(value) == policy


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def line_of(there, seconds=60.0, limit=100):
    made = _Line(there, limit)
    made.begin(seconds)
    return made


def test_a_socket_that_is_not_there_is_down(tmp_path):
    with pytest.raises(Down, match="No such file"):
        Ldap3().open(Server("ldapi", "", 0, str(tmp_path / "ldapi")), Terms())


def test_a_line_that_ends_or_is_late_says_so(pair):
    ours, theirs = pair
    late = line_of(ours, seconds=0.0)
    for do in (lambda: late.recv(10), lambda: late.sendall(b"x")):
        with pytest.raises(TimeoutError):
            do()
        assert isinstance(late.failure, TimeoutError)
    theirs.close()

    ended = line_of(ours)
    for do in (lambda: ended.recv(10), lambda: ended.sendall(b"x")):
        with pytest.raises(OSError, match=r"closed|Broken"):
            do()
        assert isinstance(ended.failure, OSError)


def test_f14_an_answer_has_so_many_octets_and_the_next_page_as_many(pair):
    ours, theirs = pair
    theirs.sendall(b"x" * 301)
    line = line_of(ours)

    assert len(line.recv(100)) == 100
    line.rewind()
    assert len(line.recv(100)) == 100
    with pytest.raises(OSError, match="more than 100 octets"):
        line.recv(101)


def test_credentials_that_are_none_end_the_connection(pair):
    link = Ldap3Link(Server("ldap", "localhost", 389), Terms(), line_of(pair[0]))

    with pytest.raises(NoTicket, match="no bind by a ticket at ldap://localhost:389: 'object'"):
        link.bind_gssapi(lambda _service: object())
    assert pair[1].recv(100)[:1] in {b"", b"\x30"}  # nothing, or a goodbye
    assert pair[0].fileno() == -1


class GssError(Exception):
    """What python-gssapi raises: codes without a sign."""

    maj_code = 851968

    def __init__(self, minor):
        self.min_code = minor + (1 << 32)

    def get_all_statuses(self, code, is_major):
        assert (code, is_major) == (self.min_code, False)
        yield "in words"


@pytest.mark.parametrize(
    ("minor", "said"),
    [
        (-1765328243, "in words; get one with kinit"),
        (-1765328352, "in words; get another one with kinit"),
        (-1765328377, "in words; [ipa] ldap_uri has to name the server as the KDC does"),
        (-1765328228, "in words; see that a KDC of the realm runs"),
        (-1765328370, "in words$"),
    ],
)
def test_what_gssapi_says_is_told_with_what_to_do_and_ends_the_connection(pair, monkeypatch, minor, said):
    link = Ldap3Link(Server("ldap", "localhost", 389), Terms(), line_of(pair[0]))

    def bind(**_):
        raise GssError(minor)

    monkeypatch.setattr(link._connection, "bind", bind)
    with pytest.raises(NoTicket, match=f"no bind by a ticket at ldap://localhost:389: {re.escape(said).replace(re.escape('$'), '$')}"):
        link.bind_gssapi(None)
    assert pair[0].fileno() == -1


def test_a_kdc_that_took_the_time_is_not_taken_for_a_server_that_is_silent(pair, monkeypatch):
    link = Ldap3Link(Server("ldap", "localhost", 389), Terms(seconds=0.05), line_of(pair[0]))

    def asks_a_kdc(**_):
        link._line._deadline = 0.0
        link._line.sendall(b"x")

    monkeypatch.setattr(link._connection, "bind", asks_a_kdc)
    with pytest.raises(NoTicket, match=r"no KDC answered within 0.05 s; see that"):
        link.bind_gssapi(None)


def test_a_server_that_is_silent_after_a_ticket_is_down(pair, monkeypatch):
    link = Ldap3Link(Server("ldap", "localhost", 389), Terms(), line_of(pair[0]))

    def bind(**_):
        link._line.sendall(b"x")
        link._line._deadline = 0.0
        link._line.recv(1)

    monkeypatch.setattr(link._connection, "bind", bind)
    with pytest.raises(Down, match="no answer in time") as down:
        link.bind_gssapi(None)
    assert (type(down.value), down.value.silent) == (Down, True)


def test_what_is_no_ldap_is_of_no_use_and_does_not_make_the_server_down(pair):
    link = Ldap3Link(Server("ldap", "localhost", 389), Terms(), line_of(pair[0], limit=1000))
    pair[1].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 30)

    with pytest.raises(Unusable, match="no LDAP"):
        link.search(Query(base="dc=x", attributes=()))


def test_an_answer_that_is_nested_very_deep_is_of_no_use_and_ends_the_connection(pair):
    link = Ldap3Link(Server("ldap", "localhost", 389), Terms(), line_of(pair[0], limit=100_000))
    octets = b""
    for _ in range(3_000):
        octets = b"\x30\x84" + len(octets).to_bytes(4) + octets
    body = b"\x02\x01\x01\x65\x84" + len(octets).to_bytes(4) + octets
    pair[1].sendall(b"\x30\x84" + len(body).to_bytes(4) + body)

    with pytest.raises(Unusable, match="no LDAP"):
        link.search(Query(base="dc=x", attributes=()))
    assert pair[0].fileno() == -1
