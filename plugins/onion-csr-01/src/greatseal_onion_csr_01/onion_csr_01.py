"""onion-csr-01 (RFC 9799 s3.2): a certificate request that the key of the onion service signed."""

import secrets
import string
from base64 import b64decode
from collections.abc import Mapping

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from greatseal.api.acme import VALID, Attempt, BadCsr, Challenge, ChallengeValidator, Identifier, Verdict
from greatseal.api.issuance import Finalization, FinalizeCheck
from greatseal.api.problems import BadRequest, IncorrectResponse
from greatseal.api.store import Tx
from greatseal.jose.compact import b64url_decode
from greatseal.net import is_onion, onion_key
from greatseal_onion_csr_01.request import check
from greatseal_onion_csr_01.settings import OnionAddresses

_ALPHABET = string.ascii_letters + string.digits
NONCE_CHARACTERS = 24
"""Of letters and digits alone the text is the same in base64 and base64url, with padding and without: 142 random bits in 18 bytes."""


class OnionResponse(msgspec.Struct, frozen=True):
    """The nonce of the challenge as it is shown, and the request (DER) as soon as the client sent it."""

    nonce: str
    csr: bytes = b""


class OnionCsr01(ChallengeValidator):
    """Nothing is connected to: the address is made of the key that signs."""

    type = "onion-csr-01"
    identifier_types = frozenset({"dns"})
    wildcard = True
    kept_as = OnionResponse

    def __init__(self, settings: OnionAddresses) -> None:
        self.verify_checksum = settings.onion_verify_checksum

    def offers(self, identifier: Identifier) -> bool:
        return is_onion(identifier.value)

    def create(self, tx: Tx, challenge: Challenge) -> OnionResponse:  # noqa: ARG002
        return OnionResponse("".join(secrets.choice(_ALPHABET) for _ in range(NONCE_CHARACTERS)))

    def members(self, challenge: Challenge) -> dict[str, object]:
        return {"token": challenge.token, "nonce": challenge.kept.nonce}

    def accept(self, tx: Tx, challenge: Challenge, payload: Mapping[str, object]) -> OnionResponse:  # noqa: ARG002
        csr = payload.get("csr")
        if not isinstance(csr, str):
            raise BadRequest("csr is missing, or no text; send the DER of a CSR that the key of the onion service signed, in base64url")
        try:
            return OnionResponse(challenge.kept.nonce, b64url_decode(csr))
        except ValueError as error:
            raise BadRequest(f"csr is {error}") from None

    async def validate(self, attempt: Attempt) -> Verdict:
        name = attempt.identifier.value
        try:
            key = onion_key(name, verify_checksum=self.verify_checksum)
        except ValueError as error:
            raise IncorrectResponse(f"{name}: {error}") from None
        names = (name, f"*.{name}") if attempt.challenge.wildcard else (name,)
        kept: OnionResponse = attempt.kept
        try:
            check(kept.csr, key, names, key_authorization=attempt.key_authorization, nonce=b64decode(kept.nonce))
        except ValueError as error:
            raise IncorrectResponse(f"{name}: the CSR {error}") from None
        return VALID


class OnionKeyCheck(FinalizeCheck):
    """The key of an onion service signs its descriptors, and nothing else (RFC 9799 s3.2)."""

    name = "onion-key"
    phase = "csr"

    async def check(self, finalization: Finalization) -> None:
        assert finalization.csr is not None
        key = finalization.csr.public_key
        for proven in finalization.identifiers:
            name = proven.identifier.base
            if (
                proven.validated_by == OnionCsr01.type
                and isinstance(key, Ed25519PublicKey)
                and key.public_bytes_raw() == onion_key(name, verify_checksum=False).public_bytes_raw()
            ):
                raise BadCsr(f"the key of the request is that of the onion service {name}; make another one (RFC 9799 s3.2)")
