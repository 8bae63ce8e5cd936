"""Rules against requests: what they say, and the same from somebody who reads every rule (reference: FreeIPA's HBAC rules)."""

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.problems import BadRequest
from greatseal_hbac.evaluation import Content, Facts, Rule, RuleSet, useless
from greatseal_hbac.rules import AXES, checked

REALM = "EXAMPLE.ORG"
NAMES = ("a", "b", "c")
EVERYBODY: dict[str, Any] = {"user_category": "all", "client_category": "all", "scope_category": "all"}
PLAIN = Facts(kind="grant", subject="ann@EXAMPLE.ORG", client_id="wiki", groups=frozenset({"staff"}), scopes=frozenset({"openid", "email"}))


def rules(*contents: dict[str, Any]) -> RuleSet:
    made = [Rule(rule_id=str(number), content=checked(one), created_at=0, updated_at=0) for number, one in enumerate(contents)]
    return RuleSet(made, REALM)


def allowed(facts: Facts, *contents: dict[str, Any]) -> bool:
    return bool(rules(*contents).decide(facts).rules)


def changed(**changes: Any) -> Facts:
    return Facts(**{name: changes.get(name, getattr(PLAIN, name)) for name in Facts.__struct_fields__})


@pytest.mark.parametrize(
    ("content", "fits"),
    [
        (EVERYBODY, True),
        ({**EVERYBODY, "enabled": False}, False),
        ({**EVERYBODY, "user_category": None}, False),
        ({**EVERYBODY, "client_category": None}, False),
        ({**EVERYBODY, "scope_category": None}, False),
        ({**EVERYBODY, "user_category": None, "users": ["ann"]}, True),
        ({**EVERYBODY, "user_category": None, "users": ["ann@example.org"]}, True),
        ({**EVERYBODY, "user_category": None, "users": ["ann@OTHER.ORG"]}, False),
        ({**EVERYBODY, "user_category": None, "users": ["Ann"]}, False),
        ({**EVERYBODY, "user_category": None, "user_groups": ["staff"]}, True),
        ({**EVERYBODY, "user_category": None, "user_groups": ["board"]}, False),
        ({**EVERYBODY, "user_category": None, "users": ["ben"], "user_groups": ["staff"]}, True),
        ({**EVERYBODY, "client_category": None, "clients": ["wiki"]}, True),
        ({**EVERYBODY, "client_category": None, "clients": ["shop"]}, False),
        ({**EVERYBODY, "scope_category": None, "scopes": ["email"]}, True),
        ({**EVERYBODY, "scope_category": None, "scopes": ["phone"]}, False),
        ({**EVERYBODY, "require_mfa": True}, False),
        ({**EVERYBODY, "hosts": ["web.example.org"], "services": ["http"]}, True),
    ],
)
def test_each_axis_fits_by_list_or_category(content: dict[str, Any], fits: bool) -> None:
    assert allowed(PLAIN, content) is fits


def test_networks_count_where_the_person_is_seen_and_mfa_always() -> None:
    office = {**EVERYBODY, "networks": ["192.0.2.0/24", "2001:db8::/32"]}

    assert allowed(changed(address="192.0.2.7"), office)
    assert allowed(changed(address="2001:db8::7"), office)
    assert not allowed(changed(address="198.51.100.7"), office)
    assert not allowed(changed(address=""), office), "a socket file has no address"
    assert allowed(changed(address=None), office), "the server of an application fetches the tokens"
    assert allowed(changed(amr=("pwd", "otp", "mfa")), {**EVERYBODY, "require_mfa": True})


def test_what_several_rules_allow_is_allowed_together() -> None:
    some = [{**EVERYBODY, "scope_category": None, "scopes": [scope]} for scope in ("openid", "email", "phone")]

    decision = rules(*some, {**EVERYBODY, "client_category": None, "clients": ["other"]}).decide(PLAIN)

    assert decision.scopes == {"openid", "email"}
    assert {rule.rule_id for rule in decision.rules} == {"0", "1"}
    assert rules(*some).decide(changed(scopes=frozenset())).scopes == frozenset()
    assert len(rules(*some).decide(changed(scopes=frozenset())).rules) == 3, "a request without scopes fits every rule that lists some"
    assert not allowed(changed(scopes=frozenset()), {**EVERYBODY, "scope_category": None})


def test_idp_068_idp_070_a_target_is_listed_or_all_are() -> None:
    acting = changed(kind="exchange", target_service="HTTP/files.example.org@EXAMPLE.ORG")

    assert not allowed(acting, EVERYBODY)
    assert allowed(acting, {**EVERYBODY, "delegation_targets": ["HTTP/files.example.org@EXAMPLE.ORG"]})
    assert not allowed(acting, {**EVERYBODY, "delegation_targets": ["HTTP/files.example.org@OTHER.ORG"]})
    assert allowed(acting, {**EVERYBODY, "delegation_target_category": True})
    assert not allowed(changed(**{**facts_of(acting), "client_id": "x"}), {
        **EVERYBODY, "delegation_target_category": True, "client_category": None, "clients": ["wiki"],
    })  # fmt: skip


def facts_of(facts: Facts) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in Facts.__struct_fields__}


def test_r58_a_principal_is_listed_as_user_or_stands_for_its_host() -> None:
    program = Facts(
        kind="service", subject="host/web.example.org@EXAMPLE.ORG", service="shop", host="web.example.org", hostgroups=frozenset({"webs"})
    )
    shop = {"services": ["shop"]}

    assert allowed(program, {**shop, "users": ["host/web.example.org@EXAMPLE.ORG"]})
    assert allowed(program, {**shop, "hosts": ["WEB.example.org"]})
    assert allowed(program, {**shop, "hostgroups": ["webs"]})
    assert allowed(program, {**shop, "host_category": "all"})
    assert allowed(program, {"service_category": "all", "user_category": "all"})
    assert not allowed(program, {**shop, "hosts": ["db.example.org"]})
    assert not allowed(program, {**shop, "client_category": "all", "scope_category": "all"})
    assert not allowed(program, {"services": ["mail"], "host_category": "all"})
    assert not allowed(program, {**shop, "host_category": "all", "enabled": False})
    assert not allowed(program, {**shop, "users": ["ann"], "user_groups": ["board"]})
    person = Facts(kind="service", subject="ann@EXAMPLE.ORG", service="shop")
    assert not allowed(person, {**shop, "host_category": "all"}), "who has no host is no host"


def test_a_user_of_a_rule_may_be_a_pattern_of_principals_for_programs_alone() -> None:
    web = {"users": ["host/web*.example.org@EXAMPLE.ORG"], "services": ["shop"]}
    program = Facts(kind="service", subject="host/web1.example.org@EXAMPLE.ORG", service="shop")
    assert allowed(program, web)
    for other in ("host/db1.example.org@EXAMPLE.ORG", "HTTP/web1.example.org@EXAMPLE.ORG", "host/web1.example.org@OTHER.ORG"):
        assert not allowed(Facts(kind="service", subject=other, service="shop"), web)
    assert not allowed(program, {**web, "users": ["*"]}), "a name without a realm is no pattern"
    assert not allowed(PLAIN, {**EVERYBODY, "user_category": None, "users": ["*@EXAMPLE.ORG"]}), "people are named"
    with pytest.raises(BadRequest, match="has 4 wildcards"):
        checked({"users": ["a*b*c*d*@EXAMPLE.ORG"]})
    old = Rule(rule_id="old", content=Content(users=("a*b*c*d*@EXAMPLE.ORG",), services=("shop",)), created_at=0, updated_at=0)
    assert not RuleSet([old], REALM).decide(program).rules


@pytest.mark.parametrize(
    ("content", "named"),
    [
        *(({category: "all", name: ["a/b"]}, category) for category, names in AXES.items() for name in names),
        ({"delegation_targets": ["nothing"]}, "delegation_targets"),
        ({"networks": ["192.0.2.1/24"]}, "networks"),
        ({"networks": ["here"]}, "networks"),
        ({"users": [""]}, "users"),
        ({"users": ["a\nb"]}, "users"),
        ({"users": ["a" * 513]}, "users"),
        ({"clients": [str(number) for number in range(1001)]}, "clients"),
        ({"name": "a" * 257}, "name"),
        ({"description": "\0"}, "description"),
    ],
)
def test_what_cannot_be_a_rule_is_refused_with_the_member(content: dict[str, Any], named: str) -> None:
    with pytest.raises(BadRequest, match=f"^{named}: "):
        checked(content)


def test_lists_lose_what_stands_twice_and_are_written_as_usual() -> None:
    content = checked({"users": ["b", "a", "b"], "networks": ["2001:DB8::/32", "192.0.2.1"], "hosts": ["WEB.Example.org"]})

    assert content.users == ("b", "a")
    assert content.networks == ("2001:db8::/32", "192.0.2.1/32")
    assert content.hosts == ("web.example.org",)


def test_a_rule_that_nothing_can_match_is_known() -> None:
    assert useless(Content(**EVERYBODY)) is None
    assert useless(Content(hosts=("a",), services=("b",))) is None
    assert useless(Content(users=("a",), client_category="all")) == "nothing fits its scope"
    assert useless(Content(hosts=("a",), clients=("b",))) == "nothing fits its user and scope"


AXIS = st.one_of(
    st.just({"all": True, "some": ()}),
    st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(lambda some: {"all": False, "some": some}),
)
SOME = st.sets(st.sampled_from(NAMES), max_size=2).map(frozenset)


@st.composite
def contents(draw: st.DrawFn) -> dict[str, Any]:
    user, client, scope, service = (draw(AXIS) for _ in range(4))
    said = {
        "enabled": draw(st.integers(0, 4)) > 0,
        "user_category": "all" if user["all"] else None,
        "users": user["some"],
        "user_groups": () if user["all"] else sorted(draw(SOME)),
        "client_category": "all" if client["all"] else None,
        "clients": client["some"],
        "scope_category": "all" if scope["all"] else None,
        "scopes": scope["some"],
        "service_category": "all" if service["all"] else None,
        "services": service["some"],
        "networks": draw(st.sampled_from([(), ("192.0.2.0/24",), ("2001:db8::/32", "198.51.100.1")])),
        "require_mfa": draw(st.booleans()),
        "delegation_targets": draw(st.sampled_from([(), ("a/b",), ("a/b", "c/d")])),
        "delegation_target_category": draw(st.booleans()),
    }
    hosts: dict[str, Any] = draw(st.sampled_from([{}, {"host_category": "all"}, {"hosts": ["h"]}, {"hostgroups": ["a", "b"]}]))
    return {**said, **hosts}


FACTS = st.builds(
    Facts,
    kind=st.sampled_from(["grant", "exchange", "service"]),
    subject=st.sampled_from([f"{name}@{REALM}" for name in NAMES]),
    client_id=st.sampled_from(NAMES),
    groups=SOME,
    scopes=SOME,
    address=st.sampled_from([None, "192.0.2.9", "198.51.100.1", "2001:db8::1"]),
    amr=st.sampled_from([(), ("pwd",), ("mfa",)]),
    target_service=st.sampled_from([None, "a/b", "e/f"]),
    service=st.sampled_from(NAMES),
    host=st.sampled_from([None, "h", "i"]),
    hostgroups=SOME,
)


def said_by(content: dict[str, Any], facts: Facts) -> bool:
    """Whether a rule matches, read off its text without an index."""
    user = (
        content["user_category"] == "all" or facts.subject.split("@")[0] in content["users"] or set(content["user_groups"]) & facts.groups
    )
    if facts.kind == "service":
        host = facts.host is not None and (
            "host_category" in content or facts.host in content.get("hosts", ()) or set(content.get("hostgroups", ())) & facts.hostgroups
        )
        return bool(
            content["enabled"] and (user or host) and (content["service_category"] == "all" or facts.service in content["services"])
        )
    near = facts.address is None or not content["networks"]
    near = near or any(ip_address(facts.address or "") in ip_network(one) for one in content["networks"])
    listed = content["scope_category"] == "all" or (content["scopes"] and (not facts.scopes or set(content["scopes"]) & facts.scopes))
    target = facts.target_service is None or content["delegation_target_category"] or facts.target_service in content["delegation_targets"]
    client = content["client_category"] == "all" or facts.client_id in content["clients"]
    return bool(
        content["enabled"] and user and client and listed and near and target and ("mfa" in facts.amr or not content["require_mfa"])
    )


@given(st.lists(contents(), max_size=12), FACTS)
def test_the_index_finds_what_reading_every_rule_finds(some: list[dict[str, Any]], facts: Facts) -> None:
    decision = rules(*some).decide(facts)

    matching = [number for number, one in enumerate(some) if said_by(one, facts)]
    assert {rule.rule_id for rule in decision.rules} == {str(number) for number in matching}
    scopes = [
        facts.scopes if some[number]["scope_category"] == "all" else facts.scopes & set(some[number]["scopes"]) for number in matching
    ]
    assert decision.scopes == frozenset().union(*scopes)
