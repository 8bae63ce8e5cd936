"""A stranger's key store in one file: PEM files in a folder. And routes that make, revoke and use keys of a ring in it."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat, load_pem_private_key

from greatseal import hookimpl
from greatseal.api.declarations import Owns
from greatseal.api.http import Call, Reply, Route
from greatseal.api.keys import HashAlg, KeyInfo, KeyRing, KeyStore, Signer
from greatseal.api.problems import NotFound, Unavailable
from greatseal.host import Host
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.jwk import thumbprint_of


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """[folder-keys]"""

    path: Path


class FileSigner:
    """An EC P-256 key that was read from a file."""

    deterministic = True

    def __init__(self, key: ec.EllipticCurvePrivateKey, purpose: str) -> None:
        self._key = key
        self.public_key = key.public_key()
        spki = self.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        kid = thumbprint_of(self.public_key)
        self.info = KeyInfo(kid=kid, purpose=purpose, algorithm="ec:P-256", state="active", created_at=0, spki=spki)

    async def sign(self, message: bytes, *, hash_alg: HashAlg | None = None) -> bytes:
        digest = {None: hashes.SHA256(), "sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512()}[hash_alg]
        return self._key.sign(message, ec.ECDSA(digest, deterministic_signing=True))

    async def sign_jose(self, message: bytes) -> bytes:
        return ALGORITHMS["ES256"].sign(self._key, message)


class FolderKeys(KeyStore):
    """``folder:<name>`` is the file ``<name>.pem``; keys that were made here are named by their thumbprint."""

    name = "folder"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def make(self, purpose: str, algorithm: str) -> Signer:
        if algorithm != "ec:P-256":
            raise ValueError(f"the folder has keys of the type ec:P-256 alone, not {algorithm}")
        key = ec.generate_private_key(ec.SECP256R1())
        signer = FileSigner(key, purpose)
        self._file(signer.info.kid).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return signer

    async def load(self, kid: str) -> Signer | None:
        return self._read(kid, "")

    async def find(self, words: str, *, purpose: str) -> Signer | None:
        if not words.isalnum():
            raise ValueError("expected the name of a file without .pem")
        return self._read(words, purpose)

    async def destroy(self, kid: str) -> None:
        self._file(kid).unlink(missing_ok=True)

    def _read(self, name: str, purpose: str) -> Signer | None:
        file = self._file(name)
        if not file.exists():
            return None
        key = load_pem_private_key(file.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return FileSigner(key, purpose)

    def _file(self, name: str) -> Path:
        if not self._folder.is_dir():
            raise Unavailable("the keys cannot be read now", cause=f"{self._folder} is not mounted")
        return self._folder / f"{name}.pem"


class Plugin:
    """Keys in a folder."""

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("folder-keys", Settings)]

    @hookimpl
    def key_stores(self, host: Host) -> Sequence[KeyStore]:
        return [FolderKeys(host.settings(Settings).path)]

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        def ring() -> KeyRing:
            return host.keys.ring("stranger")

        async def listed(call: Call) -> Reply:  # a handler's parameter
            active = ring().active
            keys = [{"kid": one.info.kid, "state": one.info.state, "store": one.info.store} for one in ring().all()]
            return Reply.json({"keys": keys, "active": active.info.kid if active else None})

        async def made(call: Call) -> Reply:
            signer = await ring().make("ec:P-256", store="folder")
            return Reply.json({"kid": signer.info.kid, "spki": signer.info.spki.hex()}, status=201)

        async def revoked(call: Call) -> Reply:
            await ring().revoke(call.path["kid"])
            return await listed(call)

        async def signed(call: Call) -> Reply:
            signer = ring().active
            if signer is None:
                raise NotFound("there is no active key")
            return Reply.json({"kid": signer.info.kid, "signature": (await signer.sign_jose(await call.raw())).hex()})

        return [
            Route("GET", "/keys", listed),
            Route("POST", "/keys", made, content_types=()),
            Route("DELETE", "/keys/{kid}", revoked),
            Route("POST", "/sign", signed, content_types=()),
        ]
