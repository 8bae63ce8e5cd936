"""What a browser sends after a ceremony, and whether it proves what it says (WebAuthn s7.1, s7.2).

Imports webauthn, which takes a quarter of a second: only where passkeys are on.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec
from webauthn import verify_authentication_response, verify_registration_response
from webauthn.helpers import encode_cbor
from webauthn.helpers.cose import COSEAlgorithmIdentifier
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import CredentialDeviceType

from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal_passkey import cbor
from greatseal_passkey.attestation import Unattested, examine
from greatseal_passkey.keys import ALGORITHMS, cose_of, spki_of
from greatseal_passkey.models import Known
from greatseal_passkey.settings import RelyingParty

LONGEST_ID = 1023
"""Bytes of a credential id (WebAuthn s6.5.1)."""
_FIXED = 37
"""Bytes of authenticator data before what may follow: the hash of the RP ID, flags and counter (s6.1)."""
_AT, _ED = 0x40, 0x80
_SUPPORTED = [COSEAlgorithmIdentifier(number) for number in ALGORITHMS]


class Unproven(ValueError):
    """The ceremony does not prove what it should. The text is for the log."""


_NAMES = {"client_data": "clientDataJSON"}


def _named(name: str) -> str:
    """The member of a field: as everywhere in WebAuthn, in camel case."""
    first, *others = name.split("_")
    return _NAMES.get(name) or first + "".join(map(str.capitalize, others))


class Attestation(msgspec.Struct, frozen=True, rename=_named):
    """``AuthenticatorAttestationResponseJSON`` (s5.1.8.1)."""

    client_data: str
    attestation_object: str
    transports: tuple[str, ...] = ()


class Registration(msgspec.Struct, frozen=True, rename={"raw_id": "rawId"}):
    """``RegistrationResponseJSON``, with the name that the person gives the passkey."""

    id: str
    raw_id: str
    type: Literal["public-key"]
    response: Attestation
    label: str | None = None
    challenge_id: str | None = None


class Assertion(msgspec.Struct, frozen=True, rename=_named):
    """``AuthenticatorAssertionResponseJSON`` (s5.1.8.2)."""

    client_data: str
    authenticator_data: str
    signature: str
    user_handle: str | None = None


class Authentication(msgspec.Struct, frozen=True, rename={"raw_id": "rawId"}):
    """``AuthenticationResponseJSON``, with where the person wants to go."""

    id: str
    raw_id: str
    type: Literal["public-key"]
    response: Assertion
    challenge_id: str | None = None
    return_to: str | None = None


class _ClientData(msgspec.Struct, frozen=True, rename=_named):
    type: str
    challenge: str
    origin: str
    cross_origin: bool = False
    top_origin: str | None = None


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A new credential."""

    id: bytes
    public_key: bytes
    sign_count: int
    aaguid: str
    backup_eligible: bool
    backup_state: bool
    model: str | None = None
    """What the device is called, where its attestation was looked at."""


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """What an assertion shows, whose signature is right."""

    sign_count: int
    verified: bool
    backup_eligible: bool
    backup_state: bool


def challenge_of(client_data: str) -> bytes:
    """The challenge that the browser was given. Raises Unproven; of a page inside another one too (s13.4.9)."""
    try:
        said = msgspec.json.decode(b64url_decode(client_data), type=_ClientData)
        challenge = b64url_decode(said.challenge)
    except (ValueError, RecursionError) as error:
        raise Unproven("clientDataJSON cannot be read") from error
    if said.cross_origin or said.top_origin is not None:
        raise Unproven("it comes of a page inside another one")
    return challenge


def id_of(given: Registration | Authentication) -> bytes:
    """The credential id. Raises Unproven."""
    try:
        id = b64url_decode(given.id)
    except ValueError as error:
        raise Unproven("the id is not base64url") from error
    if not 0 < len(id) <= LONGEST_ID:
        raise Unproven("the id is empty or too long")
    return id


def register(given: Registration, party: RelyingParty, challenge: bytes, models: Known | None = None, now: int = 0) -> Registered:
    """A new credential. With ``models`` its device is one of them at ``now`` (microseconds), and its attestation proves it.

    Without, no attestation was asked for, and one that comes all the same is not looked at. Raises Unproven, and Unattested for a device
    that may not be used.
    """
    try:
        members, data = _members(given.response.attestation_object)
        examined = None if models is None else examine(members, data, models, now)
        whole = encode_cbor({"fmt": "none", "attStmt": {}, "authData": data}) if examined is None else examined.object
        response = {"clientDataJSON": given.response.client_data, "attestationObject": b64url_encode(whole)}
        verified = verify_registration_response(
            credential={"id": given.id, "rawId": given.raw_id, "type": given.type, "response": response},
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=list(party.origins),
            require_user_verification=party.verified,
            supported_pub_key_algs=_SUPPORTED,
            pem_root_certs_bytes_by_fmt=None if examined is None else examined.roots,
        )
        public_key = spki_of(verified.credential_public_key)
    except (Unattested, Unproven):
        raise
    except Exception as error:  # three libraries read what somebody made up
        raise Unproven(_words(error)) from error
    if verified.credential_id != id_of(given):
        raise Unproven("the id is that of another credential")
    return Registered(
        id=verified.credential_id,
        public_key=public_key,
        sign_count=verified.sign_count,
        aaguid=verified.aaguid,
        backup_eligible=verified.credential_device_type is CredentialDeviceType.MULTI_DEVICE,
        backup_state=verified.credential_backed_up,
        model=None if examined is None else examined.model.name or None,
    )


def prove(given: Authentication, party: RelyingParty, challenge: bytes, public_key: bytes) -> Proven:
    """What an assertion by the key shows. The counter is compared where it is stored. Raises Unproven."""
    sent = given.response
    response = {"clientDataJSON": sent.client_data, "authenticatorData": sent.authenticator_data, "signature": sent.signature}
    try:
        _check_data(b64url_decode(sent.authenticator_data), attested=False)
        verified = verify_authentication_response(
            credential={"id": given.id, "rawId": given.raw_id, "type": given.type, "response": response},
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=list(party.origins),
            credential_public_key=cose_of(public_key),
            credential_current_sign_count=0,
            require_user_verification=party.verified,
        )
    except (WebAuthnException, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise Unproven(_words(error)) from error
    return Proven(
        sign_count=verified.new_sign_count,
        verified=verified.user_verified,
        backup_eligible=verified.credential_device_type is CredentialDeviceType.MULTI_DEVICE,
        backup_state=verified.credential_backed_up,
    )


def _members(attestation_object: str) -> tuple[Mapping[str, bytes], bytes]:
    """The members of an attestation object (s6.5.4), each as it is encoded, and its authenticator data. Raises Unproven."""
    try:
        members = cbor.members_of(b64url_decode(attestation_object))
        if members.keys() != {"fmt", "attStmt", "authData"}:
            raise cbor.NotCanonical("it has other members than fmt, attStmt and authData")
        data = cbor.text_of(members["authData"])
        _check_data(data, attested=True)
    except ValueError as error:
        raise Unproven(f"attestationObject: {error}") from error
    return members, data


def _check_data(data: bytes, *, attested: bool) -> None:
    """The CBOR in authenticator data (s6.1). Raises NotCanonical."""
    if len(data) < _FIXED or bool(data[32] & _AT) is not attested:
        raise cbor.NotCanonical("authenticator data is of another length or kind")
    offset = _FIXED
    if attested:
        offset += 18 + int.from_bytes(data[offset + 16 : offset + 18])
        offset = cbor.end_of(data, offset)
    if data[32] & _ED:
        offset = cbor.end_of(data, offset)
    if offset != len(data):
        raise cbor.NotCanonical("something follows authenticator data")


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
