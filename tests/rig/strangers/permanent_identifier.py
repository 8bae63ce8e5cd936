"""A stranger's identifier type in one file: the permanent identifier of a device, proven by what the device says of the account's key."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec
from cryptography import x509

from greatseal import der, hookimpl
from greatseal.api.acme import VALID, Attempt, Challenge, ChallengeValidator, RejectedIdentifier, Verdict
from greatseal.api.issuance import IdentifierType
from greatseal.api.problems import BadRequest, IncorrectResponse
from greatseal.api.store import Tx

# RFC 4043 s2: id-on-permanentIdentifier
NAME = x509.ObjectIdentifier("1.3.6.1.5.5.7.8.3")


class PermanentIdentifier(IdentifierType):
    """A serial number of letters, digits and hyphens, in upper case."""

    type = "permanent-identifier"

    def canonical(self, value: str) -> str:
        if not 0 < len(value) <= 64 or not value.isascii() or not value.replace("-", "").isalnum():
            raise RejectedIdentifier("a permanent identifier has up to 64 letters, digits and hyphens")
        return value.upper()

    def general_name(self, value: str) -> x509.GeneralName:
        return x509.OtherName(NAME, der.sequence(bytes((0x0C, len(value))) + value.encode()))

    def of(self, name: x509.GeneralName) -> str | None:
        if not isinstance(name, x509.OtherName) or name.type_id != NAME:
            return None
        try:
            (value,) = der.children(name.value)
            return self.canonical(der.content(value).decode())
        except (ValueError, RejectedIdentifier):
            raise ValueError("a permanent identifier that no device has") from None


class Attested(msgspec.Struct, frozen=True):
    """What the device said."""

    statement: str


class DeviceAttest01(ChallengeValidator):
    """The device says the digest of the key authorization."""

    type = "device-attest-01"
    identifier_types = frozenset({"permanent-identifier"})
    kept_as = Attested

    def accept(self, tx: Tx, challenge: Challenge, payload: Mapping[str, object]) -> Attested:
        statement = payload.get("attObj")
        if not isinstance(statement, str):
            raise BadRequest("attObj is missing; send what the device says of the key authorization")
        return Attested(statement)

    async def validate(self, attempt: Attempt) -> Verdict:
        if attempt.kept.statement != sha256(attempt.key_authorization.encode()).hexdigest():
            raise IncorrectResponse("the device speaks of another key")
        return VALID


class Plugin:
    """The type and its challenge."""

    @hookimpl
    def identifier_types(self) -> Sequence[IdentifierType]:
        return [PermanentIdentifier()]

    @hookimpl
    def challenge_validators(self) -> Sequence[ChallengeValidator]:
        return [DeviceAttest01()]
