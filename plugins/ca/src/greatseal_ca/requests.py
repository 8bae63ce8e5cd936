"""What certificates of CAs are asked for with: requests (RFC 2986) for keys that are here, and for CAs elsewhere."""

import hashlib
import warnings

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from greatseal import der
from greatseal.api.issuance import CertificateRequest
from greatseal.api.keys import HashAlg, Signer
from greatseal.jose.acceptance import accept_public_key
from greatseal.jose.compact import PublicKey
from greatseal_ca.algorithms import HASHES, signature_algorithm
from greatseal_ca.build import ca_extensions

_NO_SIGNATURE = bytes.fromhex("300a06082a8648ce3d040302")


async def sign_request(signer: Signer, subject: x509.Name, hash_alg: HashAlg) -> bytes:
    """The DER request of an issuing CA for its next certificate, with the extensions that the certificate should have."""
    _, body = _body_for(signer, subject)
    algorithm = signature_algorithm(signer.info.algorithm, hash_alg)
    return der.signed(body, algorithm, await signer.sign(body, hash_alg=HASHES[algorithm]))


def unsigned_request(signer: Signer, subject: x509.Name) -> CertificateRequest:
    """The same, of a CA that asks itself and has nothing to prove."""
    key, body = _body_for(signer, subject)
    return _request(der.signed(body, _NO_SIGNATURE, b""), key)


def read_request(data: bytes) -> CertificateRequest:
    """A request of :func:`sign_request`."""
    return _request(data, accept_public_key(x509.load_der_x509_csr(data).public_key()))


def request_of_ca(data: bytes) -> tuple[CertificateRequest, x509.Certificate | None]:
    """What another CA is to be cross-certified with: its certificate, or a request for one, in PEM or DER.

    Raises ValueError that says what is wrong with it.
    """
    if (certificate := _certificate(data)) is not None:
        return _of_certificate(certificate), certificate
    with warnings.catch_warnings(action="ignore"):
        try:
            csr = x509.load_pem_x509_csr(data) if data.lstrip().startswith(b"-----") else x509.load_der_x509_csr(data)
            key = accept_public_key(csr.public_key())
            proven = csr.is_signature_valid
        except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature) as error:
            raise ValueError(f"is no certificate and no request of a CA: {error}") from None
    if not proven:
        raise ValueError("is a request whose signature does not verify with its key")
    if not csr.subject.rdns:
        raise ValueError("is a request without a subject; a CA needs a name")
    return _request(csr.public_bytes(Encoding.DER), key), None


def _certificate(data: bytes) -> x509.Certificate | None:
    try:
        if data.lstrip().startswith(b"-----"):
            return x509.load_pem_x509_certificate(data)
        return x509.load_der_x509_certificate(data)
    except ValueError:
        return None


def _of_certificate(certificate: x509.Certificate) -> CertificateRequest:
    """Key, subject and key identifier of a CA, as its certificate has them: what it issued must verify under the cross-certificate too."""
    try:
        key = accept_public_key(certificate.public_key())
        found = {type(one.value): one.value for one in certificate.extensions}
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"cannot be cross-certified: {error}") from None
    constraints, own = found.get(x509.BasicConstraints), found.get(x509.SubjectKeyIdentifier)
    if not isinstance(constraints, x509.BasicConstraints) or not constraints.ca:
        raise ValueError("is no CA certificate (basicConstraints CA:TRUE)")
    digest = own.digest if isinstance(own, x509.SubjectKeyIdentifier) else x509.SubjectKeyIdentifier.from_public_key(key).digest
    subject = der.children(certificate.tbs_certificate_bytes)[5]
    body = _body(subject, key, digest, path_length=constraints.path_length)
    return _request(der.signed(body, _NO_SIGNATURE, b""), key)


def _body_for(signer: Signer, subject: x509.Name) -> tuple[PublicKey, bytes]:
    key = accept_public_key(load_der_public_key(signer.info.spki))
    return key, _body(subject.public_bytes(), key, x509.SubjectKeyIdentifier.from_public_key(key).digest, path_length=0)


def _body(subject: bytes, key: PublicKey, digest: bytes, *, path_length: int | None) -> bytes:
    """A CertificationRequestInfo; a throw-away key encodes its attributes."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    for one in ca_extensions(key, path_length=path_length, key_id=digest):
        builder = builder.add_extension(one.value, critical=one.critical)
    copy = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    version, _, _, attributes = der.children(copy.tbs_certrequest_bytes)
    return der.sequence(version, subject, key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo), attributes)


def _request(data: bytes, key: PublicKey) -> CertificateRequest:
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return CertificateRequest(
        der=data,
        spki=spki,
        spki_sha256=hashlib.sha256(spki).hexdigest(),
        public_key=key,
        thumbprint=None,
        names=frozenset(),
        csr=x509.load_der_x509_csr(data),
    )
