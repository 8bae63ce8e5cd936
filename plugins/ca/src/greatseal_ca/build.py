"""To-be-signed certificates: built once under a throw-away key, recorded, then signed as they are (RFC 5280 s4.1)."""

import os
from collections.abc import Callable, Sequence

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes, CertificatePublicKeyTypes
from cryptography.x509.oid import AuthorityInformationAccessOID

from greatseal.api.keys import HashAlg
from greatseal_ca import der
from greatseal_ca.algorithms import HASHES, HashAlgorithm, signature_hash, throw_away_key
from greatseal_ca.settings import eku_oid
from greatseal_ca.validity import as_datetime

SERIAL_BYTES = 16

CA_USAGE = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
    key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip
LEAF_USAGE = x509.KeyUsage(
    digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
    key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
)  # fmt: skip


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a certificate. Moments are microseconds on whole seconds."""

    issuer: x509.Name
    subject: x509.Name
    public_key: CertificatePublicKeyTypes
    serial: bytes
    not_before: int
    not_after: int
    extensions: tuple[x509.Extension[x509.ExtensionType], ...]


class Composer:
    """Makes to-be-signed certificates for an issuer whose keys are of ``key_type``. Its throw-away key signs copies that nobody trusts."""

    def __init__(self, key_type: str, hash_alg: HashAlg) -> None:
        self.hash_alg = signature_hash(key_type, hash_alg)
        self._hash = HASHES[self.hash_alg] if self.hash_alg else None
        self._key: CertificateIssuerPrivateKeyTypes = throw_away_key(key_type)
        self.algorithm = _algorithm(self._key, self._hash)

    def copy(self, template: Template) -> x509.Certificate:
        """The certificate under the throw-away key: ``tbs_certificate_bytes`` of it is what the issuer signs."""
        builder = x509.CertificateBuilder(
            template.issuer,
            template.subject,
            template.public_key,
            int.from_bytes(template.serial),
            as_datetime(template.not_before),
            as_datetime(template.not_after),
            list(template.extensions),
        )
        return builder.sign(self._key, self._hash)


class LeafExtensions:
    """The extensions that certificates of one issuer share, made once for each set of extended key usages."""

    def __init__(self, issuer: x509.Certificate, *, crl_url: str | None, ocsp_url: str | None) -> None:
        self.authority_key = authority_key_identifier(issuer)
        self._urls = tuple(_url_extensions(crl_url, ocsp_url))
        self._made: dict[tuple[str, ...], tuple[x509.Extension[x509.ExtensionType], ...]] = {}

    def of(
        self, key: CertificatePublicKeyTypes, names: Sequence[x509.GeneralName], eku: tuple[str, ...], *, empty_subject: bool
    ) -> tuple[x509.Extension[x509.ExtensionType], ...]:
        """All extensions of one certificate. The SAN is critical where the subject is empty (RFC 5280 s4.2.1.6)."""
        return (
            *(self._made.get(eku) or self._make(eku)),
            extension(x509.SubjectKeyIdentifier.from_public_key(key)),
            extension(x509.SubjectAlternativeName(names), critical=empty_subject),
        )

    def _make(self, eku: tuple[str, ...]) -> tuple[x509.Extension[x509.ExtensionType], ...]:
        usages = [extension(x509.ExtendedKeyUsage([eku_oid(name) for name in eku]))] if eku else []
        constraints = extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        made = (constraints, extension(LEAF_USAGE, critical=True), *usages, extension(self.authority_key), *self._urls)
        return self._made.setdefault(eku, made)


def ca_extensions(
    key: CertificatePublicKeyTypes, issuer: x509.Certificate | None, *, path_length: int | None
) -> tuple[x509.Extension[x509.ExtensionType], ...]:
    """The extensions of a CA certificate; ``issuer`` None for a root."""
    return (
        extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True),
        extension(CA_USAGE, critical=True),
        extension(x509.SubjectKeyIdentifier.from_public_key(key)),
        *([extension(authority_key_identifier(issuer))] if issuer else []),
    )


def extension(value: x509.ExtensionType, *, critical: bool = False) -> x509.Extension[x509.ExtensionType]:
    """An extension with its flag."""
    return x509.Extension(value.oid, critical, value)


def authority_key_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """The key identifier that certificates of ``issuer`` carry: its subjectKeyIdentifier, where it has one."""
    try:
        own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]  # CA key types only
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def draw_serial(draw: Callable[[int], bytes] = os.urandom) -> bytes:
    """A serial number: 126 random bits in 16 octets that begin with 01, so that it is positive and never shorter (BR 7.1)."""
    first, *rest = draw(SERIAL_BYTES)
    return bytes((first & 0x3F | 0x40, *rest))


def assemble(tbs: bytes, signature: bytes) -> bytes:
    """The certificate of a to-be-signed part: its own algorithm beside it, then the signature (RFC 5280 s4.1.1)."""
    # version, serialNumber, signature
    algorithm = der.children(tbs)[2]
    return der.sequence(tbs, algorithm, der.bit_string(signature))


def hash_named_in(tbs: bytes) -> HashAlg | None:
    """The hash that the algorithm inside a to-be-signed part asks for, None where the algorithm has its own."""
    used = x509.load_der_x509_certificate(assemble(tbs, b"")).signature_hash_algorithm
    return next((name for name, one in HASHES.items() if used and one.name == used.name), None)


def _algorithm(key: CertificateIssuerPrivateKeyTypes, hash_alg: HashAlgorithm | None) -> x509.ObjectIdentifier:
    name = x509.Name([])
    when = as_datetime(0)
    copy = x509.CertificateBuilder(name, name, key.public_key(), 1, when, when).sign(key, hash_alg)
    return copy.signature_algorithm_oid


def _url_extensions(crl_url: str | None, ocsp_url: str | None) -> list[x509.Extension[x509.ExtensionType]]:
    found: list[x509.Extension[x509.ExtensionType]] = []
    if ocsp_url:
        location = x509.UniformResourceIdentifier(ocsp_url)
        found.append(extension(x509.AuthorityInformationAccess([x509.AccessDescription(AuthorityInformationAccessOID.OCSP, location)])))
    if crl_url:
        point = x509.DistributionPoint([x509.UniformResourceIdentifier(crl_url)], None, None, None)
        found.append(extension(x509.CRLDistributionPoints([point])))
    return found
