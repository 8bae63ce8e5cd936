"""An authenticator in software, which also does what no real one does (WebAuthn s6): for requests without a browser."""

import json
import secrets
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from cbor2 import dumps
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import (
    BasicConstraints,
    Certificate,
    CertificateBuilder,
    Name,
    NameAttribute,
    NameOID,
    ObjectIdentifier,
    SubjectKeyIdentifier,
    UnrecognizedExtension,
    random_serial_number,
)

from greatseal.jose.compact import b64url_decode, b64url_encode

UP, UV, BE, BS, AT, ED = 0x01, 0x04, 0x08, 0x10, 0x40, 0x80


class Maker:
    """A maker of devices: its authority, and one model whose devices share a certificate (WebAuthn s8.2.1)."""

    def __init__(self, name: str = "Example Key 1", aaguid: bytes = b"example key mk 1") -> None:
        self.name = name
        self.aaguid = aaguid
        self.root_key, self.key = generate_private_key(SECP256R1()), generate_private_key(SECP256R1())
        self.root = self.issue("Example Root", self.root_key, ca=True)
        self.certificate = self.issue("Example Key", self.key)
        self.fmt: str = "packed"

    def issue(self, name: str, key: Any, *, ca: bool = False, unit: str = "Authenticator Attestation", aaguid: bytes = b"") -> Certificate:
        """A certificate by the root."""
        parts = ((NameOID.COUNTRY_NAME, "AT"), (NameOID.ORGANIZATION_NAME, "Example"), (NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
        subject = Name([*(NameAttribute(*part) for part in parts), NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        built = CertificateBuilder().subject_name(subject).issuer_name(subject if ca else self.root.subject).public_key(key.public_key())
        built = (
            built.serial_number(random_serial_number()).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=9))
        )
        built = built.add_extension(BasicConstraints(ca=ca, path_length=None), critical=True)
        if not ca:
            of_model = UnrecognizedExtension(ObjectIdentifier("1.3.6.1.4.1.45724.1.1.4"), b"\x04\x10" + (aaguid or self.aaguid))
            built = built.add_extension(of_model, critical=False)
        return built.sign(self.root_key, SHA256())

    def statement(self, key: "SoftKey", data: bytes, client_data: bytes) -> dict[str, Any]:
        """The attestation statement for a new credential."""
        x5c = [self.certificate.public_bytes(Encoding.DER)]
        if self.fmt == "packed":
            return {"alg": -7, "sig": self.key.sign(data + sha256(client_data).digest(), ECDSA(SHA256())), "x5c": x5c}
        point = b"\x04" + key.cose[-2] + key.cose[-3]
        signed = b"\0" + data[:32] + sha256(client_data).digest() + key.id + point
        return {"sig": self.key.sign(signed, ECDSA(SHA256())), "x5c": x5c}

    def metadata(self, *reports: str, **more: Any) -> dict[str, Any]:
        """What the metadata service says of the model (FIDO Metadata Service s3.1)."""
        described = {"description": self.name, "attestationRootCertificates": [b64encode(self.root.public_bytes(Encoding.DER)).decode()]}
        whose: dict[str, Any] = {"aaguid": str(UUID(bytes=self.aaguid))}
        if self.fmt == "fido-u2f":
            digest = SubjectKeyIdentifier.from_public_key(self.key.public_key()).digest
            whose = {"attestationCertificateKeyIdentifiers": [digest.hex()]}
        entry = {**whose, "metadataStatement": described, "statusReports": [{"status": one} for one in reports]}
        return {"no": 1, "nextUpdate": "2099-01-01", "entries": [entry], **more}


class SoftKey:
    """One credential. ``flags`` and ``counter`` are what it says from now on; ``handle`` is set when it is made for somebody."""

    def __init__(self, *, algorithm: int = -7, id: bytes | None = None, bits: int = 2048) -> None:
        self.algorithm = algorithm
        self.id = id or secrets.token_bytes(32)
        self.key: Any = _make(algorithm, bits)
        self.handle: bytes | None = None
        self.flags = UP | UV
        self.counter = 0
        self.rp_id = "localhost"
        self.fmt: str = "none"
        self.statement: Any = {}
        self.maker: Maker | None = None
        self.more = (0, b"")
        """A flag of the data, and what follows them."""

    @property
    def cose(self) -> dict[int, Any]:
        """The public key (RFC 9052 s7)."""
        public = self.key.public_key()
        match self.algorithm:
            case -7:
                numbers = public.public_numbers()
                return {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)}
            case -8:
                return {1: 1, 3: -8, -1: 6, -2: public.public_bytes_raw()}
            case _:
                numbers = public.public_numbers()
                return {1: 3, 3: -257, -1: numbers.n.to_bytes((numbers.n.bit_length() + 7) // 8), -2: b"\1\0\1"}

    def sign(self, message: bytes) -> bytes:
        """The signature of an assertion (WebAuthn s6.5.5)."""
        match self.algorithm:
            case -7:
                return bytes(self.key.sign(message, ECDSA(SHA256())))
            case -8:
                return bytes(self.key.sign(message))
            case _:
                return bytes(self.key.sign(message, PKCS1v15(), SHA256()))

    def make(self, begun: dict[str, Any], origin: str, *, cose: bytes | None = None, **client_data: Any) -> dict[str, Any]:
        """What a browser sends to register, for the answer of register/begin; ``client_data`` replaces members of what it says."""
        options = begun["publicKey"]
        self.handle = b64url_decode(options["user"]["id"])
        made_by = bytes(16) if self.maker is None or self.maker.fmt == "fido-u2f" else self.maker.aaguid
        attested = made_by + len(self.id).to_bytes(2) + self.id + (dumps(self.cose) if cose is None else cose)
        data = self._data(AT | self.more[0], attested + self.more[1])
        said = {"type": "webauthn.create", "challenge": options["challenge"], "origin": origin, "crossOrigin": False, **client_data}
        text = json.dumps(said).encode()
        fmt, statement = self.fmt, self.statement
        if self.maker is not None:
            fmt, statement = self.maker.fmt, self.maker.statement(self, data, text)
        attestation = {"fmt": fmt, "attStmt": statement, "authData": data}
        response = {"clientDataJSON": _b64(text), "attestationObject": _b64(dumps(attestation))}
        return self._whole({**response, "transports": ["internal", "x-new"]}, begun)

    def answer(self, begun: dict[str, Any], origin: str, **client_data: Any) -> dict[str, Any]:
        """What a browser sends to sign in, for the answer of begin; the counter goes up where there is one."""
        if self.counter:
            self.counter += 1
        said = {"type": "webauthn.get", "challenge": begun["publicKey"]["challenge"], "origin": origin, "crossOrigin": False, **client_data}
        text, data = json.dumps(said).encode(), self._data(*self.more)
        response = {
            "clientDataJSON": _b64(text),
            "authenticatorData": _b64(data),
            "signature": _b64(self.sign(data + sha256(text).digest())),
        }
        return self._whole({**response, **({"userHandle": _b64(self.handle)} if self.handle is not None else {})}, begun)

    def _data(self, more: int = 0, attested: bytes = b"") -> bytes:
        """Authenticator data (WebAuthn s6.1)."""
        return sha256(self.rp_id.encode()).digest() + bytes([self.flags | more]) + self.counter.to_bytes(4) + attested

    def _whole(self, response: dict[str, Any], begun: dict[str, Any]) -> dict[str, Any]:
        id = _b64(self.id)
        return {"challenge_id": begun["challenge_id"], "id": id, "rawId": id, "type": "public-key", "response": response}


def _b64(content: bytes) -> str:
    return b64url_encode(content)


def _make(algorithm: int, bits: int) -> Any:
    match algorithm:
        case -7:
            return generate_private_key(SECP256R1())
        case -8:
            return Ed25519PrivateKey.generate()
        case _:
            return generate_rsa(65537, bits)
