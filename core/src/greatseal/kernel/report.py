"""One report of all that is wrong. What only follows from something that is in it already is not told."""

import re
from collections.abc import Callable, Iterable

from greatseal.api.problems import StartProblem

_PLUGIN = re.compile(r"\bplugin '([^']+)'(?! of )")
_NAMED = re.compile(r"\[+([A-Za-z0-9_-]+)[^\]]*\]+(?: #\d+)? ([A-Za-z0-9_-]+)")


class Report:
    """The problems of one configuration. ``who`` tells how a plugin is named by its feature."""

    def __init__(self, who: Callable[[str], str]) -> None:
        self._who = who
        self.problems: list[str] = []
        self._refused: set[tuple[str, str]] = set()
        self._cause: Exception | None = None

    def add(self, problems: Iterable[str]) -> None:
        """Add what is wrong whatever else is."""
        self.problems += problems

    def refused(self, keys: Iterable[tuple[str, str]]) -> None:
        """These keys are there and wrong: whoever reads them finds their defaults."""
        self._refused |= {(re.split(r"[.\[]", section)[0], key) for section, key in keys}

    def add_of_settings(self, problems: Iterable[str]) -> None:
        """Add what a plugin finds wrong with its settings, unless it names a key whose value it could not see."""
        self.problems += [one for one in problems if one not in self.problems and self._refused.isdisjoint(_NAMED.findall(one))]

    def add_failure(self, feature: str, hook: str, error: Exception) -> None:
        """Add that a hook failed. After another problem it may have failed of that, so only a StartProblem is sure to be news then."""
        if isinstance(error, StartProblem):
            self.add_of_settings(error.messages)
        elif not self.problems:
            failed = isinstance(error, PluginFailed)
            self.problems.append(str(error) if failed else f"plugin {feature!r}: hook {hook} failed: {type(error).__name__}: {error}")
            self._cause = error

    def settle(self) -> None:
        """Raises StartProblem with everything, if there is anything."""
        if self.problems:
            raise StartProblem(*(self.named(one) for one in self.problems)) from self._cause

    def named(self, problem: str) -> str:
        """The problem with its plugins named as whoever installed them knows them."""
        return _PLUGIN.sub(lambda found: self._who(found[1]), problem)


class PluginFailed(Exception):
    """Code of a plugin raised in a hook of another one, or of none; says so of the plugin that it is of."""
