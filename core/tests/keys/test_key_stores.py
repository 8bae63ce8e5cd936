"""What the rings take from a key store of a plugin, and what they refuse."""

from types import SimpleNamespace

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.api.keys import KeyStore
from greatseal.api.problems import StartProblem, Unavailable
from greatseal.keys.software import KEY_TYPES, SoftwareSigner, info_of
from greatseal.keys.stores import KeyStores
from greatseal.testing.keystores import KeyStoreContract


class Memory(KeyStore):
    """Gives ``signer`` to whoever asks, or raises ``problem``."""

    name = "memory"

    def __init__(self, signer=None, problem=None):
        self.signer, self.problem = signer, problem

    async def make(self, purpose, algorithm):
        return self.signer

    async def load(self, kid):
        return self.signer

    async def find(self, words, *, purpose):
        if self.problem is not None:
            raise self.problem
        return self.signer

    async def destroy(self, kid):
        self.signer = None


@pytest.fixture
def signer(blocking):
    key = KEY_TYPES["ec:P-256"].make()
    return SoftwareSigner(key, info_of(key, purpose="test", created_at=1), blocking)


def stores_with(signer, **changes):
    """A store whose signer answers differently."""
    wrong = SimpleNamespace(info=signer.info, public_key=signer.public_key)
    for name, value in changes.items():
        setattr(wrong, name, value)
    return KeyStores({"memory": Memory(wrong)})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"public_key": KEY_TYPES["ec:P-384"].make().public_key()}, "gave one of the type ec:P-384"),
        ({"public_key": object()}, "gave a key that is not accepted"),
        ({"public_key": KEY_TYPES["ec:P-256"].make().public_key()}, "gave a public key that is not that of its record"),
    ],
)
async def test_a_store_that_gives_another_key_is_a_mistake(signer, changes, expected):
    stores = stores_with(signer, **changes)

    with pytest.raises(ValueError, match=f"'memory' was asked for a key of the type ec:P-256 and {expected}"):
        await stores.make("memory", "test", "ec:P-256")
    with pytest.raises(StartProblem, match=f"memory:x: the key store 'memory' {expected}"):
        await stores.find("memory", "x", purpose="test")


async def test_a_sound_key_is_taken(signer):
    stores = stores_with(signer)

    made = await stores.make("memory", "test", "ec:P-256")

    assert made.info == (await stores.find("memory", "x", purpose="test")).info == signer.info


async def test_a_store_that_calls_its_key_by_another_type_is_a_mistake(signer):
    stores = stores_with(signer, info=msgspec.structs.replace(signer.info, algorithm="ed25519"))

    with pytest.raises(ValueError, match="gave one of the type ec:P-256"):
        await stores.make("memory", "test", "ec:P-256")


async def test_a_store_that_cannot_be_reached_is_named():
    stores = KeyStores({"memory": Memory(problem=Unavailable("busy", cause="no token in slot 3"))})

    with pytest.raises(StartProblem, match="memory:x: the key store cannot be reached: no token in slot 3"):
        await stores.find("memory", "x", purpose="test")


async def test_a_key_of_a_store_that_is_gone_is_destroyed_later():
    with pytest.raises(Unavailable):
        await KeyStores({}).destroy("memory", "kid")


# ---- The contract class, driven by a store in memory and by some that break it


class Chest(KeyStore):
    """Keys in ``keys``, by kid; the operator's is called ``brought``."""

    name = "chest"

    def __init__(self, keys):
        self.keys = keys

    def signer(self, key, purpose):
        return SoftwareSigner(key, info_of(key, purpose=purpose, created_at=0), None)

    async def make(self, purpose, algorithm):
        if algorithm != "ec:P-256":
            raise ValueError("the chest has keys of the type ec:P-256 alone")
        made = self.signer(KEY_TYPES[algorithm].make(), purpose)
        self.keys[made.info.kid] = made
        return made

    async def load(self, kid):
        return self.keys.get(kid)

    async def find(self, words, *, purpose):
        if not words.isalnum():
            raise ValueError("expected one word")
        return self.signer(self.keys[words], purpose) if words in self.keys else None

    async def destroy(self, kid):
        self.keys.pop(kid, None)


class Away(Chest):
    cause = "no token in slot 3"

    async def load(self, *_, **__):
        raise Unavailable("busy", cause=self.cause)

    make = find = destroy = load


class TestChest(KeyStoreContract):
    words, absent, no_words = "brought", "another", ("", "two words")

    @pytest.fixture(autouse=True)
    def _keys(self):
        self.keys, self.kind = {"brought": KEY_TYPES["ec:P-256"].make()}, Chest

    def store(self):
        return self.kind(self.keys)

    def unreachable(self):
        return Away(self.keys)


class Wrong(SoftwareSigner):
    """Signs another message in one of the two forms."""

    async def sign(self, message, *, hash_alg=None):
        return await super().sign(message[1:], hash_alg=hash_alg)


class Random(SoftwareSigner):
    async def sign(self, message, *, hash_alg=None):
        return self._key.sign(message, ec.ECDSA(hashes.SHA256()))


class Bends(Chest):
    """Its signers are of another class."""

    kind = Wrong

    def signer(self, key, purpose):
        return self.kind(key, info_of(key, purpose=purpose, created_at=0), None)


class Unsure(Bends):
    kind = Random


class Forgets(Chest):
    async def load(self, kid):
        return None


class Hoards(Chest):
    async def destroy(self, kid):
        pass


class Empties(Chest):
    async def destroy(self, kid):
        self.keys.clear()


class Stumbles(Chest):
    async def destroy(self, kid):
        del self.keys[kid]


class Guesses(Chest):
    """Has a key for whatever it is asked."""

    async def make(self, purpose, algorithm):
        return await super().make(purpose, "ec:P-256")

    async def load(self, kid):
        return next(iter(self.keys.values()))

    async def find(self, words, *, purpose):
        return self.signer(self.keys["brought"], purpose)


class OneKey(Chest):
    async def make(self, purpose, algorithm):
        return self.signer(self.keys["brought"], purpose)


class Colon(Chest):
    name = "two words"


class Silent(Away):
    cause = ""


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (Bends, "a_key_that_was_made_signs_also_after_a_restart"),
        (Unsure, "a_key_that_was_made_signs_also_after_a_restart"),
        (Forgets, "a_key_that_was_made_signs_also_after_a_restart"),
        (OneKey, "each_key_is_another"),
        (Guesses, "a_type_that_it_does_not_have_is_a_mistake"),
        (Guesses, "a_key_that_it_does_not_hold_is_none"),
        (Bends, "a_key_of_the_operator_is_found_by_its_words"),
        (Guesses, "words_for_no_key_are_none_and_words_that_are_none_are_a_mistake"),
        (Hoards, "a_destroyed_key_is_gone_and_can_be_destroyed_again"),
        (Empties, "a_destroyed_key_is_gone_and_can_be_destroyed_again"),
        (Empties, "a_key_that_is_not_there_is_destroyed"),
        (Stumbles, "a_key_that_is_not_there_is_destroyed"),
    ],
)
async def test_the_contract_notices_a_store_that_breaks_a_promise(kind, promise):
    contract = TestChest()
    contract.keys, contract.kind = {"brought": KEY_TYPES["ec:P-256"].make()}, kind

    with pytest.raises((AssertionError, pytest.fail.Exception, KeyError)):
        await getattr(contract, f"test_{promise}")()


def test_the_contract_notices_a_store_that_no_setting_can_name():
    contract = TestChest()
    contract.keys, contract.kind = {}, Colon

    with pytest.raises(AssertionError, match="cannot name the store"):
        contract.test_declares_itself()


async def test_the_contract_notices_a_store_that_does_not_say_why_it_cannot_be_reached():
    contract = TestChest()
    contract.unreachable = lambda: Silent({})

    with pytest.raises(AssertionError):
        await contract.test_a_store_that_cannot_be_reached_says_so_and_why()
