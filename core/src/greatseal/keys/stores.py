"""Key stores that plugins bring: what the rings ask of them, and what is checked of their answers."""

from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal.api.keys import Decrypter, KeyInfo, KeyStore, Signer
from greatseal.api.problems import StartProblem, Unavailable
from greatseal.jose.acceptance import accept_public_key
from greatseal.keys.software import algorithm_of

__all__ = ["KeyStores", "Recorded"]


class Recorded:
    """The signer of a key store under the record of the ring."""

    def __init__(self, signer: Signer, info: KeyInfo) -> None:
        self._signer = signer
        self.info = info
        self.sign = signer.sign
        self.sign_jose = signer.sign_jose

        if isinstance(signer, Decrypter):
            self.agree, self.decrypt = signer.agree, signer.decrypt

    @property
    def public_key(self) -> PublicKeyTypes:
        return self._signer.public_key

    @property
    def deterministic(self) -> bool:
        return self._signer.deterministic

    def with_info(self, info: KeyInfo) -> "Recorded":
        """The same key under a changed record."""
        return Recorded(self._signer, info)


class KeyStores:
    """The stores of the enabled plugins, by name."""

    def __init__(self, stores: Mapping[str, KeyStore]) -> None:
        self._stores = stores

    async def make(self, name: str, purpose: str, algorithm: str) -> Signer:
        """A new key. Raises ValueError for an unknown store, and for one that made another key than it was asked for."""
        if name not in self._stores:
            raise ValueError(f"the key store {name!r} is unknown; known: {self._known()}")
        signer = await self._stores[name].make(purpose, algorithm)
        if reason := _unsound(signer, algorithm):
            raise ValueError(f"the key store {name!r} was asked for a key of the type {algorithm} and {reason}")
        return signer

    async def load(self, info: KeyInfo) -> Recorded:
        """The key of a record. Raises StartProblem when it cannot be had."""
        place = f"the key {info.kid} of {info.purpose} is in the key store {info.store!r}"
        store = self._stores.get(info.store or "")
        if store is None:
            raise StartProblem(f"{place}, which no enabled plugin provides; enable the one that does")
        try:
            signer = await store.load(info.kid)
        except Unavailable as problem:
            raise StartProblem(f"{place}, which cannot be reached: {problem.cause or problem.detail}") from None
        if signer is None:
            raise StartProblem(f"{place}, which does not hold it; put it back")
        if _spki(signer) != info.spki:
            raise StartProblem(f"{place}, which has another key of that name; put back the right one")
        return Recorded(signer, info)

    async def find(self, name: str, words: str, *, purpose: str) -> Signer:
        """The key that a setting names. Raises StartProblem."""
        store = self._stores.get(name)
        if store is None:
            raise StartProblem(f"{name}:{words}: no enabled plugin provides the key store {name!r}; known: {self._known()}")
        try:
            signer = await store.find(words, purpose=purpose)
        except Unavailable as problem:
            raise StartProblem(f"{name}:{words}: the key store cannot be reached: {problem.cause or problem.detail}") from None
        except ValueError as error:
            raise StartProblem(f"{name}:{words}: {error}") from None
        if signer is None:
            raise StartProblem(f"{name}:{words}: the key store {name!r} has no such key")
        if reason := _unsound(signer, signer.info.algorithm):
            raise StartProblem(f"{name}:{words}: the key store {name!r} {reason}")
        return signer

    async def destroy(self, name: str, kid: str) -> None:
        """Raises Unavailable when it cannot be done now."""
        if name not in self._stores:
            raise Unavailable("the key cannot be destroyed now", cause=f"no enabled plugin provides the key store {name!r}")
        await self._stores[name].destroy(kid)

    def _known(self) -> str:
        return ", ".join(self._stores) or "none"


def _unsound(signer: Signer, algorithm: str) -> str | None:
    """What a store did wrong."""
    try:
        found = algorithm_of(accept_public_key(signer.public_key))
    except ValueError as error:
        return f"gave a key that is not accepted: {error}"
    if found != algorithm or signer.info.algorithm != algorithm:
        return f"gave one of the type {found}"
    return None if _spki(signer) == signer.info.spki else "gave a public key that is not that of its record"


def _spki(signer: Signer) -> bytes:
    return signer.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
