"""Certificates that clients show, and the CAs that may have issued them."""

from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from greatseal.api.problems import StartProblem
from greatseal.jose.acceptance import accept_public_key, spki_sha256
from greatseal.jose.compact import b64url_encode

REMEMBERED = 256
"""Certificates that are read once while they are in use: a client shows its own with every request."""
_PURPOSES = frozenset({ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a certificate. ``key`` is the name under which its key is blocked; moments are microseconds."""

    x509: x509.Certificate
    thumbprint: str
    key: str
    begins: int
    ends: int


def thumbprint_of(der: bytes) -> str:
    """``x5t#S256`` (RFC 8705 s3.1): base64url of the SHA-256 of the DER."""
    return b64url_encode(sha256(der).digest())


@lru_cache(REMEMBERED)
def read(der: bytes) -> Shown:
    """Raises ValueError, with a reason for the owner, for what is no certificate or has a key that is not accepted."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        public_key = certificate.public_key()
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except Exception as error:  # the parser has several classes for what it cannot read
        raise ValueError("it cannot be read as DER") from error
    try:
        key = accept_public_key(public_key)
    except ValueError as error:
        raise ValueError(f"its key is not accepted: {error}") from None
    return Shown(x509=certificate, thumbprint=thumbprint_of(der), key=spki_sha256(key), begins=_moment(begins), ends=_moment(ends))


def read_pem(text: str) -> Shown:
    """The one certificate of a registration. Raises ValueError as :func:`read`."""
    if "PRIVATE KEY" in text:
        raise ValueError("there is a private key beside it, which nobody but the client may have; make a new key")
    try:
        found = x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        found = []
    if len(found) != 1:
        raise ValueError("expected exactly one certificate in PEM")
    return read(found[0].public_bytes(Encoding.DER))


class Authorities:
    """The CAs of ``[oauth] client_ca_file``. Raises StartProblem where the file cannot be read."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._issuers = lru_cache(REMEMBERED)(self._find)
        self._cas: list[x509.Certificate] = []

    def roots(self) -> list[bytes]:
        """Read the file, at the start and whenever the TLS files are read again: what clients of the listener may show."""
        try:
            found = x509.load_pem_x509_certificates(self._file.read_bytes())
        except OSError as error:
            raise StartProblem(f"[oauth] client_ca_file: {self._file}: cannot be read: {error.strerror}") from None
        except ValueError:
            raise StartProblem(f"[oauth] client_ca_file: {self._file}: expected one certificate or more in PEM") from None
        if wrong := [one.subject.rfc4514_string() for one in found if not _may_issue(one)]:
            raise StartProblem(f"[oauth] client_ca_file: {self._file}: no certificate of a CA that may issue others: {wrong[0]}")
        self._cas = found
        self._issuers.cache_clear()
        return [one.public_bytes(Encoding.DER) for one in found]

    def issued(self, shown: Shown, now: int) -> bool:
        """Whether a CA of the file, itself valid at that moment (microseconds), issued the certificate for clients of TLS."""
        if not self._cas:
            self.roots()
        return _is_for_clients(shown.x509) and any(begins <= now <= ends for begins, ends in self._issuers(shown))

    def ended(self, now: int) -> list[str]:
        """The names of the CAs that are not valid at that moment (microseconds)."""
        self.roots()
        return [one.subject.rfc4514_string() for one in self._cas if not _begin(one) <= now <= _end(one)]

    def _find(self, shown: Shown) -> tuple[tuple[int, int], ...]:
        """Begin and end of each CA that made the signature."""
        return tuple((_begin(ca), _end(ca)) for ca in self._cas if _signed(ca, shown.x509))


def _signed(ca: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _may_issue(certificate: x509.Certificate) -> bool:
    """RFC 5280 s4.2.1.3 and s4.2.1.9."""
    try:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound as error:
        return error.oid == x509.KeyUsage.oid
    except ValueError:
        return False


def _is_for_clients(certificate: x509.Certificate) -> bool:
    """RFC 5280 s4.2.1.12: one that says no purpose is for every one."""
    try:
        return not _PURPOSES.isdisjoint(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return True
    except ValueError:
        return False


def _begin(certificate: x509.Certificate) -> int:
    return _moment(certificate.not_valid_before_utc)


def _end(certificate: x509.Certificate) -> int:
    return _moment(certificate.not_valid_after_utc)


def _moment(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000
