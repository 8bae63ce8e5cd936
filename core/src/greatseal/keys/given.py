"""The public key that an operator means, in whatever form they have it."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    load_der_private_key,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)

from greatseal.api.problems import StartProblem
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.jwk import public_key, public_members
from greatseal.jose.strict import decode_object

__all__ = ["given_key"]

_FORMS = "a certificate, a CSR, a public or private key in PEM or DER, or a JWK"
_HEXADECIMAL = re.compile(r"[0-9a-f]{64}")
_LARGEST = 1 << 20
_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion)


def given_key(given: str) -> str:
    """The SHA-256 of the SPKI, in hexadecimal, of the key in a file, or what was given itself. Raises StartProblem."""
    digest = given.replace(":", "").lower()
    if _HEXADECIMAL.fullmatch(digest):
        return digest
    try:
        with Path(given).open("rb") as file:
            data = file.read(_LARGEST)
    except OSError as error:
        raise StartProblem(f"{given} is no SHA-256 in hexadecimal, and no file that can be read: {error.strerror}") from None
    try:
        return spki_sha256(_key_in(data))
    except ValueError as error:
        raise StartProblem(f"{given}: {error}") from None


def _key_in(data: bytes) -> PublicKeyTypes:
    if data.lstrip().startswith(b"{"):
        return public_key(public_members(decode_object(data)))
    if b"ENCRYPTED" in data:
        raise ValueError("the private key is encrypted; give its certificate or public key")
    for load in _PEM if b"-----BEGIN" in data else _DER:
        try:
            loaded = load(data)
            found: PublicKeyTypes = loaded.public_key() if hasattr(loaded, "public_key") else loaded
        except _UNREADABLE:
            continue
        return found
    raise ValueError(f"expected {_FORMS}")


def _private(load: Callable[..., Any]) -> Callable[[bytes], Any]:
    return lambda data: load(data, None, unsafe_skip_rsa_key_validation=True)


_PEM: Sequence[Callable[[bytes], Any]] = (
    x509.load_pem_x509_certificate,
    x509.load_pem_x509_csr,
    load_pem_public_key,
    _private(load_pem_private_key),
)
_DER: Sequence[Callable[[bytes], Any]] = (
    x509.load_der_x509_certificate,
    x509.load_der_x509_csr,
    load_der_public_key,
    _private(load_der_private_key),
)
