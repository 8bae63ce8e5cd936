"""What every source of access rules must do, as a test class to inherit."""

from abc import ABC, abstractmethod
from typing import ClassVar

import pytest

from greatseal.api.access import LONGEST_ID, MOST_RULES, RuleSource
from greatseal.api.components import contract_of
from greatseal.api.problems import Unavailable

__all__ = ["RuleSourceContract"]


class RuleSourceContract(ABC):
    """Inherit, say how to make the source and one that cannot read its rules, and the rest is tested.

    .. code-block:: python

        class TestFileOfRules(RuleSourceContract):
            some = "backup"

            def source(self):
                return FileOfRules(self.written)

            def broken(self):
                return FileOfRules(self.written.with_name("gone"))
    """

    some: ClassVar[str]
    """The name of a rule that it has."""

    @abstractmethod
    def source(self) -> RuleSource:
        """One with rules."""

    @abstractmethod
    def broken(self) -> RuleSource:
        """One whose rules cannot be read now."""

    def test_declares_itself(self) -> None:
        source = self.source()

        assert contract_of(source) is RuleSource
        assert source.name
        assert ":" not in source.name, "what stands before the colon of a rule's id here"
        assert source.deadline > 0

    async def test_rules_have_ids_of_their_own_that_stay(self) -> None:
        source = self.source()
        first, again = await source.read(), await source.read()

        ids = [rule.id for rule in first.rules]
        assert len(ids) == len(set(ids)) <= MOST_RULES
        assert all(0 < len(id) <= LONGEST_ID for id in ids)
        assert self.some in {rule.name for rule in first.rules}
        assert {rule.id: rule for rule in again.rules} == {rule.id: rule for rule in first.rules}
        assert again.servicegroups == first.servicegroups

    async def test_what_cannot_be_read_is_no_empty_book(self) -> None:
        with pytest.raises(Unavailable) as problem:
            await self.broken().read()
        assert problem.value.cause, "the operator learns why"
