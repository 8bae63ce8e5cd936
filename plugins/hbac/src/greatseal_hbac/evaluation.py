"""Which rules match a request: the one place where that is decided, for tokens and for whoever asks beforehand."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import Literal

import msgspec

from greatseal.principals import Pattern

NO_GROUPS: Mapping[str, frozenset[str]] = MappingProxyType({})
Category = Literal["all"] | None
Kind = Literal["grant", "exchange", "service"]
LOCAL = "local"
"""The source of rules that are kept here."""
MFA = "mfa"
"""The value of amr (RFC 8176) of a sign-in by two factors."""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule says. Of each axis a list names who fits, or its category all says that everybody does; an axis with neither fits nobody.

    ``networks`` without members are any.
    """

    name: str = ""
    description: str = ""
    enabled: bool = True
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    user_category: Category = None
    clients: tuple[str, ...] = ()
    client_category: Category = None
    hosts: tuple[str, ...] = ()
    hostgroups: tuple[str, ...] = ()
    host_category: Category = None
    services: tuple[str, ...] = ()
    servicegroups: tuple[str, ...] = ()
    service_category: Category = None
    scopes: tuple[str, ...] = ()
    scope_category: Category = None
    networks: tuple[str, ...] = ()
    require_mfa: bool = False
    delegation_targets: tuple[str, ...] = ()
    delegation_target_category: bool = False


class Rule(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A rule of this service, or of ``source``, which alone changes it; microseconds, None where the source does not say."""

    rule_id: str
    content: Content
    created_at: int | None = None
    updated_at: int | None = None
    source: str = LOCAL
    wrong: str = ""
    """Why its source cannot say what it means: then it matches nothing."""

    @cached_property
    def scopes(self) -> frozenset[str]:
        """Those that it lists."""
        return frozenset(self.content.scopes)

    @cached_property
    def folded(self) -> "Folded":
        """The groups and names of machines and services that it lists, as those of other sources are compared."""
        content = self.content
        return Folded(*map(fold, (content.user_groups, content.hosts, content.hostgroups, content.services, content.servicegroups)))

    def within(self, address: str) -> bool:
        """Whether the address is in one of its networks."""
        try:
            found = ip_address(address)
        except ValueError:  # a socket file has none
            return False
        return any(found in network for network in self._networks)

    @cached_property
    def _networks(self) -> Sequence[IPv4Network | IPv6Network]:
        return [ip_network(text) for text in self.content.networks]


class Folded(msgspec.Struct, frozen=True):
    """Names without case: of a rule, or of a request, which has one machine and one service."""

    user_groups: frozenset[str]
    hosts: frozenset[str]
    hostgroups: frozenset[str]
    services: frozenset[str]
    servicegroups: frozenset[str]


class Facts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A request as rules see it.

    ``subject`` is a person, or for a ``service`` the principal of a program, whose host is ``host``. ``address`` is None where none counts:
    tokens are fetched by the server of an application, and its address says nothing of the person. ``here`` is the machine of this
    service: rules of other sources are about it.
    """

    kind: Kind
    subject: str
    client_id: str = ""
    groups: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    address: str | None = None
    amr: tuple[str, ...] = ()
    target_service: str | None = None
    service: str | None = None
    servicegroups: frozenset[str] = frozenset()
    host: str | None = None
    hostgroups: frozenset[str] = frozenset()
    here: str = ""
    groups_here: frozenset[str] = frozenset()

    @cached_property
    def folded(self) -> Folded:
        """As rules of other sources are compared with it."""
        return Folded(*map(fold, (self.groups, (self.here,), self.groups_here, (self.service or "",), self.servicegroups)))


class Decision(msgspec.Struct, frozen=True):
    """The rules that match, and the scopes that they leave of those asked for."""

    rules: tuple[Rule, ...]
    scopes: frozenset[str]


class RuleSet:
    """All rules with an index: what a request costs hangs on the rules about its person and its client, not on how many there are.

    ``servicegroups`` are those of each service, in lower case.
    """

    def __init__(self, rules: Sequence[Rule], realm: str, servicegroups: Mapping[str, frozenset[str]] = NO_GROUPS) -> None:
        self.rules = {rule.rule_id: rule for rule in rules}
        self.servicegroups = servicegroups
        self.uses_groups = any(rule.content.user_groups for rule in rules)
        self.uses_hostgroups = any(rule.content.hostgroups for rule in rules if rule.source == LOCAL)
        self.uses_groups_here = any(rule.content.hostgroups for rule in rules if rule.source != LOCAL)
        self._any_local = any(rule.source == LOCAL for rule in rules)
        self._subjects = {rule.rule_id: _subjects(rule, realm) for rule in rules}
        self._patterns = {rule.rule_id: list(_patterns(rule)) for rule in rules}
        self._by_user: dict[str, set[str]] = defaultdict(set)
        self._by_group: dict[str, set[str]] = defaultdict(set)
        self._by_client: dict[str, set[str]] = defaultdict(set)
        self._any_user = {rule.rule_id for rule in rules if rule.content.user_category}
        self._any_client = {rule.rule_id for rule in rules if rule.content.client_category}
        self._anybody_anywhere = self._any_user & self._any_client
        for rule in rules:
            for index, names in (
                (self._by_user, self._subjects[rule.rule_id]),
                (self._by_group, rule.content.user_groups),
                (self._by_client, rule.content.clients),
            ):
                for name in names:
                    index[name].add(rule.rule_id)

    def __bool__(self) -> bool:
        """Whether there is a rule of our own, be it disabled: whoever disables the last one does not open every door.

        Rules of other sources are about services on machines, and say nothing of who uses which application.
        """
        return self._any_local

    def decide(self, facts: Facts) -> Decision:
        """What the rules say; no rule, no scope where there is none."""
        found, scopes = [], set[str]()
        for rule in self._candidates(facts):
            if next(self.misses(rule, facts), None) is None:
                found.append(rule)
                scopes |= facts.scopes if rule.content.scope_category else facts.scopes & rule.scopes
        return Decision(tuple(found), frozenset(scopes))

    def misses(self, rule: Rule, facts: Facts) -> Iterator[str]:
        """The axes on which a rule does not fit, none for one that matches."""
        if not rule.content.enabled:
            yield "enabled"
        if rule.source != LOCAL:
            yield from _misses_of_other(rule, self._subjects[rule.rule_id], facts)
        else:
            yield from self._misses_of_program(rule, facts) if facts.kind == "service" else self._misses_of_person(rule, facts)

    def _misses_of_program(self, rule: Rule, facts: Facts) -> Iterator[str]:
        content = rule.content
        if not (self._fits_user(rule, facts) or _fits_host(content, facts)):
            yield "user or host"
        if not _fits_service(content, facts):
            yield "service"

    def _misses_of_person(self, rule: Rule, facts: Facts) -> Iterator[str]:
        content = rule.content
        if not self._fits_user(rule, facts):
            yield "user"
        if not (content.client_category or facts.client_id in content.clients):
            yield "client"
        if not (content.scope_category or _fits_scopes(rule.scopes, facts.scopes)):
            yield "scope"
        if facts.address is not None and content.networks and not rule.within(facts.address):
            yield "network"
        if content.require_mfa and MFA not in facts.amr:
            yield "mfa"
        if facts.target_service is not None and not _fits_target(content, facts.target_service):
            yield "target_service"

    def _fits_user(self, rule: Rule, facts: Facts) -> bool:
        if rule.content.user_category or facts.subject in self._subjects[rule.rule_id]:
            return True
        if facts.kind == "service" and any(pattern.matches(facts.subject) for pattern in self._patterns[rule.rule_id]):
            return True
        return not facts.groups.isdisjoint(rule.content.user_groups)

    def _candidates(self, facts: Facts) -> Iterable[Rule]:
        """Those that may match by person and client; of services, all: there are few."""
        if facts.kind == "service":
            return self.rules.values()
        users = [self._any_user, self._by_user.get(facts.subject, set()), *(self._by_group.get(group, set()) for group in facts.groups)]
        named = self._by_client.get(facts.client_id, set())
        found = set(self._anybody_anywhere)
        for some in users:
            found |= some & named
            if some is not self._any_user:
                found |= some & self._any_client
        return (self.rules[rule_id] for rule_id in found)


def pattern_of(user: str) -> Pattern | None:
    """What a name in a rule means that stands for many principals of programs, such as ``host/*.example.org@EXAMPLE.ORG``.

    Raises ValueError for one that stands for none.
    """
    return Pattern(user) if "*" in user and "@" in user else None


def subject_of(user: str, realm: str) -> str:
    """The canonical subject of a name in a rule: a short one is of the realm of this service."""
    short, at, named = user.rpartition("@")
    return f"{short}@{named.upper()}" if at else f"{user}@{realm}"


def _subjects(rule: Rule, realm: str) -> frozenset[str]:
    """Of whom it says something; of another source without case."""
    subjects = frozenset(subject_of(user, realm) for user in rule.content.users)
    return subjects if rule.source == LOCAL else fold(subjects)


def _patterns(rule: Rule) -> Iterator[Pattern]:
    for user in rule.content.users:
        try:
            pattern = pattern_of(user)
        except ValueError:  # from before there were patterns: it names nobody
            continue
        if pattern is not None:
            yield pattern


def useless(content: Content) -> str | None:
    """Why no request can ever match, None when one can."""
    user = content.user_category or content.users or content.user_groups
    people = {"user": user, "client": content.client_category or content.clients, "scope": content.scope_category or content.scopes}
    programs = {
        "user and host": user or content.host_category or content.hosts or content.hostgroups,
        "service": content.service_category or content.services or content.servicegroups,
    }
    if all(people.values()) or all(programs.values()):
        return None
    return f"nothing fits its {' and '.join(axis for axis, fits in people.items() if not fits)}"


def _fits_host(content: Content, facts: Facts) -> bool:
    if facts.host is None:
        return False
    return bool(content.host_category) or facts.host in content.hosts or not facts.hostgroups.isdisjoint(content.hostgroups)


def _fits_service(content: Content, facts: Facts) -> bool:
    if content.service_category or facts.service in content.services:
        return True
    return bool(content.servicegroups) and not facts.servicegroups.isdisjoint(map(str.casefold, content.servicegroups))


def _misses_of_other(rule: Rule, subjects: frozenset[str], facts: Facts) -> Iterator[str]:
    """As FreeIPA evaluates its rules (SSSD, ipa_hbac): three axes, names and groups without case. No application is among them."""
    if rule.wrong:
        yield "kind"
        return
    content, said, asked = rule.content, rule.folded, facts.folded
    if not (content.user_category or facts.subject.casefold() in subjects or said.user_groups & asked.user_groups):
        yield "user"
    if not (content.host_category or said.hosts & asked.hosts or said.hostgroups & asked.hostgroups):
        yield "host"
    if not (content.service_category or said.services & asked.services or said.servicegroups & asked.servicegroups):
        yield "service"


def fold(names: Iterable[str]) -> frozenset[str]:
    """Names as they are compared where case does not matter."""
    return frozenset(map(str.casefold, names))


def _fits_target(content: Content, target: str) -> bool:
    return content.delegation_target_category or target in content.delegation_targets


def _fits_scopes(listed: frozenset[str], asked: frozenset[str]) -> bool:
    """A request without scopes fits every rule that lists some."""
    return bool(listed) and (not asked or not listed.isdisjoint(asked))
