"""What is asked of the directory and what is made of the answers, with answers that no honest server gives."""

import pytest
import structlog

from greatseal.api.directory import DirectoryUnavailable
from greatseal.testing import FakeClock
from greatseal_ipa import reader as module
from greatseal_ipa.access import IpaRules
from greatseal_ipa.active_directory import ActiveDirectory
from greatseal_ipa.freeipa import FreeIpa
from greatseal_ipa.library import Entry, Found, Oversized
from greatseal_ipa.openldap import OpenLdap
from greatseal_ipa.reader import Reader

BASE, REALM = "dc=example,dc=com", "EXAMPLE.COM"
USERS = f"cn=users,cn=accounts,{BASE}"


def entry(dn, **values):
    return Entry(dn, {name.lower(): (value.encode(),) if isinstance(value, str) else value for name, value in values.items()})


class Answers:
    """A pool that gives what ``answer`` makes of a query."""

    def __init__(self, answer):
        self.answer = answer
        self.queries = []

    async def search(self, query):
        self.queries.append(query)
        found = self.answer(query)
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, Found) else Found(found)


def made(answer=lambda _: (), schema=FreeIpa, seconds=5.0, clock=None):
    pool = Answers(answer)
    return Reader(pool, schema(BASE, REALM), clock or FakeClock(), structlog.get_logger(), seconds=seconds), pool


def asks(pool):
    """Queries but that of what holds for everybody."""
    return [query for query in pool.queries if "cn=etc" not in query.base]


def ann(query):
    return [] if "cn=etc" in query.base else [entry(f"uid=ann,{USERS}", uid="ann")]


@pytest.mark.parametrize("name", ["", " ann", "a\0", "x" * 256])
async def test_s087_what_nobody_is_called_is_asked_of_nobody(name):
    reader, pool = made()

    assert await reader.person(name) is None
    assert await reader.named(f"{name}@{REALM}") is None
    assert await reader.group(name) is None
    assert await reader.hostgroups_of(name) is None
    assert not name or await reader.hostgroups(name, 10) == ()
    assert not name or await reader.users(name, 10, "") == []
    assert asks(pool) == []


@pytest.mark.parametrize("principal", ["ann@EXAMPLE.COM", "host/web1@OTHER.COM", "host/web1@example.com", "host/web1", "@"])
async def test_idp_326_only_services_of_the_realm_manage_anything(principal):
    reader, pool = made(lambda _: [entry(f"fqdn=web1,{BASE}", fqdn="web1")])

    assert await reader.managed_by(principal) is None
    assert pool.queries == []
    assert await reader.managed_by("host/web1@EXAMPLE.COM") == {"web1"}


async def test_a_name_with_another_realm_is_nobodys_here():
    reader, pool = made(ann)

    assert await reader.named("ann@OTHER.COM") is None
    assert pool.queries == []
    assert (await reader.named("ann@example.com")).user.username == "ann"
    assert (await reader.named("ann")).user.username == "ann"
    assert len(asks(pool)) == 1


async def test_a_name_is_kept_as_it_was_asked_for_and_no_longer_than_stated():
    clock = FakeClock()
    reader, pool = made(ann, clock=clock)

    for name in ("ann", "ANN", "ann", "ANN"):
        assert await reader.person(name)
    assert len(asks(pool)) == 2
    clock.advance(5)
    assert await reader.person("ann")
    reader.forget("ann")
    assert await reader.person("ann")
    assert await reader.person("ann", fresh=True)
    assert len(asks(pool)) == 5


@pytest.mark.parametrize("username", ["host/web1", "ann@EXAMPLE.COM", "a\\nn", "ann\n"])
async def test_s086_an_entry_of_a_name_that_no_person_may_have_is_nobody(username):
    reader, _ = made(
        lambda query: [] if "cn=etc" in query.base else [entry(f"uid=x,{USERS}", uid=username, krbPrincipalName="ann@EXAMPLE.COM")]
    )

    assert await reader.person("ann") is None


async def test_nobody_is_kept_too_and_no_longer():
    clock = FakeClock()
    reader, pool = made(clock=clock)

    assert [await reader.person("ann"), await reader.person("ann")] == [None, None]
    assert len(asks(pool)) == 1
    clock.advance(5)
    pool.answer = ann
    assert await reader.person("ann") is not None


async def test_two_of_one_name_are_nobodys():
    both = [entry(f"uid=ann,{USERS}", uid="ann"), entry(f"uid=Ann,ou=x,{USERS}", uid="Ann")]
    reader, _ = made(lambda _: both)

    with pytest.raises(DirectoryUnavailable) as problem:
        await reader.person("ann")
    assert problem.value.cause == f"uid=ann,{USERS} and uid=Ann,ou=x,{USERS} have the same name"


async def test_an_own_name_comes_before_an_alias_and_two_aliases_are_nobodys():
    bob = entry(f"uid=bob,{USERS}", uid="bob", krbPrincipalName="ann@EXAMPLE.COM")
    carol = entry(f"uid=carol,{USERS}", uid="carol", krbPrincipalName="ann@EXAMPLE.COM")
    reader, pool = made(lambda _: [bob, entry(f"uid=ann,{USERS}", uid="ann")])
    assert (await reader.person("ann")).user.username == "ann"

    pool.answer = lambda _: [bob]
    assert (await reader.person("ann", fresh=True)).user.username == "bob"
    pool.answer = lambda _: [bob, carol]
    with pytest.raises(DirectoryUnavailable):
        await reader.person("ann", fresh=True)


async def test_an_entry_without_its_name_is_nobody():
    reader, _ = made(lambda query: [] if "cn=etc" in query.base else [entry(f"uid=ann,{USERS}", krbPrincipalName="ann@EXAMPLE.COM")])

    assert await reader.person("ann") is None


async def test_what_is_far_too_long_is_an_outage_and_a_group_is_read_without_its_members():
    reader, _ = made(lambda _: Oversized("far"))
    for ask in (reader.person("ann"), reader.group("ops"), reader.users("", 10, ""), reader.hostgroups("", 10)):
        with pytest.raises(DirectoryUnavailable) as problem:
            await ask
        assert problem.value.cause == "far"

    ops = entry(f"cn=ops,{BASE}", cn="ops")
    reader, _ = made(lambda query: Oversized("far") if "member" in query.attributes else [ops], OpenLdap)
    assert (await reader.group("ops")).members == ()


async def test_a_group_of_a_name_that_only_looks_alike_is_another():
    reader, _ = made(lambda _: [entry(f"cn=ops2,{BASE}", cn="ops2")])

    assert await reader.group("ops") is None


async def test_what_a_kind_of_directory_does_not_have_is_not_asked():
    reader, pool = made(schema=OpenLdap)

    assert await reader.providers() == ()
    assert await reader.hostgroups("", 10) == ()
    assert await reader.hostgroups_of("web1") is None
    assert await reader.managed_by("host/web1@EXAMPLE.COM") is None
    assert pool.queries == []


async def test_a_machine_that_is_not_there_has_no_groups_and_one_without_has_none():
    reader, pool = made(schema=ActiveDirectory, seconds=0)
    assert await reader.hostgroups_of("web1") is None
    assert await reader.managed_by("host/web1@EXAMPLE.COM") is None

    pool.answer = lambda query: [entry("cn=web1", dNSHostName="WEB1.example.com")] if "computer" in query.filter else []
    assert await reader.hostgroups_of("web1") == frozenset()


async def test_a_kind_that_finds_no_groups_by_their_members_has_none():
    class Odd(FreeIpa):
        levels = 1

    reader, _ = made(ann, Odd)

    assert (await reader.person("ann")).user.groups == ()


async def test_groups_in_groups_end_at_the_levels_of_the_schema():
    """Each group is in another one, without an end."""

    def answer(query):
        if "cn=etc" in query.base or "inetOrgPerson" in query.filter:
            return [entry(f"uid=ann,{BASE}", uid="ann")]
        number = len([one for one in pool.queries if "groupOfNames" in one.filter])
        return [entry(f"cn=g{number:02},{BASE}", cn=f"g{number:02}")]

    reader, pool = made(answer, OpenLdap)
    person = await reader.person("ann")

    assert len(person.user.groups) == OpenLdap.levels
    assert len(pool.queries) == 1 + OpenLdap.levels


async def test_a_person_has_no_more_groups_than_stated(monkeypatch):
    monkeypatch.setattr(module, "MOST_GROUPS", 3)
    dns = tuple(f"cn=g{number},cn=groups,cn=accounts,{BASE}".encode() for number in range(9))
    reader, _ = made(lambda query: [] if "cn=etc" in query.base else [entry(f"uid=ann,{USERS}", uid="ann", memberOf=dns)])

    assert (await reader.person("ann")).user.groups == ("g0", "g1", "g2")


async def test_groups_of_elsewhere_are_none():
    dns = (b"cn=ops,cn=groups,cn=accounts,dc=evil", f"cn=a,cn=ops,cn=groups,cn=accounts,{BASE}".encode(), b"no dn")
    reader, _ = made(lambda query: [] if "cn=etc" in query.base else [entry(f"uid=ann,{USERS}", uid="ann", memberOf=dns)])

    assert (await reader.person("ann")).user.groups == ()


async def test_groups_in_a_group_are_looked_into_as_often_as_stated(monkeypatch):
    monkeypatch.setattr(module, "MOST_SUBGROUPS", 4)
    names = tuple(f"cn=g{number},{BASE}".encode() for number in range(50))
    reader, pool = made(lambda query: [entry(query.base, cn="all", member=names)], OpenLdap)

    await reader.group("all")

    assert len([query for query in pool.queries if query.limit == 1]) == 4


async def test_rules_that_are_not_all_are_none():
    for answer in (Oversized("far"), Found([], complete=False)):
        pool = Answers(lambda _, answer=answer: answer)
        with pytest.raises(DirectoryUnavailable) as problem:
            await IpaRules(pool, BASE).read()
        assert problem.value.cause in {"far", f"cn=hbac,{BASE} has more than 10000 entries"}


async def test_a_category_is_all_and_nothing_else():
    rules = [
        entry("cn=1", ipaUniqueID="1", ipaEnabledFlag="TRUE", accessRuleType="allow", userCategory="ALL", hostCategory="all"),
        entry("cn=2", ipaUniqueID="2", ipaEnabledFlag="TRUE", accessRuleType="allow", userCategory="allx"),
    ]
    book = await IpaRules(Answers(lambda query: rules if "ipaHBACRule" in query.filter else []), BASE).read()

    assert [(rule.any_user, rule.any_host, rule.any_service) for rule in book.rules] == [(True, True, False), (False, False, False)]


async def test_half_of_an_answer_is_none():
    reader, _ = made(lambda query: Found([entry(f"fqdn=web1,{BASE}", fqdn="web1")], "managedBy" not in query.filter))

    with pytest.raises(DirectoryUnavailable):
        await reader.managed_by("host/web1@EXAMPLE.COM")
