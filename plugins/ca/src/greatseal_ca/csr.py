"""Certificate requests (RFC 2986) as strangers send them: what is read, what is refused, what is not heeded.

Only key, names and the extensions of identifiers are taken, and the wish to staple where a profile heeds it. All other wishes of a
request (usages, unknown extensions, attributes) are ignored: the profile decides.
"""

import warnings
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal import der
from greatseal.api.acme import BadCsr, Identifier
from greatseal.api.issuance import CertificateRequest
from greatseal.jose.acceptance import accept_public_key
from greatseal.jose.compact import PublicKey
from greatseal.jose.jwk import thumbprint_of
from greatseal_ca.identifiers import Types, common_name_identifier, identifier_of, identifiers_within

MAX_CSR_BYTES = 64 * 1024
_SHOWN = 5
# OBJECT IDENTIFIER 2.5.4.3; the string types whose ASCII is plain ASCII
_COMMON_NAME = bytes.fromhex("0603550403")
_STRINGS = {0x0C, 0x13, 0x14, 0x16}
_INTEGER, _LONGEST_VERSION = 0x02, 10
# RFC 2986 knows 0 alone; old clients write 1, or the 2 of a certificate, and openssl takes that.
_VERSION_0, *_ODD_VERSIONS = (bytes((_INTEGER, 1, version)) for version in range(3))
# What cryptography raises for encodings that it cannot read; it parses lazily, so any access may raise.
_UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    UnsupportedAlgorithm,
    InvalidSignature,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


class _Sent(NamedTuple):
    """The elements of a request, as they were sent (RFC 2986 s4)."""

    body: bytes
    algorithm: bytes
    signature: bytes
    version: bytes
    subject: bytes
    key: bytes
    attributes: list[bytes]


def read_csr(data: bytes, types: Types) -> CertificateRequest:
    """The request with its key, self-signature and names checked. Raises BadCsr that says which rule is broken."""
    if len(data) > MAX_CSR_BYTES:
        raise BadCsr(f"the CSR has {len(data)} bytes; at most {MAX_CSR_BYTES} are read")
    if data.startswith(b"-----"):
        raise BadCsr("the CSR is PEM; send its DER, in base64url")
    try:
        return _read(data, types)
    except _UNREADABLE:
        raise BadCsr("the CSR is not a valid DER PKCS#10 certificate request") from None


def match(request: CertificateRequest, identifiers: Sequence[Identifier]) -> None:
    """The names of the request are exactly those of the order (RFC 8555 s7.4), else BadCsr."""
    ordered = set(identifiers)
    if request.names == ordered:
        return
    parts = []
    if missing := ordered - request.names:
        parts.append(f"the order has {_listing(missing)}, which the CSR does not name")
    if foreign := request.names - ordered:
        parts.append(f"the CSR names {_listing(foreign)}, which the order does not have")
    raise BadCsr("; ".join(parts))


def _read(data: bytes, types: Types) -> CertificateRequest:
    body, algorithm, signature = der.children(data)
    version, subject, info, *attributes = der.children(body)
    sent = _Sent(body, algorithm, signature, version, subject, info, attributes)
    csr = _loaded(sent, data)
    key = _accepted_key(csr)
    _check_encoding(sent, key)
    _check_signature(sent, csr, key)
    common_names = _common_names(subject)
    return CertificateRequest(
        der=data,
        spki=info,
        spki_sha256=sha256(info).hexdigest(),
        public_key=key,
        thumbprint=thumbprint_of(key),
        names=_names(csr, common_names, types),
        common_names=common_names,
        csr=csr,
    )


def _loaded(sent: _Sent, data: bytes) -> x509.CertificateSigningRequest:
    """The library reads version 0 alone, so of another version that is accepted it gets that."""
    version, others, signed = sent.version, (sent.subject, sent.key, *sent.attributes), (sent.algorithm, sent.signature)
    if version in _ODD_VERSIONS:
        if der.sequence(der.sequence(version, *others), *signed) != data:
            raise ValueError("not DER")
        return x509.load_der_x509_csr(der.sequence(der.sequence(_VERSION_0, *others), *signed))
    if version[0] == _INTEGER and len(version) <= _LONGEST_VERSION and version != _VERSION_0:
        raise BadCsr(
            f"the CSR has version {int.from_bytes(der.content(version), signed=True)}; write 0, which stands for v1 (RFC 2986 s4.1)"
        )
    return x509.load_der_x509_csr(data)


def _accepted_key(csr: x509.CertificateSigningRequest) -> PublicKey:
    key = csr.public_key()
    try:
        return accept_public_key(key)
    except ValueError as error:
        raise BadCsr(f"the key of the CSR is not accepted: {error}") from None


def _check_encoding(sent: _Sent, key: PublicKey) -> None:
    # cryptography reads explicit curve parameters, and other odd forms, as the key that they describe; written again they must be the same.
    if sent.key != key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo):
        raise BadCsr("the key of the CSR is not in its usual encoding: a named curve, an uncompressed point, no additions")


def _check_signature(sent: _Sent, csr: x509.CertificateSigningRequest, key: PublicKey) -> None:
    used = csr.signature_hash_algorithm
    if isinstance(used, hashes.MD5 | hashes.SHA1 | hashes.SHA224):
        raise BadCsr(f"the CSR is signed with {used.name}; use SHA-256 or better")
    try:
        _verify(sent, csr, key)
    except InvalidSignature:
        raise BadCsr("the CSR's signature does not verify with its key") from None


def _verify(sent: _Sent, csr: x509.CertificateSigningRequest, key: PublicKey) -> None:
    """As the library's ``is_signature_valid``, over what was sent. Raises InvalidSignature."""
    parameters, used = csr.signature_algorithm_parameters, csr.signature_hash_algorithm
    if isinstance(key, rsa.RSAPublicKey):
        if used is None or not isinstance(parameters, padding.PKCS1v15 | padding.PSS):
            raise InvalidSignature
        key.verify(csr.signature, sent.body, parameters, used)
    elif isinstance(key, ec.EllipticCurvePublicKey):
        if not isinstance(parameters, ec.ECDSA):
            raise InvalidSignature
        key.verify(csr.signature, sent.body, parameters)
    else:  # key and signature have one identifier (RFC 8410 s3, RFC 9881 s2)
        if der.children(sent.key)[0] != sent.algorithm:
            raise InvalidSignature
        key.verify(csr.signature, sent.body)


def _common_names(subject: bytes) -> tuple[str, ...]:
    """The common names of a subject that are ASCII; others cannot be host names.

    Read from the bytes, because cryptography warns of subjects that are longer than X.520 likes, and nobody here takes them over.
    """
    if _COMMON_NAME not in subject:
        return ()
    found = []
    for attribute in (one for rdn in der.children(subject) for one in der.children(rdn)):
        oid, value = der.children(attribute)
        content = der.content(value)
        if oid == _COMMON_NAME and value[0] in _STRINGS and content.isascii():
            found.append(content.decode("ascii"))
    return tuple(found)


def _names(csr: x509.CertificateSigningRequest, common_names: Sequence[str], types: Types) -> frozenset[Identifier]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name inside of an extension is longer than X.520 likes; nobody here takes it over
        extensions = csr.extensions
    for extension in extensions:
        if isinstance(extension.value, x509.BasicConstraints) and extension.value.ca:
            raise BadCsr("the CSR asks for a CA certificate (basicConstraints CA:TRUE)")
    named = [one for extension in extensions if isinstance(extension.value, x509.SubjectAlternativeName) for one in extension.value]
    try:
        names = {identifier_of(one, types) for one in named}
    except ValueError as error:
        raise BadCsr(f"the CSR's subjectAltName holds {error}") from None
    unknown = [one for one in extensions if isinstance(one.value, x509.UnrecognizedExtension)]
    try:
        names |= identifiers_within(unknown, types) if unknown else set()
    except ValueError as error:
        raise BadCsr(f"the CSR holds an extension that no order can: it {error}") from None
    alone = not names
    names.update(filter(None, (common_name_identifier(one, alone=alone) for one in common_names)))
    if not names:
        raise BadCsr("the CSR names nothing: give the identifiers of the order in its subjectAltName")
    return frozenset(names)


def _listing(identifiers: AbstractSet[Identifier]) -> str:
    shown = [f"{one.type}:{one.value}" for one in sorted(identifiers)[:_SHOWN]]
    more = len(identifiers) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
