"""What every store of passkeys must do, as a test class to inherit."""

from abc import ABC, abstractmethod
from typing import ClassVar

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal.api.passkeys import MOST_PASSKEYS, Passkey, PasskeysReadOnly, PasskeyStore
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse, Tx

__all__ = ["PasskeyStoreContract", "some_passkey"]

NOBODY = "nobody-of-that-name@EXAMPLE"


def some_passkey(subject: str, id: bytes = b"an id of sixteen", *, user_handle: bytes | None = b"handle") -> Passkey:
    """With a key of P-256."""
    key = generate_private_key(SECP256R1()).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return Passkey(id=id, subject=subject, public_key=key, user_handle=user_handle)


class PasskeyStoreContract(ABC):
    """Inherit, say how to make the store and whom it serves, and the rest is tested.

    .. code-block:: python

        class TestIpaPasskeys(PasskeyStoreContract):
            subject, source = "ann@EXAMPLE", "ipa"

            async def store(self):
                return IpaPasskeys(FakeLdap(), realm="EXAMPLE")
    """

    subject: ClassVar[str]
    source: ClassVar[str | None]
    """The name of the directory that knows ``subject``."""
    held: ClassVar[tuple[Passkey, ...]] = ()
    """What ``subject`` has from the beginning: one at least where the store is read-only."""

    @abstractmethod
    async def store(self) -> PasskeyStore:
        """The same one until the test ends."""

    async def test_declares_itself_and_serves_its_people(self) -> None:
        store = await self.store()

        assert store.name
        assert store.serves(self.subject, self.source)

    async def test_what_it_holds_is_found_by_person_and_by_id(self) -> None:
        store = await self.store()

        assert list(await store.of(self.subject)) == list(self.held)
        for one in self.held:
            assert await store.find(one.id) == one
        assert list(await store.of(NOBODY)) == []
        for id in (b"x", b"\0" * 16, b"*", b"\xff" * 1023):
            assert await store.find(id) is None

    async def test_one_is_added_noted_and_removed(self) -> None:
        store, notes = await self.store(), _Notes()
        if store.read_only:
            return
        for passkey in (some_passkey(self.subject, b"\0\xff/+="), some_passkey(self.subject, b"i" * 1023, user_handle=None)):
            await store.add(passkey, notes.take)

            assert await store.find(passkey.id) == passkey
            assert passkey in await store.of(self.subject)
            assert await store.remove(self.subject, passkey.id, notes.take)
            assert await store.find(passkey.id) is None
            assert not await store.remove(self.subject, passkey.id, notes.take), "there is none any more"
        assert notes.count == 4

    async def test_somebody_elses_is_not_removed(self) -> None:
        store, notes = await self.store(), _Notes()
        if store.read_only:
            return
        passkey = some_passkey(self.subject)
        await store.add(passkey, notes.take)

        assert not await store.remove(NOBODY, passkey.id, notes.take)
        assert await store.find(passkey.id) == passkey
        assert notes.count == 1

    async def test_an_id_is_there_once(self) -> None:
        store, notes = await self.store(), _Notes()
        if store.read_only:
            return
        first = some_passkey(self.subject)
        await store.add(first, notes.take)

        with pytest.raises(Conflict):
            await store.add(some_passkey(self.subject), notes.take)
        assert await store.find(first.id) == first

    async def test_what_the_note_refuses_is_raised(self) -> None:
        store = await self.store()
        if store.read_only:
            return

        def refuse(_tx: Tx) -> None:
            raise Refuse(Conflict("it was used before"))

        with pytest.raises(Conflict, match="it was used before"):
            await store.add(some_passkey(self.subject), refuse)

    async def test_what_is_read_only_says_so(self) -> None:
        store, notes = await self.store(), _Notes()
        if not store.read_only:
            return
        with pytest.raises(PasskeysReadOnly, match=r"."):
            await store.add(some_passkey(self.subject), notes.take)
        with pytest.raises(PasskeysReadOnly, match=r"."):
            await store.remove(self.subject, self.held[0].id, notes.take)
        assert notes.count == 0

    async def test_it_gives_no_more_than_a_person_may_have(self) -> None:
        assert len(await (await self.store()).of(self.subject)) <= MOST_PASSKEYS


class _Notes:
    """Counts what was noted."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, _tx: Tx) -> None:
        self.count += 1
