"""What every store of one-time codes must do, as a test class to inherit."""

import asyncio
from abc import ABC, abstractmethod

import pytest

from greatseal.api.otp import CodeStore, Holder, NewToken

__all__ = ["CodeStoreContract"]

KEY = b"12345678901234567890"


class CodeStoreContract(ABC):
    """Inherit, say which store and whose, and the rest is tested. A store that gives no keys is left out where keys matter.

    .. code-block:: python

        class TestLocalTokens(CodeStoreContract):
            @pytest.fixture
            async def store(self, open_people):
                ...

            def holder(self):
                return Holder(subject="alice@LOCALHOST", user=None)
    """

    @abstractmethod
    def holder(self) -> Holder:
        """A person whose home it is, without tokens."""

    def new(self, label: str = "My phone") -> NewToken:
        """A token of the usual kind."""
        return NewToken(label=label, key=KEY, algorithm="sha1", digits=6, period=30)

    def test_it_has_a_name_and_keeps_its_people(self, store: CodeStore) -> None:
        """Under the name its tokens are listed."""
        assert store.name
        assert store.keeps(self.holder())

    async def test_who_has_no_token_has_none(self, store: CodeStore) -> None:
        """An empty list, and no refusal."""
        assert list(await store.tokens(self.holder())) == []
        assert list(await store.keys(self.holder())) == []

    async def test_a_token_is_stored_and_its_key_is_given_for_counting(self, store: CodeStore) -> None:
        """What is listed has no key."""
        holder = self._managed(store)
        made = await store.add(holder, self.new())

        (listed,) = await store.tokens(holder)
        (key,) = await store.keys(holder)
        assert (made, listed.label, listed.token_id) == (listed, "My phone", key.token_id)
        assert (key.key, key.algorithm, key.digits, key.period) == (KEY, "sha1", 6, 30)
        assert KEY.decode() not in repr(listed) + repr(key)

    async def test_a_step_is_used_up_once_with_all_before_it(self, store: CodeStore) -> None:
        """And the token is confirmed by it."""
        holder = self._managed(store)
        await store.add(holder, self.new())
        (key,) = await store.keys(holder)

        assert await store.advance(holder, key, 1_000)
        assert [await store.advance(holder, key, step) for step in (1_000, 999, 0)] == [False] * 3
        (again,) = await store.keys(holder)
        assert again.used == 1_000
        assert await store.advance(holder, again, 1_001)
        assert [token.confirmed for token in await store.tokens(holder)] == [True]

    async def test_of_many_at_once_one_uses_a_step_up(self, store: CodeStore) -> None:
        """Whatever they read before."""
        holder = self._managed(store)
        await store.add(holder, self.new())
        (key,) = await store.keys(holder)

        assert sum(await asyncio.gather(*(store.advance(holder, key, 7) for _ in range(20)))) == 1

    async def test_a_token_is_deleted_by_its_person_and_by_nobody_else(self, store: CodeStore) -> None:
        """One of another person is none."""
        holder = self._managed(store)
        made = await store.add(holder, self.new())
        (key,) = await store.keys(holder)
        other = Holder(subject=f"other-{holder.subject}", user=None)

        assert not await store.remove(other, made.token_id)
        assert not await store.advance(other, key, 7)
        assert not await store.remove(holder, "0" * 36)
        assert await store.remove(holder, made.token_id)
        assert not await store.remove(holder, made.token_id)
        assert not await store.advance(holder, key, 7)
        assert list(await store.tokens(holder)) == []

    def _managed(self, store: CodeStore) -> Holder:
        if not store.manages:
            pytest.skip("tokens are not made here")
        return self.holder()
