import warnings
from collections.abc import Callable, Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

MakeCsr = Callable[..., bytes]
SHA256 = hashes.SHA256()


@pytest.fixture(scope="session")
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
def make_csr(ec_key: ec.EllipticCurvePrivateKey) -> MakeCsr:
    """``make_csr("a.example.com", ..., cn=..., key=..., extensions=[(value, critical)])``: DER."""

    def make(
        *names: str | x509.GeneralName,
        cn: str | None = None,
        key=None,
        extensions: Sequence[tuple[x509.ExtensionType, bool]] = (),
        hash_alg: hashes.HashAlgorithm | None = SHA256,
    ) -> bytes:
        with warnings.catch_warnings(action="ignore"):  # of a common name that is too long
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, cn, _validate=False)] if cn is not None else [])
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
        if names:
            san = x509.SubjectAlternativeName([x509.DNSName(one) if isinstance(one, str) else one for one in names])
            builder = builder.add_extension(san, critical=False)
        for value, critical in extensions:
            builder = builder.add_extension(value, critical=critical)
        return builder.sign(key or ec_key, hash_alg).public_bytes(Encoding.DER)

    return make
