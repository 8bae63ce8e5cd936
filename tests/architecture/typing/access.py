"""Sources of access rules: a file, and a policy server whose rules have other words."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from greatseal.api.access import AccessRule, RuleBook, RuleSource
from greatseal.api.problems import Unavailable


class FileOfRules(RuleSource):
    """Rules written by hand; a file that is not whole is no book."""

    name = "file"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> RuleBook:
        try:
            return msgspec.toml.decode(self._path.read_bytes(), type=RuleBook)
        except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
            raise Unavailable("the access rules cannot be read", cause=f"{self._path}: {error}") from error


class Policies(RuleSource):
    """A policy server: permissions of roles on resources. What it cannot say in our words is wrong, and shuts the source."""

    name = "policies"

    def __init__(self, fetch: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        self._fetch = fetch

    async def read(self) -> RuleBook:
        return RuleBook(rules=tuple(map(self._rule, self._fetch())))

    def _rule(self, permission: Mapping[str, Any]) -> AccessRule:
        return AccessRule(
            id=permission["id"],
            name=permission["name"],
            user_groups=tuple(permission["roles"]),
            any_host=True,
            services=tuple(permission["resources"]),
            wrong="" if permission["logic"] == "POSITIVE" else "it is negative",
        )
