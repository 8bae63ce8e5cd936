"""The certificate of a stranger, as far as it proves something: its names and acmeIdentifier. Nothing else in it is heeded."""

import warnings
from hmac import compare_digest

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from greatseal.api.acme import Identifier
from greatseal.net import excerpt, listing

MAX_BYTES = 16 * 1024
"""Twice what a certificate with the largest ML-DSA key takes. To read a longer list of names would hold up everybody else."""
ACME_IDENTIFIER = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31")
OCTET_STRING_OF_32 = b"\x04\x20"
# What cryptography raises for encodings that it cannot read.
_UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


def check(der: bytes, identifier: Identifier, digest: bytes) -> None:
    """It must hold the identifier as its only name, and ``digest`` (RFC 8737 s3). Raises ValueError, worded to follow "a certificate"."""
    extensions = _extensions(der)
    names = [_text(name) for one in extensions if isinstance(one.value, x509.SubjectAlternativeName) for name in one.value]
    if names != [(identifier.type, identifier.value)]:
        raise ValueError(f"for {listing(name for _, name in names)}; expected {excerpt(identifier.value)} alone in its subjectAltName")
    found = next((one for one in extensions if one.oid == ACME_IDENTIFIER), None)
    expected = OCTET_STRING_OF_32 + digest
    if found is None:
        raise ValueError(
            f"without the extension acmeIdentifier ({ACME_IDENTIFIER.dotted_string}); expected it to be {excerpt(expected.hex())}"
        )
    value = found.value.public_bytes()
    if not compare_digest(value, expected):
        raise ValueError(f"whose acmeIdentifier is {excerpt(value.hex())}; expected {excerpt(expected.hex())}")
    if not found.critical:
        raise ValueError("whose acmeIdentifier is not critical; it must be")


def _extensions(der: bytes) -> x509.Extensions:
    if len(der) > MAX_BYTES:
        raise ValueError(f"of {len(der)} bytes; at most {MAX_BYTES} are read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of oddities that later versions of the library will refuse
            return x509.load_der_x509_certificate(der).extensions
    except _UNREADABLE:
        raise ValueError("that cannot be read") from None


def _text(name: x509.GeneralName) -> tuple[str, str]:
    """The type and value of the identifier that it would be; of another kind, what it is called."""
    if isinstance(name, x509.DNSName):
        return "dns", name.value.lower()
    if isinstance(name, x509.IPAddress):
        return "ip", str(name.value)
    return "", type(name).__name__
