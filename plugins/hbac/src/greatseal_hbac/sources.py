"""Rules of other sources: read again and again, and kept for a stated time when that fails."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from greatseal.api.access import LONGEST_ID, MOST_RULES, AccessRule, RuleBook, RuleSource
from greatseal.api.problems import Unavailable
from greatseal.host import Host
from greatseal_hbac.evaluation import Category, Content, Rule
from greatseal_hbac.settings import HbacSettings

PAUSE = 5.0
"""Seconds before a request has a source asked again that failed."""
UNREADABLE = "a source of access rules cannot be read"


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """A book as it was read; ``at`` is monotonic."""

    rules: tuple[Rule, ...]
    servicegroups: Mapping[str, frozenset[str]]
    at: float


class Books:
    """The last good book of every source. A request waits for a source only while there is no copy that counts."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._settings = host.settings(HbacSettings)
        self._copies: dict[str, Copy] = {}
        self._failed: dict[str, tuple[float, str]] = {}
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def refresh(self) -> None:
        """Read every source. One that fails keeps its copy."""
        for name, source in self._sources.items():
            async with self._locks[name]:
                await self._read(name, source)

    async def current(self) -> tuple[Mapping[str, Copy], Mapping[str, str]]:
        """The copies that count, and for each source without one why it has none."""
        for name, source in self._sources.items():
            if not self._counts(name):
                async with self._locks[name]:
                    if not self._counts(name) and not self._just_failed(name):
                        await self._read(name, source)
        missing = {name: self._failed.get(name, (0.0, ""))[1] for name in self._sources if not self._counts(name)}
        return {name: self._copies[name] for name in self._sources if name not in missing}, missing

    @property
    def failures(self) -> Mapping[str, str]:
        """Why the last reading of a source failed."""
        return {name: why for name, (_, why) in self._failed.items()}

    @property
    def copies(self) -> Mapping[str, Copy]:
        """What was read last, however old."""
        return self._copies

    def age(self, name: str) -> float:
        """Of a copy, in seconds."""
        return self._host.clock.monotonic() - self._copies[name].at

    @property
    def _sources(self) -> Mapping[str, RuleSource]:
        return self._host.components(RuleSource)

    def _counts(self, name: str) -> bool:
        return name in self._copies and self.age(name) <= self._settings.max_age_secs

    def _just_failed(self, name: str) -> bool:
        failed = self._failed.get(name)
        return failed is not None and self._host.clock.monotonic() - failed[0] < PAUSE

    async def _read(self, name: str, source: RuleSource) -> None:
        try:
            self._copies[name] = _copy(name, await source.read(), at=self._host.clock.monotonic())
        except Unavailable as problem:
            if name not in self._failed:
                self._host.log.warning("access rules cannot be read", source=name, cause=problem.cause or problem.detail)
            self._failed[name] = self._host.clock.monotonic(), problem.cause or problem.detail
        else:
            if self._failed.pop(name, None) is not None:
                self._host.log.info("access rules can be read again", source=name)


def _copy(name: str, book: RuleBook, *, at: float) -> Copy:
    """Raises Unavailable for a book that no source may have."""
    if len(book.rules) > MOST_RULES:
        raise Unavailable(UNREADABLE, cause=f"{name} has {len(book.rules)} access rules; at most {MOST_RULES} are read")
    if len({rule.id for rule in book.rules if rule.id and len(rule.id) <= LONGEST_ID}) < len(book.rules):
        raise Unavailable(UNREADABLE, cause=f"{name} has access rules without an id of their own of 1 to {LONGEST_ID} characters")
    if any(rule.wrong and rule.enabled for rule in book.rules):
        rules = [msgspec.structs.replace(rule, wrong=rule.wrong or "another rule of its source is not understood") for rule in book.rules]
    else:
        rules = list(book.rules)
    groups = {service.casefold(): frozenset(map(str.casefold, names)) for service, names in book.servicegroups.items()}
    return Copy(rules=tuple(_rule(name, rule) for rule in rules), servicegroups=groups, at=at)


def _rule(source: str, rule: AccessRule) -> Rule:
    content = Content(
        name=rule.name,
        description=rule.description,
        enabled=rule.enabled,
        users=rule.users,
        user_groups=rule.user_groups,
        user_category=_category(everybody=rule.any_user),
        hosts=rule.hosts,
        hostgroups=rule.hostgroups,
        host_category=_category(everybody=rule.any_host),
        services=rule.services,
        servicegroups=rule.servicegroups,
        service_category=_category(everybody=rule.any_service),
    )
    return Rule(rule_id=f"{source}:{rule.id}", source=source, content=content, wrong=rule.wrong)


def _category(*, everybody: bool) -> Category:
    return "all" if everybody else None
