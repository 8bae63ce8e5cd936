"""Metadata policies: the operators, how they are merged, and the example of OpenID Federation 1.0 s6.1.5."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from greatseal_openid_federation.policy import OPERATORS, PolicyError, applied, combined, enforced, merged, read

KIND = "openid_relying_party"
ANCHOR = {
    "grant_types": {
        "default": ["authorization_code"],
        "subset_of": ["authorization_code", "refresh_token"],
        "superset_of": ["authorization_code"],
    },
    "token_endpoint_auth_method": {"one_of": ["private_key_jwt", "self_signed_tls_client_auth"], "essential": True},
    "token_endpoint_auth_signing_alg": {"one_of": ["PS256", "ES256"]},
    "subject_type": {"value": "pairwise"},
    "contacts": {"add": ["helpdesk@federation.example.org"]},
}
INTERMEDIATE = {
    "grant_types": {"subset_of": ["authorization_code"]},
    "token_endpoint_auth_method": {"one_of": ["self_signed_tls_client_auth"]},
    "contacts": {"add": ["helpdesk@org.example.org"]},
}
MERGED = {
    "grant_types": {"default": ["authorization_code"], "superset_of": ["authorization_code"], "subset_of": ["authorization_code"]},
    "token_endpoint_auth_method": {"one_of": ["self_signed_tls_client_auth"], "essential": True},
    "token_endpoint_auth_signing_alg": {"one_of": ["PS256", "ES256"]},
    "subject_type": {"value": "pairwise"},
    "contacts": {"add": ["helpdesk@federation.example.org", "helpdesk@org.example.org"]},
}
LEAF = {
    "redirect_uris": ["https://rp.example.org/callback"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "self_signed_tls_client_auth",
    "contacts": ["rp_admins@rp.example.org"],
    "sector_identifier_uri": "https://org.example.org/sector-ids.json",
    "policy_uri": "https://org.example.org/policy.html",
}
RESOLVED = {
    **LEAF,
    "grant_types": ["authorization_code"],
    "subject_type": "pairwise",
    "contacts": ["rp_admins@rp.example.org", "helpdesk@federation.example.org", "helpdesk@org.example.org"],
}


def test_the_example_of_the_specification() -> None:
    policy = merged([{KIND: ANCHOR}, {KIND: INTERMEDIATE}])

    assert policy == {KIND: MERGED}
    assert applied(policy, {KIND: LEAF}) == {KIND: RESOLVED}


ABSENT = object()


def outcome(operators: dict[str, Any], value: Any, name: str = "p") -> Any:
    """The value that comes of it, or ABSENT."""
    found = applied({KIND: {name: read(name, operators)}}, {KIND: {} if value is ABSENT else {name: value}})
    return found[KIND].get(name, ABSENT)


@pytest.mark.parametrize(
    ("operators", "given", "found"),
    [
        # The table of s6.1.3.1.8.
        ({"essential": True, "subset_of": ["a", "b", "c"]}, ["a", "e"], ["a"]),
        ({"essential": False, "subset_of": ["a", "b", "c"]}, ["a", "e"], ["a"]),
        ({"essential": True, "subset_of": ["a", "b", "c"]}, ["d", "e"], []),
        ({"essential": False, "subset_of": ["a", "b", "c"]}, ["d", "e"], []),
        ({"essential": False, "subset_of": ["a", "b", "c"]}, ABSENT, ABSENT),
        ({"value": "x"}, "y", "x"),
        ({"value": "x"}, ABSENT, "x"),
        ({"value": None}, "y", ABSENT),
        ({"value": None}, ABSENT, ABSENT),
        ({"value": False}, True, False),
        ({"value": {"a": 1}}, 1, {"a": 1}),
        ({"add": ["b", "c"]}, ["a", "b"], ["a", "b", "c"]),
        ({"add": ["b"]}, ABSENT, ["b"]),
        ({"add": [{"a": 1}]}, [{"a": 1}, 2], [{"a": 1}, 2]),
        ({"default": "x"}, ABSENT, "x"),
        ({"default": "x"}, "y", "y"),
        ({"default": ["x"], "add": ["y"]}, ABSENT, ["y"]),
        ({"one_of": ["x", "y"]}, "y", "y"),
        ({"one_of": ["x"]}, ABSENT, ABSENT),
        ({"one_of": ["x"], "default": "x"}, ABSENT, "x"),
        ({"one_of": [1, 2]}, 2, 2),
        ({"superset_of": ["a"]}, ["b", "a"], ["b", "a"]),
        ({"superset_of": ["a"]}, ABSENT, ABSENT),
        ({"subset_of": ["a", "b"], "superset_of": ["a"]}, ["a", "c"], ["a"]),
        ({"essential": True}, {"a": 1}, {"a": 1}),
        ({"essential": False}, ABSENT, ABSENT),
        ({"regexp": "x"}, "y", "y"),
        ({}, "y", "y"),
    ],
)
def test_what_operators_make_of_a_value(operators: dict[str, Any], given: Any, found: Any) -> None:
    assert outcome(operators, given) == found


@pytest.mark.parametrize(
    ("operators", "given"),
    [
        ({"essential": True, "subset_of": ["a", "b", "c"]}, ABSENT),
        ({"essential": True}, ABSENT),
        ({"one_of": ["x"]}, "y"),
        ({"one_of": [1]}, True),
        ({"one_of": [1]}, 1.0),
        ({"one_of": ["x"]}, ["x"]),
        ({"superset_of": ["a"]}, ["b"]),
        ({"subset_of": ["a"], "superset_of": ["a"]}, ["b"]),
        ({"subset_of": ["a"]}, "a"),
        ({"superset_of": ["a"]}, "a"),
        ({"add": ["a"]}, "a"),
        ({"add": ["a"]}, [None]),
    ],
)
def test_metadata_that_break_a_policy(operators: dict[str, Any], given: Any) -> None:
    with pytest.raises(PolicyError):
        outcome(operators, given)


@pytest.mark.parametrize(
    ("operators", "given", "found"),
    [
        ({"subset_of": ["openid", "profile"]}, "openid email", "openid"),
        ({"default": "openid profile"}, ABSENT, "openid profile"),
        ({"default": ["openid", "profile"]}, ABSENT, "openid profile"),
        ({"add": ["email"]}, "openid", "openid email"),
        ({"value": "openid"}, "openid email", "openid"),
        ({"superset_of": ["openid"]}, "email openid", "email openid"),
    ],
)
def test_scope_is_one_text_and_a_list_to_operators(operators: dict[str, Any], given: Any, found: str) -> None:
    assert outcome(operators, given, "scope") == found


@pytest.mark.parametrize(
    "operators",
    [
        {"value": ["a"], "add": ["b"]},
        {"value": "a", "add": ["a"]},
        {"value": None, "add": ["a"]},
        {"value": None, "default": "a"},
        {"value": "a", "one_of": ["b"]},
        {"value": ["a", "b"], "subset_of": ["a"]},
        {"value": "a", "subset_of": ["a"]},
        {"value": ["a"], "superset_of": ["b"]},
        {"value": None, "essential": True},
        {"add": ["a"], "one_of": ["a"]},
        {"add": ["b"], "subset_of": ["a"]},
        {"one_of": ["a"], "subset_of": ["a"]},
        {"one_of": ["a"], "superset_of": ["a"]},
        {"subset_of": ["a"], "superset_of": ["a", "b"]},
        {"add": "a"},
        {"add": [True]},
        {"add": [["a"]]},
        {"add": None},
        {"one_of": []},
        {"one_of": "a"},
        {"subset_of": {"a": 1}},
        {"superset_of": 1},
        {"default": None},
        {"essential": "true"},
        {"essential": 1},
        {"essential": None},
    ],
)
def test_operators_that_are_none_or_do_not_go_together(operators: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        merged([{KIND: {"p": operators}}])


@pytest.mark.parametrize(
    "operators",
    [
        {"value": ["a", "b"], "add": ["b"]},
        {"value": "a", "default": "b"},
        {"value": "a", "one_of": ["a", "b"]},
        {"value": ["a"], "subset_of": ["a", "b"], "superset_of": ["a"]},
        {"value": None, "essential": False},
        {"value": "a", "essential": True},
        {"add": ["a"], "default": ["b"], "subset_of": ["a", "b"], "superset_of": ["b"], "essential": True},
        {"default": "a", "one_of": ["b"], "essential": True},
        {"subset_of": []},
    ],
)
def test_operators_that_go_together(operators: dict[str, Any]) -> None:
    assert merged([{KIND: {"p": operators}}]) == {KIND: {"p": operators}}


@pytest.mark.parametrize(
    ("superior", "subordinate", "both"),
    [
        ({"value": "a"}, {"value": "a"}, {"value": "a"}),
        ({"add": ["a"]}, {"add": ["b", "a"]}, {"add": ["a", "b"]}),
        ({"default": 1}, {"default": 1}, {"default": 1}),
        ({"one_of": ["a", "b"]}, {"one_of": ["b", "c"]}, {"one_of": ["b"]}),
        ({"subset_of": ["a"]}, {"subset_of": ["b"]}, {"subset_of": []}),
        ({"superset_of": ["a"]}, {"superset_of": ["b"]}, {"superset_of": ["a", "b"]}),
        ({"essential": True}, {"essential": False}, {"essential": True}),
        ({"essential": False}, {"essential": False}, {"essential": False}),
        ({"default": "a"}, {"essential": True}, {"default": "a", "essential": True}),
    ],
)
def test_how_two_policies_are_merged(superior: dict[str, Any], subordinate: dict[str, Any], both: dict[str, Any]) -> None:
    assert merged([{KIND: {"p": superior}}, {KIND: {"p": subordinate}}]) == {KIND: {"p": both}}


@pytest.mark.parametrize(
    ("superior", "subordinate"),
    [
        ({"value": "a"}, {"value": "b"}),
        ({"value": 1}, {"value": True}),
        ({"default": "a"}, {"default": "b"}),
        ({"one_of": ["a"]}, {"one_of": ["b"]}),
        ({"one_of": ["a"]}, {"subset_of": ["a"]}),
        ({"subset_of": ["a"]}, {"superset_of": ["b"]}),
        ({"value": "a"}, {"one_of": ["b"]}),
    ],
)
def test_policies_that_conflict(superior: dict[str, Any], subordinate: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        merged([{KIND: {"p": superior}}, {KIND: {"p": subordinate}}])


def test_a_policy_is_for_its_entity_type_and_makes_none() -> None:
    policy = merged([{"oauth_client": {"p": {"value": 1}}, "openid_provider": {"p": {"essential": True}}}])

    assert applied(policy, {KIND: {"p": 2}, "oauth_client": {}}) == {KIND: {"p": 2}, "oauth_client": {"p": 1}}


def test_a_parameter_with_a_strange_name_is_not_repeated() -> None:
    with pytest.raises(PolicyError, match="a parameter is missing"):
        outcome({"essential": True}, ABSENT, "<script>")


SCALARS = st.sampled_from(["a", "b", "c", 1, 2])
LISTS = st.lists(SCALARS, max_size=4, unique_by=repr)
OPERANDS = {
    "value": st.none() | SCALARS | LISTS,
    "add": LISTS,
    "default": SCALARS | LISTS,
    "one_of": LISTS,
    "subset_of": LISTS,
    "superset_of": LISTS,
    "essential": st.booleans(),
}
POLICIES = st.lists(st.sampled_from(OPERATORS), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: OPERANDS[name] for name in names})
)
VALUES = st.just(ABSENT) | SCALARS | LISTS


def joined(one: Any, other: Any) -> Any:
    """Both, or None where they do not go together."""
    try:
        return None if one is None or other is None else combined("p", one, other)
    except PolicyError:
        return None


def good(operators: Any) -> Any:
    try:
        return read("p", operators)
    except PolicyError:
        return None


def canonical(operators: Any) -> Any:
    """Lists of operators are sets, but those of value and default, which are values."""
    return operators and {
        name: sorted(map(repr, value)) if isinstance(value, list) and name not in {"value", "default"} else repr(value)
        for name, value in operators.items()
    }


@given(POLICIES, POLICIES, POLICIES)
def test_merging_is_associative_also_in_what_it_refuses(one: Any, two: Any, three: Any) -> None:
    one, two, three = good(one), good(two), good(three)

    assert canonical(joined(joined(one, two), three)) == canonical(joined(one, joined(two, three)))
    assert canonical(joined(one, two)) == canonical(joined(two, one))
    assert canonical(joined(one, one)) == canonical(one)


@example({"value": None}, {"add": []}, ABSENT)
@given(POLICIES, POLICIES, VALUES)
def test_no_subordinate_makes_a_policy_more_permissive(superior: Any, subordinate: Any, value: Any) -> None:
    superior, subordinate = good(superior), good(subordinate)
    both = joined(superior, subordinate)
    try:
        found = None if both is None else applied({KIND: {"p": both}}, {KIND: {} if value is ABSENT else {"p": value}})[KIND]
    except PolicyError:
        found = None
    if found is not None:  # what comes of both keeps each by itself
        for policy in (superior, subordinate, both):
            checks = {name: policy[name] for name in policy if name != "default"}
            assert applied({KIND: {"p": checks}}, {KIND: found}) == {KIND: found}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.just("p") | st.just("scope"), st.dictionaries(st.sampled_from([*OPERATORS, "x"]), JSON), max_size=2)),
    st.dictionaries(st.just("p") | st.just("scope"), JSON),
)
def test_any_policy_and_any_metadata_are_refused_or_resolved(policies: Any, metadata: Any) -> None:
    try:
        found = applied(merged({KIND: one} for one in policies), {KIND: metadata})[KIND]
    except PolicyError as refused:
        found = {"refused": str(refused)}
    json.dumps(found)
    assert found.get("refused", "").isprintable()
    assert None not in found.values() or None in metadata.values()


def test_values_may_be_absent() -> None:
    with pytest.raises(PolicyError):
        enforced("p", {"one_of": ["a"]}, "b")
