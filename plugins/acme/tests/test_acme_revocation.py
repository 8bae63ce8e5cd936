"""The payload of revokeCert: whatever comes, the name of a certificate or a problem. Over HTTP: tests/system."""

from datetime import UTC, datetime, timedelta
from functools import cache

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, ExtensionOID, NameOID

from greatseal.api.problems import BadRequest, Problem
from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal.jose.strict import decode_json
from greatseal.testing.parsers import ParserContract
from greatseal_acme.revocation import RevokeCert, _der_of

KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@cache
def certificate(*names: str, unknown: int = 0, more: tuple[x509.ExtensionType, ...] = ()) -> bytes:
    """DER, with that many extensions that nobody knows."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    builder = x509.CertificateBuilder(name, name, KEY.public_key(), 2**126 + 1, BEGIN, BEGIN + timedelta(days=6))
    builder = builder.add_extension(x509.AuthorityKeyIdentifier(b"k" * 20, None, None), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, names))), critical=False)
    for value in more:
        builder = builder.add_extension(value, critical=False)
    for number in range(unknown):
        builder = builder.add_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier(f"1.3.{number}"), b""), critical=False)
    return builder.sign(KEY, None).public_bytes(Encoding.DER)


USUAL = (
    x509.TLSFeature([x509.TLSFeatureType.status_request]),
    x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
    x509.KeyUsage(True, *[False] * 8),
    x509.AuthorityInformationAccess(
        [x509.AccessDescription(AuthorityInformationAccessOID.OCSP, x509.UniformResourceIdentifier("http://a"))]
    ),
    x509.CRLDistributionPoints([x509.DistributionPoint([x509.UniformResourceIdentifier("http://a")], None, None, None)]),
    x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier("2.23.140.1.2.1"), None)]),
    x509.NameConstraints([x509.DNSName("example")], None),
)
UNREADABLE = {
    "a TLS feature that nobody knows": (ExtensionOID.TLS_FEATURE, b"\x30\x03\x02\x01\x63"),
    "no TLS feature": (ExtensionOID.TLS_FEATURE, b"\x30\x00"),
    "no names": (ExtensionOID.ISSUER_ALTERNATIVE_NAME, b"\x31\x00"),
    "an address of three bytes": (ExtensionOID.ISSUER_ALTERNATIVE_NAME, b"\x30\x05\x87\x03\x01\x02\x03"),
}


@pytest.mark.parametrize(("oid", "value"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_extension_that_cannot_be_read_is_told(oid: x509.ObjectIdentifier, value: bytes) -> None:
    with pytest.raises(BadRequest, match="no certificate in DER"):
        _der_of(b64url_encode(certificate("a.example", more=(x509.UnrecognizedExtension(oid, value),))))


class TestAnyCertificate(ParserContract):
    valid = (certificate("a.example", more=USUAL),)
    refusals = Problem
    costly = (
        (certificate(*["a"] * 15_000),),
        (certificate(*["a.example"] * 4400),),
        (certificate("a.example", unknown=3000),),
        (b"\x30\x80" * 24_000,),
        (b"\x30\x82\xff\x00" * 12_000,),
    )

    def read(self, *parts: bytes) -> None:
        assert _der_of(b64url_encode(parts[0])) == parts[0]


class TestAnyPayload(ParserContract):
    valid = (msgspec.json.encode(RevokeCert(certificate=b64url_encode(certificate("a.example")), reason=1)),)
    refusals = (Problem, ValueError)

    def read(self, *parts: bytes) -> None:
        asked = msgspec.convert(decode_json(parts[0]), RevokeCert, str_keys=True)
        assert _der_of(asked.certificate) == b64url_decode(asked.certificate)
