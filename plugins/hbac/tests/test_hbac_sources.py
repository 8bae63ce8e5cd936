"""Rules of other sources: how long they count, and what they say (SSSD's ipa_hbac; kerberos-and-directory rules are three axes)."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from greatseal.api.access import MOST_RULES, AccessRule, RuleBook, RuleSource
from greatseal.api.problems import Unavailable
from greatseal.testing import FakeClock
from greatseal_hbac.evaluation import Content, Facts, Rule, RuleSet
from greatseal_hbac.plugin import health
from greatseal_hbac.settings import HbacSettings
from greatseal_hbac.sources import PAUSE, Books

REALM = "CHANCERY.TEST"
FACTS: dict[str, Any] = {
    "kind": "service",
    "subject": f"alice@{REALM}",
    "groups": frozenset({"devs"}),
    "service": "sshd",
    "servicegroups": frozenset({"logins"}),
    "host": None,
    "here": "web1.chancery.test",
    "groups_here": frozenset({"webservers"}),
}
ANYBODY: dict[str, Any] = {"any_user": True, "any_host": True, "any_service": True}


class Policies(RuleSource):
    """A source that says what a test wants."""

    name = "policies"

    def __init__(self) -> None:
        self.book: RuleBook | Unavailable = RuleBook()
        self.asked = 0

    async def read(self) -> RuleBook:
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self.book, Unavailable):
            raise self.book
        return self.book


class Host:
    """What the books need of a host."""

    def __init__(self, *sources: RuleSource) -> None:
        self.clock = FakeClock()
        self.log = structlog.get_logger()
        self._sources = {one.name: one for one in sources}

    def settings(self, _struct: type[HbacSettings]) -> HbacSettings:
        return HbacSettings(refresh_secs=60, max_age_secs=900)

    def components(self, _contract: type[RuleSource]) -> Mapping[str, RuleSource]:
        return self._sources


def rule(**content: Any) -> AccessRule:
    return AccessRule(**{"id": "1", "name": "one", **content})


async def decided(facts: dict[str, Any], *rules: AccessRule) -> bool:
    source = Policies()
    source.book = RuleBook(rules=rules)
    copies, missing = await Books(Host(source)).current()
    assert not missing
    return bool(RuleSet(copies["policies"].rules, REALM).decide(Facts(**facts)).rules)


@pytest.mark.parametrize(
    ("content", "fits"),
    [
        (ANYBODY, True),
        ({**ANYBODY, "enabled": False}, False),
        ({**ANYBODY, "any_user": False}, False),
        ({**ANYBODY, "any_host": False}, False),
        ({**ANYBODY, "any_service": False}, False),
        ({**ANYBODY, "any_user": False, "users": ("ALICE",)}, True),
        ({**ANYBODY, "any_user": False, "users": ("alice@chancery.test",)}, True),
        ({**ANYBODY, "any_user": False, "users": ("alice@OTHER.TEST",)}, False),
        ({**ANYBODY, "any_user": False, "users": ("bob",)}, False),
        ({**ANYBODY, "any_user": False, "user_groups": ("Devs",)}, True),
        ({**ANYBODY, "any_user": False, "user_groups": ("ops",)}, False),
        ({**ANYBODY, "any_host": False, "hosts": ("WEB1.chancery.test",)}, True),
        ({**ANYBODY, "any_host": False, "hosts": ("db1.chancery.test",)}, False),
        ({**ANYBODY, "any_host": False, "hostgroups": ("WEBSERVERS",)}, True),
        ({**ANYBODY, "any_host": False, "hostgroups": ("production",)}, False),
        ({**ANYBODY, "any_service": False, "services": ("SSHD",)}, True),
        ({**ANYBODY, "any_service": False, "services": ("login",)}, False),
        ({**ANYBODY, "any_service": False, "servicegroups": ("Logins",)}, True),
        ({**ANYBODY, "any_service": False, "servicegroups": ("others",)}, False),
        ({"any_user": True, "any_host": True}, False),
        ({}, False),
    ],
)
async def test_all_three_axes_must_fit(content: dict[str, Any], fits: bool) -> None:
    assert await decided(FACTS, rule(**content)) is fits


async def test_a_machine_is_nobody_that_such_a_rule_can_name_by_its_host() -> None:
    machine = {**FACTS, "subject": f"host/web1.chancery.test@{REALM}", "groups": frozenset(), "host": "web1.chancery.test"}

    assert not await decided(machine, rule(hosts=("web1.chancery.test",), any_service=True, user_groups=("devs",)))
    assert await decided(machine, rule(any_user=True, any_host=True, any_service=True))


@pytest.mark.parametrize("kind", ["grant", "exchange"])
async def test_such_rules_say_nothing_of_applications(kind: str) -> None:
    assert not await decided({**FACTS, "kind": kind, "client_id": "wiki"}, rule(**ANYBODY))
    foreign = Rule(rule_id="policies:1", source="policies", content=Content(user_category="all"))
    assert not RuleSet([foreign], REALM), "a first rule elsewhere closes no door here"


async def test_own_rules_know_groups_of_services() -> None:
    own = Rule(rule_id="1", content=Content(users=("alice",), servicegroups=("LOGINS",)))

    assert RuleSet([own], REALM).decide(Facts(**FACTS)).rules == (own,)
    assert not RuleSet([own], REALM).decide(Facts(**{**FACTS, "servicegroups": frozenset({"mail"})})).rules


async def test_one_rule_that_forbids_shuts_its_source_as_long_as_it_is_enabled() -> None:
    forbids = rule(id="2", wrong="its accessRuleType is deny")

    assert not await decided(FACTS, rule(**ANYBODY), forbids)
    assert await decided(FACTS, rule(**ANYBODY), AccessRule(id="2", name="two", enabled=False, wrong="its accessRuleType is deny"))


async def test_a_copy_counts_until_its_age_and_no_longer() -> None:
    source = Policies()
    source.book = RuleBook(rules=(rule(**ANYBODY),))
    host = Host(source)
    books = Books(host)
    await books.refresh()
    source.book = Unavailable("x", cause="no answer")

    host.clock.advance(900)
    await books.refresh()
    copies, missing = await books.current()
    assert (list(copies), missing) == (["policies"], {})
    assert books.failures == {"policies": "no answer"}

    host.clock.advance(1)
    assert await books.current() == ({}, {"policies": "no answer"})
    assert books.copies["policies"].rules, "an administrator still sees them"


async def test_whoever_waits_for_a_source_waits_for_one_reading() -> None:
    source = Policies()
    source.book = Unavailable("x", cause="no answer")
    host = Host(source)
    books = Books(host)

    answers = await asyncio.gather(*(books.current() for _ in range(20)))
    assert (source.asked, {tuple(missing.values()) for _, missing in answers}) == (1, {("no answer",)})
    await books.current()
    assert source.asked == 1

    host.clock.advance(PAUSE)
    source.book = RuleBook(rules=(rule(**ANYBODY),))
    assert (await books.current())[1] == {}
    assert (source.asked, books.failures) == (2, {})


async def test_whoever_waited_while_a_source_was_read_has_its_book_at_once() -> None:
    source = Policies()
    source.book = RuleBook(rules=(rule(**ANYBODY),))
    books = Books(Host(source))

    answers = await asyncio.gather(*(books.current() for _ in range(20)))

    assert source.asked == 1
    assert all(list(copies) == ["policies"] and not missing for copies, missing in answers)


async def test_a_book_of_too_many_rules_is_none() -> None:
    source = Policies()
    source.book = RuleBook(rules=(rule(),) * (MOST_RULES + 1))

    _, missing = await Books(Host(source)).current()
    assert missing == {"policies": f"policies has {MOST_RULES + 1} access rules; at most {MOST_RULES} are read"}


@pytest.mark.parametrize("ids", [("1", "1"), ("",), ("x" * 201,)])
async def test_a_book_whose_rules_cannot_be_told_apart_is_none(ids: tuple[str, ...]) -> None:
    source = Policies()
    source.book = RuleBook(rules=tuple(AccessRule(id=one, name="one", **ANYBODY) for one in ids))

    _, missing = await Books(Host(source)).current()
    assert missing == {"policies": "policies has access rules without an id of their own of 1 to 200 characters"}


async def test_doctor_says_what_is_read_from_a_copy_and_what_is_away() -> None:
    source = Policies()
    wrong = "its ipaEnabledFlag is missing"
    source.book = RuleBook(rules=(rule(**ANYBODY), rule(id="2", wrong=wrong), rule(id="3", wrong=wrong, enabled=False)))
    host = Host(source)
    books = Books(host)

    async def everywhere() -> tuple[RuleSet, Mapping[str, str]]:
        copies, missing = await books.current()
        return RuleSet([one for copy in copies.values() for one in copy.rules], REALM), missing

    rules: Any = SimpleNamespace(everywhere=everywhere, books=books)
    assert "2 of 3 access rules can never match: policies:1 (one): another rule of its source" in (await health(rules)).detail
    source.book = Unavailable("x", cause="no answer from ldap.example")
    host.clock.advance(60)
    await books.refresh()
    assert "policies, of 60 s ago" in (await health(rules)).detail
    host.clock.advance(900)
    away = await health(rules)
    assert "cannot be read and allow nothing: policies" in away.detail
    assert away.cause == "policies: no answer from ldap.example"
