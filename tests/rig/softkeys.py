"""An authenticator in software, which also does what no real one does (WebAuthn s6): for requests without a browser."""

import json
import secrets
from hashlib import sha256
from typing import Any

from cbor2 import dumps
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.hashes import SHA256

from greatseal.jose.compact import b64url_decode, b64url_encode

UP, UV, BE, BS, AT, ED = 0x01, 0x04, 0x08, 0x10, 0x40, 0x80


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
        attested = bytes(16) + len(self.id).to_bytes(2) + self.id + (dumps(self.cose) if cose is None else cose)
        attestation = {"fmt": self.fmt, "attStmt": self.statement, "authData": self._data(AT | self.more[0], attested + self.more[1])}
        said = {"type": "webauthn.create", "challenge": options["challenge"], "origin": origin, "crossOrigin": False, **client_data}
        response = {"clientDataJSON": _b64(json.dumps(said).encode()), "attestationObject": _b64(dumps(attestation))}
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
