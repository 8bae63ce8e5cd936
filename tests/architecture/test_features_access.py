"""Sources of access rules that are to come, against the contract of all of them."""

from pathlib import Path
from typing import Any

import pytest
from architecture.typing import access

from greatseal.api.access import RuleSource
from greatseal.api.problems import Unavailable
from greatseal.testing.access import RuleSourceContract

RULES = """
[[rules]]
id = "1"
name = "backup"
users = ["host/backup.example.org@EXAMPLE.ORG"]
any_host = true
servicegroups = ["storage"]

[servicegroups]
backup = ["storage"]
"""
PERMISSION: dict[str, Any] = {"id": "p1", "name": "backup", "roles": ["operators"], "resources": ["backup"], "logic": "POSITIVE"}


class TestFileOfRules(RuleSourceContract):
    some = "backup"

    @pytest.fixture(autouse=True)
    def _written(self, tmp_path: Path) -> None:
        self.written = tmp_path / "rules.toml"
        self.written.write_text(RULES)

    def source(self) -> RuleSource:
        return access.FileOfRules(self.written)

    def broken(self) -> RuleSource:
        return access.FileOfRules(self.written.with_name("gone.toml"))

    async def test_a_word_that_it_does_not_know_is_no_book(self) -> None:
        self.written.write_text(RULES.replace("any_host = true", 'any_host = "yes"'))
        with pytest.raises(Unavailable):
            await self.source().read()


class TestPolicies(RuleSourceContract):
    some = "backup"

    def source(self) -> RuleSource:
        return access.Policies(lambda: [PERMISSION, {**PERMISSION, "id": "p2", "logic": "NEGATIVE"}])

    def broken(self) -> RuleSource:
        def down() -> Any:
            raise Unavailable("the policy server does not answer", cause="connection refused")

        return access.Policies(down)

    async def test_what_it_cannot_say_is_wrong(self) -> None:
        assert [rule.wrong for rule in (await self.source().read()).rules] == ["", "it is negative"]
