"""What every claims provider and every grant check must do, as test classes to inherit."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import pytest

from greatseal.api.identity import AccessDenied
from greatseal.api.tokens import ClaimsProvider, GrantCheck, GrantQuestion

__all__ = ["ClaimsProviderContract", "GrantCheckContract"]

NOBODY = ("nobody-of-that-name@EXAMPLE.INVALID", "nobody", "", "@", "a@b@c", "a\0b@c", "x" * 5_000)


class ClaimsProviderContract(ABC):
    """Inherit, say how to make the provider and a subject of whom it knows something, and the rest is tested."""

    subject: str

    @abstractmethod
    def provider(self) -> ClaimsProvider:
        """One that knows a claim of ``subject`` at least."""

    async def _of(self, subject: str, wanted: frozenset[str]) -> Mapping[str, Any]:
        found: object = await self.provider().of(subject, wanted)
        assert isinstance(found, Mapping), f"of returned {found!r}; it returns a mapping"
        assert found.keys() <= wanted, "it gives what was not wanted"
        assert None not in found.values(), "a claim without value is left out"
        return found

    def test_declares_itself(self) -> None:
        provider = self.provider()

        assert provider.name
        assert isinstance(provider.claims, frozenset)
        assert provider.claims

    async def test_what_is_known_is_json_and_the_same_each_time(self) -> None:
        wanted = self.provider().claims

        found = await self._of(self.subject, wanted)

        assert found
        assert json.loads(json.dumps(dict(found))) == found
        assert await self._of(self.subject, wanted) == found
        for name, value in found.items():
            assert await self._of(self.subject, frozenset({name})) == {name: value}

    async def test_what_it_does_not_have_is_left_out(self) -> None:
        assert await self._of(self.subject, frozenset()) == {}
        assert await self._of(self.subject, frozenset({"a-claim-of-nobody"})) == {}

    async def test_an_unknown_subject_has_no_claims_and_is_no_error(self) -> None:
        for subject in NOBODY:
            assert await self._of(subject, self.provider().claims) == {}, subject


class GrantCheckContract(ABC):
    """Inherit, say how to make the check, what it lets through and what it refuses, and the rest is tested."""

    allowed: GrantQuestion
    """A question of which it leaves a scope at least."""
    denied: GrantQuestion | None = None
    """One that it refuses; None for a check that takes scopes away and never refuses."""

    @abstractmethod
    def check(self) -> GrantCheck:
        """A new one."""

    def test_declares_itself(self) -> None:
        assert self.check().name

    async def test_it_leaves_a_subset_and_the_same_each_time(self) -> None:
        left: object = await self.check().check(self.allowed)

        assert isinstance(left, frozenset), f"check returned {left!r}; it returns the scopes that may be granted"
        assert left
        assert left <= self.allowed.scopes
        assert await self.check().check(self.allowed) == left

    async def test_whom_it_refuses_is_denied(self) -> None:
        if self.denied is None:
            pytest.skip("it refuses nobody")

        assert self.check().concerns(self.denied)
        with pytest.raises(AccessDenied):
            await self.check().check(self.denied)
