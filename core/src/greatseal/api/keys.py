"""Signing keys: signers, rings and stores."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from greatseal.api.store import Tx

KeyState = Literal["active", "retained", "revoked"]
HashAlg = Literal["sha256", "sha384", "sha512"]
_STORED = re.compile(r"([A-Za-z][A-Za-z0-9-]+):(.+)", re.DOTALL)


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The public half of a key's record. ``algorithm`` is a key type: ``ec:P-256``, ``ec:P-384``, ``rsa:2048`` to ``rsa:4096``,
    ``ed25519``, ``ml-dsa-44``, ``ml-dsa-65``, ``ml-dsa-87``. Moments are microseconds. ``store`` is the name of the :class:`KeyStore` that
    holds the private half, None where it is sealed in the database or in a file."""

    kid: str
    purpose: str
    algorithm: str
    state: KeyState
    created_at: int
    spki: bytes
    store: str | None = None


WithKey = Callable[[Tx, KeyInfo], object]
"""What commits with the change of a key, such as its audit event; it is given the key's record."""


class ClusterKeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What may be known of the key that seals all others. ``key_id`` is a UUID, ``rotated_at`` microseconds."""

    key_id: str
    rotated_at: int


WithClusterKey = Callable[[Tx, ClusterKeyInfo], object]
"""What commits with a rotation of the cluster key, such as its audit event."""


class Signer(Protocol):
    """A private key that never leaves its store."""

    @property
    def info(self) -> KeyInfo:
        """The public half of the key's record."""

    @property
    def public_key(self) -> PublicKeyTypes:
        """The public key, for building and checking."""

    @property
    def deterministic(self) -> bool:
        """Whether the same input always gives the same signature (ECDSA by RFC 6979, RSA PKCS#1, Ed25519)."""

    async def sign(self, message: bytes, *, hash_alg: HashAlg | None = None) -> bytes:
        """The signature in the form that X.509 uses: ECDSA as DER with the curve's hash, RSA PKCS#1 v1.5 with SHA-256, else raw.

        ``hash_alg`` is another hash for ECDSA and RSA; the other algorithms have one of their own and pay no heed to it.
        """

    async def sign_jose(self, message: bytes) -> bytes:
        """The signature in the form that JOSE uses: ES256, ES384, EdDSA, RS256 or ML-DSA, by the type of the key."""


@runtime_checkable
class Decrypter(Protocol):
    """A private key that opens what others encrypted to it, and never leaves its store: what a :class:`Signer` may be besides.

    Keys in memory are, each as far as its type goes: EC keys agree, RSA keys decrypt. A ring for encryption has keys that never sign.
    """

    @property
    def info(self) -> KeyInfo:
        """The public half of the key's record."""

    async def agree(self, public: EllipticCurvePublicKey) -> bytes:
        """The shared secret of ECDH, the x coordinate (RFC 7518 s4.6.2). Raises ValueError for a key of another type or curve."""

    async def decrypt(self, ciphertext: bytes, *, hash_alg: Literal["sha1", "sha256"]) -> bytes:
        """What was encrypted with RSAES-OAEP and that hash, in both of its places (RFC 7518 s4.3).

        Raises ValueError for every ciphertext that is none of this key, and for a key of another type.
        """


class KeyRing(Protocol):
    """The keys of one purpose, a snapshot that is replaced whole on change."""

    @property
    def active(self) -> Signer | None:
        """The key that signs now; None before the first active one and after a revocation."""

    def all(self) -> tuple[Signer, ...]:
        """Every key that is not revoked, newest first."""

    async def make(self, algorithm: str, *, store: str | None = None, also: WithKey | None = None) -> Signer:
        """Make a key in the key store of that name, or sealed in the database. ``also`` runs in the transaction that records it.

        It signs from now on and the one before is retained. Raises ValueError for an unknown key type or store, and what the store raises.
        """

    async def revoke(self, kid: str, *, also: WithKey | None = None) -> bool:
        """Revoke for ever and destroy the private half; False when the kid is unknown. ``also`` runs in the same transaction."""


def in_store(reference: str) -> tuple[str, str] | None:
    """The name of the :class:`KeyStore` in a setting that names a key, and the words for it; None for the path of a file."""
    found = _STORED.fullmatch(reference)
    return (found[1], found[2]) if found else None


class Keys(Protocol):
    """All key rings of this node, and sealing under the cluster key."""

    def ring(self, purpose: str) -> KeyRing:
        """The ring of ``purpose``, for example ``ca:default:issuing``."""

    def from_file(self, path: Path, *, purpose: str, password: bytes | None = None) -> Signer:
        """A signer of a PEM private key that the operator brought; its kid is the RFC 7638 thumbprint. In no ring.

        Raises StartProblem, one line, when the file is readable by others, no private key, or of another key type than those of
        :class:`KeyInfo`.
        """

    async def signer(self, reference: str, *, purpose: str, password: bytes | None = None) -> Signer:
        """The key that a setting names: the path of a file, as :meth:`from_file`, or ``<name of a key store>:<what it calls the key>``.

        In no ring. A path with a colon after its first word begins with ``./`` or ``/``. Raises StartProblem for a store that no plugin
        provides, with those that are known, for a key that is not there, and for a password where a store holds the key.
        """

    async def load(self) -> None:
        """Read all rings as they are now: at the start, when another process may have made a key a moment ago."""

    def cluster_key(self) -> ClusterKeyInfo:
        """The cluster key in force: never the key itself."""

    async def rotate_cluster_key(self, secret: bytes | None = None, *, also: WithClusterKey | None = None) -> ClusterKeyInfo:
        """Put a new cluster key in force, 32 bytes, a random one for None. Everything is sealed again under it before this returns.

        ``also`` runs in the transaction that puts it in force. Raises BadRequest for a secret of another size and for the one in force,
        Unavailable when its file cannot be written.
        """

    def seal(self, secret: bytes, *, table: str, row: str, field: str) -> bytes:
        """AES-256-GCM under the cluster key, bound to its place. For columns declared ``Sealed``.

        ``table`` and ``field`` are the names of table and column, ``row`` the text of the primary key, of several columns joined by
        ``/``: a rotation of the cluster key finds them by these names. Seal in the transaction that stores it, or with nothing awaited
        before its ``db.write``: what is sealed and put aside may be under a key that is gone when it is stored.
        """

    def open(self, sealed: bytes, *, table: str, row: str, field: str) -> bytes:
        """The secret back; raises Internal when key or place is another."""


class BlockedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A public key that nobody may use any more. ``spki_sha256`` is :func:`greatseal.jose.acceptance.spki_sha256` of it.

    ``reason`` is shown to whoever uses the key; ``blocked_at`` is microseconds.
    """

    spki_sha256: str
    reason: str
    blocked_by: str
    blocked_at: int


class BlockedKeys(Protocol):
    """Public keys that nobody may use any more, because others have the private half: blocked by operators, and by revocations.

    Whoever takes a public key from outside asks twice: with :meth:`find` before the work, and with :meth:`find_in` in the transaction
    that records what the key is good for (an account, a certificate). So what is recorded after a block has committed is not for it.
    """

    async def find(self, spki_sha256: str) -> BlockedKey | None:
        """From memory unless it is blocked: fit for every request."""

    def find_in(self, tx: Tx, spki_sha256: str) -> BlockedKey | None:
        """As the transaction sees it."""

    def block(self, tx: Tx, spki_sha256: str, *, reason: str, by: str) -> bool:
        """Block it, with the audit event. False when it is blocked already; the first reason stays.

        For example the revocation of a certificate for keyCompromise does so in its own transaction. ``by`` is the acting person, account
        or program. When the caller of ``write`` resumes, :meth:`find` knows it.
        """

    def unblock(self, tx: Tx, spki_sha256: str, *, by: str) -> bool:
        """Let it be used again, with the audit event. False when it is not blocked."""


class KeyStore(ABC):
    """Where private keys rest that are not sealed in the database: hardware, another service, files of another kind.

    A store is asked before the lifespans open, and by ``doctor`` beside the running service: it opens what it needs at the first call and
    closes it in a lifespan of its plugin. Its signers answer for the public half alone; state and purpose are those of the ring.
    """

    name: ClassVar[str]
    """Letters, digits and hyphens, the first a letter: settings name keys as ``<name>:...``."""

    @abstractmethod
    async def make(self, purpose: str, algorithm: str) -> Signer:
        """Make a key whose private half stays in the store. It is there, whatever happens, when this returns.

        Its ``kid`` is by what :meth:`load` finds it again; it is also published with the key, so that the RFC 7638 thumbprint is a good
        one. Raises ValueError for a key type that the store does not have, Unavailable when it cannot be reached. A key that was made and
        never recorded, because the process was killed in between, is never asked for.
        """

    @abstractmethod
    async def load(self, kid: str) -> Signer | None:
        """The key that :meth:`make` made, None when the store does not hold it. Raises Unavailable when it cannot be reached."""

    @abstractmethod
    async def find(self, words: str, *, purpose: str) -> Signer | None:
        """A key that the operator brought, by what stands after ``<name>:`` in a setting; None when the store does not hold it.

        Raises ValueError, with the reason, for words that name no key, Unavailable when the store cannot be reached.
        """

    @abstractmethod
    async def destroy(self, kid: str) -> None:
        """Destroy a key that :meth:`make` made. Called again after a crash, so a key that is gone is destroyed. Raises Unavailable."""
