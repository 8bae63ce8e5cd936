"""KeyStore on a token of PKCS#11.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from typing import Protocol

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal.api.keys import HashAlg, KeyInfo, KeyStore, Signer
from greatseal.api.problems import Unavailable
from greatseal.host import Blocking


class Token(Protocol):
    """What the library gives, call by call; OSError when the token is gone."""

    def generate(self) -> str: ...
    def public(self, label: str) -> ec.EllipticCurvePublicKey | None: ...
    def sign(self, label: str, message: bytes) -> bytes: ...
    def destroy(self, label: str) -> None: ...


class TokenSigner:
    """Never leaves the token; each signature is a call in a thread."""

    deterministic = False

    def __init__(self, store: "Pkcs11", label: str, key: ec.EllipticCurvePublicKey, purpose: str) -> None:
        self._store = store
        self._label = label
        self.public_key = key
        spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.info = KeyInfo(kid=label, purpose=purpose, algorithm="ec:P-256", state="active", created_at=0, spki=spki)

    async def sign(self, message: bytes, *, hash_alg: HashAlg | None = None) -> bytes:
        if hash_alg not in {None, "sha256"}:
            raise ValueError("the token signs with SHA-256 alone")
        raw = await self.sign_jose(message)
        return encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))

    async def sign_jose(self, message: bytes) -> bytes:
        return await self._store.signed(self._label, message)


class Pkcs11(KeyStore):
    """``pkcs11:object=<label>``."""

    name = "pkcs11"

    def __init__(self, token: Token, blocking: Blocking) -> None:
        self._token = token
        self._blocking = blocking

    async def make(self, purpose: str, algorithm: str) -> Signer:
        if algorithm != "ec:P-256":
            raise ValueError(f"the token has keys of the type ec:P-256 alone, not {algorithm}")
        label = await self._blocking.run("pkcs11", self._generated)
        made = await self._signer(label, purpose)
        if made is None:
            raise Unavailable("the key cannot be used now", cause=f"{label} is not in the token")
        return made

    async def load(self, kid: str) -> Signer | None:
        return await self._signer(kid, "")

    async def find(self, words: str, *, purpose: str) -> Signer | None:
        name, _, label = words.partition("=")
        if name != "object" or not label:
            raise ValueError("expected object=<label>")
        return await self._signer(label, purpose)

    async def destroy(self, kid: str) -> None:
        await self._blocking.run("pkcs11", self._token.destroy, kid)

    async def signed(self, label: str, message: bytes) -> bytes:
        return await self._blocking.run("pkcs11", self._token.sign, label, message)

    async def _signer(self, label: str, purpose: str) -> Signer | None:
        key = await self._blocking.run("pkcs11", self._token.public, label)
        return None if key is None else TokenSigner(self, label, key, purpose)

    def _generated(self) -> str:
        try:
            return self._token.generate()
        except OSError as error:
            raise Unavailable("the key store cannot be used now", cause=str(error)) from error
