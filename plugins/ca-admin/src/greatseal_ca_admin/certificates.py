"""Certificates of operators, from outside."""

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from greatseal.jose.acceptance import accept_public_key
from greatseal.jose.compact import PublicKey

_UNREADABLE = (ValueError, UnsupportedAlgorithm, x509.InvalidVersion)
"""What the library raises for a certificate that it cannot read, of a key of a kind that it does not know too."""


def in_pem(text: bytes) -> x509.Certificate:
    """The one certificate of a PEM text. Raises ValueError as :func:`in_der`."""
    try:
        (certificate,) = x509.load_pem_x509_certificates(text)
        _key(certificate)
    except _UNREADABLE as error:
        raise ValueError(str(error)) from None
    return certificate


def in_der(data: bytes) -> tuple[x509.Certificate, PublicKey]:
    """A certificate with its key. Raises ValueError for one that cannot be read, of a key that is not accepted, or of no serial number."""
    try:
        certificate = x509.load_der_x509_certificate(data)
        return certificate, _key(certificate)
    except _UNREADABLE as error:
        raise ValueError(str(error)) from None


def _key(certificate: x509.Certificate) -> PublicKey:
    if certificate.serial_number <= 0:  # RFC 5280 s4.1.2.2
        raise ValueError("its serial number is not above 0")
    return accept_public_key(certificate.public_key())
