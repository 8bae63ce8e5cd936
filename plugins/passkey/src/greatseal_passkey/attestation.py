"""Whose device made a passkey (WebAuthn s6.5, s8): looked at where only some models may be used.

The library checks what each format says; here it is bounded what may be in it, and whose certificates count: those of the model alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from webauthn.helpers import encode_cbor, parse_cbor
from webauthn.helpers.structs import AttestationFormat

from greatseal.jose.acceptance import accept_public_key
from greatseal_passkey.chains import NoChain, check_chain
from greatseal_passkey.models import Known, Model

FORMATS = {one.value: one for one in AttestationFormat if one not in {AttestationFormat.NONE, AttestationFormat.ANDROID_SAFETYNET}}
"""Those whose certificates are examined; SafetyNet has been switched off by its maker."""
ROOTED = frozenset({AttestationFormat.APPLE, AttestationFormat.ANDROID_KEY})
LONGEST_CERTIFICATE = 8192
AAGUID = x509.ObjectIdentifier("1.3.6.1.4.1.45724.1.1.4")
"""id-fido-gen-ce-aaguid (WebAuthn s8.2.1)."""


class Unattested(ValueError):
    """Nobody vouches for the device, or it may not be used here. The text is for the log."""


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """An attestation object to be verified, with the certificates that count for its format, and the model that it is of then."""

    object: bytes
    roots: Mapping[AttestationFormat, list[bytes]]
    model: Model


def examine(encoded: Mapping[str, bytes], data: bytes, known: Known, now: int) -> Examined:
    """Which model an attestation is said to be of, and whether its certificates are of that.

    ``encoded`` are the members of the attestation object as they are encoded, of canonical CBOR; ``data`` is its authenticator data. Raises
    Unattested, and ValueError for what cannot be read.
    """
    fmt = parse_cbor(encoded["fmt"])
    statement = parse_cbor(encoded["attStmt"])
    if not isinstance(fmt, str) or fmt not in FORMATS or not isinstance(statement, dict) or "x5c" not in statement:
        raise Unattested(f"nobody vouches for the device: its attestation is {fmt!r:.40}, without certificates")
    chain = _chain(statement["x5c"])
    aaguid = data[37:53]
    model = _model(fmt, aaguid, chain, known)
    if model.distrusted is not None:
        raise Unattested(f"the model {model.name!r} is not to be trusted: {model.distrusted}")
    accept_public_key(chain[0].public_key())
    try:
        check_chain(chain, model.roots, now)
    except NoChain as error:
        raise Unattested(str(error)) from None
    if fmt == AttestationFormat.PACKED:
        _check_packed(chain[0], aaguid)
    # Those whose roots the library knows itself get these besides; of the others the chain was followed here, and it needs none.
    roots = [root.public_bytes(Encoding.PEM) for root in model.roots] if FORMATS[fmt] in ROOTED else []
    whole = encode_cbor({"fmt": fmt, "attStmt": statement, "authData": data})
    return Examined(object=whole, roots={FORMATS[fmt]: roots}, model=model)


def _chain(found: Any) -> Sequence[x509.Certificate]:
    if not isinstance(found, list) or not all(isinstance(one, bytes) and len(one) <= LONGEST_CERTIFICATE for one in found):
        raise Unattested(f"x5c is no list of certificates of at most {LONGEST_CERTIFICATE} bytes")
    if not found:
        raise Unattested("x5c is empty")
    return [x509.load_der_x509_certificate(one) for one in found[:8]]


def _model(fmt: str, aaguid: bytes, chain: Sequence[x509.Certificate], known: Known) -> Model:
    if fmt == AttestationFormat.FIDO_U2F:  # which has no AAGUID
        models = (known.by_key.get(_identifier(one)) for one in chain)
        model = next((one for one in models if one is not None), None)
    else:
        model = known.by_aaguid.get(str(UUID(bytes=aaguid)))
    if model is None:
        raise Unattested(f"no model of the metadata has the AAGUID {UUID(bytes=aaguid)}, or the certificate of the device")
    return model


def _identifier(certificate: x509.Certificate) -> str:
    """Of its key (RFC 5280 s4.2.1.2, the first way)."""
    return x509.SubjectKeyIdentifier.from_public_key(certificate.public_key()).digest.hex()


def _check_packed(certificate: x509.Certificate, aaguid: bytes) -> None:
    """WebAuthn s8.2.1. Raises Unattested."""
    units = certificate.subject.get_attributes_for_oid(x509.NameOID.ORGANIZATIONAL_UNIT_NAME)
    if [one.value for one in units] != ["Authenticator Attestation"]:
        raise Unattested("the certificate is not one of an authenticator: its OU is another one")
    extensions = certificate.extensions
    if extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
        raise Unattested("the certificate is one of an authority")
    try:
        value = extensions.get_extension_for_oid(AAGUID).value
    except x509.ExtensionNotFound:
        return
    assert isinstance(value, x509.UnrecognizedExtension)
    if value.value != b"\x04\x10" + aaguid:
        raise Unattested("the certificate is of another model than the passkey")
