"""The request (PKCS#10) that proves an onion service, in either of its forms.

- RFC 9799 s3.2: the attributes caSigningNonce, with the nonce of the challenge, and applicantSigningNonce. Its names are not looked at.
- An extension under the number of caSigningNonce that holds the key authorization, and the name as a dNSName.

Both are signed by the key of the onion service, whose key is the one that the request names too.
"""

from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import SignatureAlgorithmOID

from greatseal import der
from greatseal.net import excerpt

MAX_BYTES = 16 * 1024
"""Many times what a request with an Ed25519 key takes."""
NONCE = x509.ObjectIdentifier("2.23.140.41")
APPLICANT_NONCE = x509.ObjectIdentifier("2.23.140.42")
_NONCE, _APPLICANT_NONCE = bytes.fromhex("060467810c29"), bytes.fromhex("060467810c2a")
LEAST_APPLICANT_NONCE = 8
"""Bytes (RFC 9799 s3.2: 64 bits)."""
_OCTET_STRING, _UTF8, _PRINTABLE, _IA5 = 0x04, 0x0C, 0x13, 0x16
# What cryptography raises for encodings that it cannot read; it parses lazily, so any access may raise.
_UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


def check(data: bytes, key: Ed25519PublicKey, names: Sequence[str], *, key_authorization: str, nonce: bytes) -> None:
    """It must be signed by ``key`` and be whole in one of the two forms; a form with names has one of ``names``.

    Raises ValueError, worded to follow "the CSR".
    """
    request = _Request(data)
    if request.spki != key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo):
        raise ValueError("has another key than the onion service")
    request.check_signature(key)
    if request.extension is not None and (request.nonces or request.applicant_nonces):
        raise ValueError(f"holds {NONCE.dotted_string} as an extension and has attributes of the other form; send one of them")
    if request.extension is not None:
        _check_extension(request.extension, key_authorization)
        _check_names(request.dns_names, names)
    else:
        _check_attributes(request, nonce)


class _Request:
    """What is read of it, all at once: what cannot be read is refused before anything is compared."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MAX_BYTES:
            raise ValueError(f"has {len(data)} bytes; at most {MAX_BYTES} are read")
        try:
            csr = x509.load_der_x509_csr(data)
            self._signed, self._signature, self._algorithm = csr.tbs_certrequest_bytes, csr.signature, csr.signature_algorithm_oid
            self.spki = der.children(self._signed)[2]
            values = {one.oid: one.value for one in csr.extensions}
            attributes = _attributes(self._signed)
        except _UNREADABLE:
            raise ValueError("is not a DER PKCS#10 certificate request") from None
        extension, names = values.get(NONCE), values.get(x509.SubjectAlternativeName.oid)
        self.extension = extension.public_bytes() if extension is not None else None
        self.dns_names = names.get_values_for_type(x509.DNSName) if isinstance(names, x509.SubjectAlternativeName) else []
        self.nonces, self.applicant_nonces = attributes.get(_NONCE, []), attributes.get(_APPLICANT_NONCE, [])

    def check_signature(self, key: Ed25519PublicKey) -> None:
        if self._algorithm != SignatureAlgorithmOID.ED25519:
            raise ValueError("is signed by another algorithm than Ed25519, that of onion services")
        try:
            key.verify(self._signature, self._signed)
        except InvalidSignature:
            raise ValueError("is not signed by the key of the onion service") from None


def _attributes(signed: bytes) -> dict[bytes, list[bytes]]:
    """The values of each attribute, by its OBJECT IDENTIFIER; values and identifiers are whole elements."""
    found: dict[bytes, list[bytes]] = {}
    for attribute in der.elements(der.content(der.children(signed)[3])):
        oid, values = der.children(attribute)
        found.setdefault(oid, []).extend(der.children(values))
    return found


def _check_extension(value: bytes, key_authorization: str) -> None:
    expected = key_authorization.encode()
    if value not in {expected, *(der.element(tag, expected) for tag in (_UTF8, _PRINTABLE, _IA5))}:
        raise ValueError(f"has the extension {NONCE.dotted_string} with {excerpt(value)}; expected {excerpt(key_authorization)}")


def _check_names(found: Sequence[str], expected: Sequence[str]) -> None:
    if not {name.lower() for name in found}.intersection(expected):
        raise ValueError(f"does not have {' or '.join(expected)} as a dNSName of its subjectAltName")


def _check_attributes(request: _Request, nonce: bytes) -> None:
    if not request.nonces:
        raise ValueError(f"has {NONCE.dotted_string} neither as an attribute (RFC 9799 s3.2) nor as an extension")
    if request.nonces != [der.element(_OCTET_STRING, nonce)]:
        raise ValueError(f"has the attribute {NONCE.dotted_string} with another value than the nonce of the challenge, {nonce.hex()}")
    if not any(one[0] == _OCTET_STRING and len(der.content(one)) >= LEAST_APPLICANT_NONCE for one in request.applicant_nonces):
        least = f"an OCTET STRING of {LEAST_APPLICANT_NONCE} bytes or more"
        raise ValueError(f"lacks the attribute {APPLICANT_NONCE.dotted_string}, {least} of your own (RFC 9799 s3.2)")
