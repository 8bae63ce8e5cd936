"""What every finalize check must do, as a test class to inherit."""

import re
from abc import ABC, abstractmethod
from typing import get_args

import pytest

from greatseal.api.issuance import Finalization, FinalizeCheck, FinalizePhase
from greatseal.api.problems import Problem

__all__ = ["FinalizeCheckContract"]


class FinalizeCheckContract(ABC):
    """Inherit, say how to make the check, what it lets pass and what it refuses, and the rest is tested."""

    passes: Finalization
    refuses: Finalization

    @abstractmethod
    def check(self) -> FinalizeCheck:
        """A new one."""

    def test_declares_itself(self) -> None:
        check = self.check()

        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", check.name)
        assert check.phase in get_args(FinalizePhase)
        assert isinstance(check.order, int)
        assert (self.passes.csr is None) == (check.phase == "authorize"), "a request is there after the phase authorize"

    async def test_what_is_right_passes_again_and_again(self) -> None:
        check = self.check()

        for _ in range(2):
            await check.check(self.passes)

    async def test_what_is_wrong_is_refused_in_the_same_words_each_time(self) -> None:
        check, words = self.check(), set()

        for _ in range(2):
            with pytest.raises(Problem) as refused:
                await check.check(self.refuses)
            assert 400 <= refused.value.status < 500
            assert refused.value.detail.isprintable()
            words.add(refused.value.detail)

        assert len(words) == 1
        assert "" not in words
