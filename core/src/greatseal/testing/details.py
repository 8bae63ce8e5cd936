"""What every type of authorization details must do, as a test class to inherit."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

from greatseal.api.clients import Client
from greatseal.api.details import DetailType, InvalidAuthorizationDetails

__all__ = ["DetailTypeContract"]

CANARY = "zq7-canary"
STRANGE: tuple[object, ...] = (
    None, True, False, 0, -1, 2**63 - 1, 1.5, 1e308, "", " ", "a\nb", "x\u202ey", f"{CANARY}<b>&{{type}}", "x" * 20_000, [], {}, [None],
    [[]], [{}], ["a", "a"], [CANARY, 1], {CANARY: CANARY}, {"type": 1}, [[[[[]]]]],
)  # fmt: skip
"""Values that any client may send in any place."""


class DetailTypeContract(ABC):
    """Inherit, say how to make the type and what it takes and refuses, and the rest is tested.

    .. code-block:: python

        class TestToolCalls(DetailTypeContract):
            good = ({"type": "tool_call", "locations": ["https://mcp.example/"], "tools": ["search"]},)
            refused = ({"type": "tool_call", "tools": ["rm -rf"]},)
            less = (({**good[0], "tools": ["search"]}, {**good[0], "tools": ["search", "read"]}),)

            def detail_type(self):
                return ToolCalls()
    """

    good: ClassVar[tuple[Mapping[str, Any], ...]]
    """Details that it takes, one at least, with every member that it knows among them."""
    refused: ClassVar[tuple[Mapping[str, Any], ...]]
    """Details of its type that break a rule, one at least."""
    less: ClassVar[tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...]] = ()
    """Pairs: the first is less than the second, and both are good."""
    client: ClassVar[Client] = Client(client_id="c1", token_endpoint_auth_method="client_secret_basic")  # noqa: S106
    """Who asks."""

    @abstractmethod
    def detail_type(self) -> DetailType:
        """A new one."""

    def test_declares_itself(self) -> None:
        one = self.detail_type()

        assert one.name.isprintable()
        assert all(detail["type"] == one.name for detail in (*self.good, *self.refused))
        assert isinstance(one.for_itself(self.client), bool)

    def test_good_details_are_taken_each_time(self) -> None:
        one = self.detail_type()

        for detail in (*self.good, *(detail for pair in self.less for detail in pair), *self.good):
            one.check(detail, self.client)

    def test_what_breaks_a_rule_is_told_so(self) -> None:
        for detail in self.refused:
            with pytest.raises(InvalidAuthorizationDetails, match=r"."):
                self.detail_type().check(detail, self.client)

    def test_a_member_that_nobody_declared_is_refused(self) -> None:
        """RFC 9396 s5: what is ignored would be granted."""
        for detail in self.good:
            with pytest.raises(InvalidAuthorizationDetails):
                self.detail_type().check({**detail, CANARY: "x"}, self.client)

    def test_any_value_is_taken_or_refused_with_words_of_the_type_alone(self) -> None:
        for detail in self._strange():
            said = self._refusal(detail)
            assert said is None or 0 < len(said) < 300
            assert said is None or said.isprintable()
            assert CANARY not in (said or ""), "a refusal repeats nothing of what was sent"

    async def test_the_person_reads_words_in_one_line_each(self) -> None:
        one = self.detail_type()

        for detail in (*self.good, *self._taken()):
            shown = await one.shown(detail, "alice@EXAMPLE")
            assert shown == await one.shown(detail, "alice@EXAMPLE")
            assert shown.title
            assert all(str(line).isprintable() for line in (shown.title, *shown.lines)), "nothing that cannot be seen, and no second line"

    def test_what_is_granted_narrows_itself_and_less_is_no_more(self) -> None:
        one = self.detail_type()

        for detail in self.good:
            assert one.narrows(detail, detail)
        for part, whole in self.less:
            assert one.narrows(part, whole)
            assert not one.narrows(whole, part), "a token request would widen what a person allowed"

    def _strange(self) -> Iterator[Mapping[str, Any]]:
        for detail in self.good:
            for name in detail.keys() - {"type"}:
                yield {key: value for key, value in detail.items() if key != name}
                for value in STRANGE:
                    yield {**detail, name: value}

    def _taken(self) -> Iterator[Mapping[str, Any]]:
        yield from (detail for detail in self._strange() if self._refusal(detail) is None)

    def _refusal(self, detail: Mapping[str, Any]) -> str | None:
        try:
            self.detail_type().check(detail, self.client)
        except InvalidAuthorizationDetails as refused:
            return refused.detail
        return None
