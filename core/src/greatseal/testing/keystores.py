"""What every key store must do, as a test class to inherit."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal.api.keys import KeyStore, Signer, in_store
from greatseal.api.problems import Unavailable
from greatseal.jose.algorithms import ALGORITHMS, verify
from greatseal.jose.jwk import algorithms_of

__all__ = ["KeyStoreContract"]

MESSAGE = b"what is signed"
NO_TYPES = ("", "rsa:1", "ec:P-256 ", "dsa:2048", "ec:p-256")
NO_KIDS = ("nobody", "x" * 43, "A-_" * 14, "0193a8c0-0000-8000-8000-000000000001")


class KeyStoreContract(ABC):
    """Inherit, say how to open the store and what the operator brought, and the rest is tested.

    .. code-block:: python

        class TestPkcs11(KeyStoreContract):
            words, absent, no_words = "object=brought", "object=nothing", ("object", "")

            def store(self):
                return Pkcs11(module=SOFTHSM, token=self.token)
    """

    algorithm: ClassVar[str] = "ec:P-256"
    """A key type that the store makes."""
    words: str
    """What names a key that the operator brought."""
    absent: str
    """What could name one, and none is there."""
    no_words: Sequence[str] = ()
    """What names no key, whatever the operator brings."""

    @abstractmethod
    def store(self) -> KeyStore:
        """The store, opened anew each time, as after a restart."""

    def unreachable(self) -> KeyStore | None:
        """One that cannot be reached now; None where that cannot be."""
        return None

    def test_declares_itself(self) -> None:
        name = self.store().name

        assert in_store(f"{name}:{self.words}") == (name, self.words), "a setting cannot name the store"

    async def test_a_key_that_was_made_signs_also_after_a_restart(self) -> None:
        made = await self.store().make("test", self.algorithm)

        assert made.info.kid
        assert made.info.algorithm == self.algorithm
        await _check(made)
        loaded = await self.store().load(made.info.kid)
        assert loaded is not None, "the store does not find the key that it made"
        assert loaded.info.kid == made.info.kid
        assert _spki(loaded) == _spki(made)
        await _check(loaded)

    async def test_each_key_is_another(self) -> None:
        store = self.store()
        one, other = [await store.make("test", self.algorithm) for _ in range(2)]

        assert one.info.kid != other.info.kid
        assert _spki(one) != _spki(other)

    async def test_a_type_that_it_does_not_have_is_a_mistake(self) -> None:
        for algorithm in NO_TYPES:
            with pytest.raises(ValueError, match=r"."):
                await self.store().make("test", algorithm)

    async def test_a_key_that_it_does_not_hold_is_none(self) -> None:
        for kid in NO_KIDS:
            assert await self.store().load(kid) is None, kid

    async def test_a_key_of_the_operator_is_found_by_its_words(self) -> None:
        found = await self.store().find(self.words, purpose="ca")

        assert found is not None
        assert found.info.purpose == "ca"
        await _check(found)
        again = await self.store().find(self.words, purpose="ca")
        assert again is not None
        assert _spki(again) == _spki(found)

    async def test_words_for_no_key_are_none_and_words_that_are_none_are_a_mistake(self) -> None:
        assert await self.store().find(self.absent, purpose="ca") is None
        for words in self.no_words:
            with pytest.raises(ValueError, match=r"."):
                await self.store().find(words, purpose="ca")

    async def test_a_destroyed_key_is_gone_and_can_be_destroyed_again(self) -> None:
        kept = await self.store().make("test", self.algorithm)
        made = await self.store().make("test", self.algorithm)

        for _ in range(2):
            await self.store().destroy(made.info.kid)

        assert await self.store().load(made.info.kid) is None
        assert await self.store().load(kept.info.kid) is not None, "another key went with it"

    async def test_a_key_that_is_not_there_is_destroyed(self) -> None:
        for kid in NO_KIDS:
            await self.store().destroy(kid)
        assert await self.store().find(self.words, purpose="ca") is not None

    async def test_a_store_that_cannot_be_reached_says_so_and_why(self) -> None:
        store = self.unreachable()
        if store is None:
            pytest.skip("it can always be reached")

        asked = (
            (store.load, "x"),
            (store.destroy, "x"),
            (partial(store.make, "test"), self.algorithm),
            (partial(store.find, purpose="ca"), "x"),
        )
        for method, argument in asked:
            with pytest.raises(Unavailable) as raised:
                await method(argument)
            assert raised.value.cause


async def _check(signer: Signer) -> None:
    """Both forms of its signature are right, and the same each time where it says so."""
    key: Any = signer.public_key
    assert signer.info.spki == _spki(signer)
    name = algorithms_of(key)[0]
    jose, plain = await signer.sign_jose(MESSAGE), await signer.sign(MESSAGE)
    verify(name, key, MESSAGE, jose)
    try:
        match key:
            case ec.EllipticCurvePublicKey():
                key.verify(plain, MESSAGE, ec.ECDSA(_hash_of(key)))
            case rsa.RSAPublicKey():
                key.verify(plain, MESSAGE, padding.PKCS1v15(), hashes.SHA256())
            case _:
                ALGORITHMS[name].check(key, MESSAGE, plain)
    except InvalidSignature:
        pytest.fail("sign gave a signature that is not right in X.509")
    if signer.deterministic:
        assert await signer.sign(MESSAGE) == plain, "it says deterministic and gave another signature"


def _hash_of(key: ec.EllipticCurvePublicKey) -> hashes.HashAlgorithm:
    return {"secp256r1": hashes.SHA256(), "secp384r1": hashes.SHA384()}[key.curve.name]


def _spki(signer: Signer) -> bytes:
    return signer.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
