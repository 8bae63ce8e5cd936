"""The certificate of an operator, as it is sent: whatever comes, one with an accepted key or a problem."""

import textwrap
from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal.api.problems import BadRequest
from greatseal.testing.parsers import ParserContract
from greatseal_ca_admin.certificates import in_der
from greatseal_ca_admin.routes import der_of

KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NAME = x509.Name([])
DER = x509.CertificateBuilder(NAME, NAME, KEY.public_key(), 1, BEGIN, BEGIN + timedelta(days=6)).sign(KEY, None).public_bytes(Encoding.DER)
ED25519 = bytes.fromhex("06032b65700321")


def pem(der: bytes) -> str:
    lines = "\n".join(textwrap.wrap(b64encode(der).decode(), 64))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"


def changed(what: bytes, into: bytes) -> bytes:
    """With the last ``what`` changed."""
    before, found, after = DER.rpartition(what)
    assert found
    return before + into + after


ODD = {
    "a key of a type that nobody knows": (changed(ED25519, bytes.fromhex("06032a03040321")), "Unknown key type: 1.2.3.4"),
    "a version that nobody knows": (changed(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x5b"), "91 is not a valid X509 version"),
    "serial number 0": (changed(b"\x02\x01\x01", b"\x02\x01\x00"), "its serial number is not above 0"),
}


@pytest.mark.filterwarnings("ignore:Parsed a serial number which wasn't positive")
@pytest.mark.parametrize(("der", "told"), ODD.values(), ids=ODD)
def test_what_no_operator_may_have_is_told(der: bytes, told: str) -> None:
    with pytest.raises(BadRequest, match=f"of a key that is accepted: {told}"):
        der_of(pem(der))
    with pytest.raises(ValueError, match=told):
        in_der(der)


@pytest.mark.filterwarnings("ignore:Parsed a serial number which wasn't positive")
class TestAnyCertificate(ParserContract):
    """As it is sent in PEM, and as a connection has it."""

    valid = (DER,)
    refusals = (BadRequest, ValueError)

    def read(self, *parts: bytes) -> None:
        certificate, _ = in_der(parts[0])
        assert certificate.public_bytes(Encoding.DER) == der_of(pem(parts[0])) == parts[0]


@pytest.mark.filterwarnings("ignore:Parsed a serial number which wasn't positive")
class TestAnyText(ParserContract):
    valid = (pem(DER).encode(),)
    refusals = BadRequest
    costly = ((pem(DER).encode() * 100,), (b"-----BEGIN CERTIFICATE-----\n" * 2000,), (pem(b"\x30\x82\xff\x00" * 12_000).encode(),))

    def read(self, *parts: bytes) -> None:
        assert len(der_of(parts[0].decode(errors="backslashreplace"))) <= len(parts[0])
