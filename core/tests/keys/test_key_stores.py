"""What the rings take from a key store of a plugin, and what they refuse."""

from types import SimpleNamespace

import msgspec
import pytest

from greatseal.api.keys import KeyStore
from greatseal.api.problems import StartProblem, Unavailable
from greatseal.keys.software import KEY_TYPES, SoftwareSigner, info_of
from greatseal.keys.stores import KeyStores


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
