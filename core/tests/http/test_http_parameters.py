"""Form and query parameters: the quick way reads what the slow one does, and one given twice is never read as one."""

import json
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.http import MAX_PARAMETERS, Parameters
from greatseal.api.problems import BadRequest


def read(encoded: bytes) -> dict[str, tuple[str, ...]]:
    parameters = Parameters.parse(encoded)
    return {name: parameters.all(name) for name in parameters}


@given(st.text("ab=&;%+ \0/?.~2F", max_size=30))
def test_parameters_are_those_of_the_standard_library(text):
    expected: dict[str, tuple[str, ...]] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError:
        with pytest.raises(BadRequest):
            read(text.encode())
        return
    for name, value in pairs:
        if value:
            expected[name] = (*expected.get(name, ()), value)

    assert read(text.encode()) == expected


def test_parameters_end_at_a_thousand():
    assert len(read(b"&".join(b"a%d=1" % number for number in range(MAX_PARAMETERS)))) == MAX_PARAMETERS
    for pair in (b"a=1", b"a=%31"):
        with pytest.raises(BadRequest):
            read(b"&".join([pair] * (MAX_PARAMETERS + 1)))


@pytest.mark.parametrize("encoded", ["ä=1".encode(), b"a=\xff", b"a=%ff"])
def test_parameters_that_are_not_readable(encoded):
    with pytest.raises(BadRequest):
        read(encoded)


READINGS = {
    "by name": lambda sent: sent["b"],
    "get": lambda sent: sent.get("b", "default"),
    "in": lambda sent: "b" in sent,
    "items": lambda sent: list(sent.items()),
    "values": lambda sent: list(sent.values()),
    "a dict of them": dict,
    "among others": lambda sent: {"c": "3", **sent},
    "as keywords": lambda sent: dict(**sent),
    "update": {"c": "3"}.update,
    "a union": lambda sent: sent | {"c": "3"},
    "a union from the right": lambda sent: {"c": "3"} | sent,
    "a copy": lambda sent: sent.copy(),
    "encoded": urlencode,
    "JSON": json.dumps,
    "formatted": "{b}".format_map,
}


@pytest.mark.parametrize("sent", ["a=1&b=1&b=2", "a=1&b=2&b=2", "b=1&a=1&b=%32&b=3"])
@pytest.mark.parametrize("way", READINGS)
def test_a_parameter_given_twice_is_refused_whichever_way_it_is_read(way, sent):
    read_so = READINGS[way]

    with pytest.raises(BadRequest, match="b was given twice"):
        read_so(Parameters.parse(sent.encode()))

    read_so(Parameters.parse(b"a=1&b=2"))


def test_beside_a_parameter_given_twice_the_others_are_read():
    sent = Parameters([("a", "1"), ("b", "1"), ("c", ""), ("b", "2")])

    assert (sent["a"], sent.get("c"), sent.get("c", "default"), "c" in sent) == ("1", None, "default", False)
    assert (list(sent), len(sent), [sent.all(name) for name in "abc"]) == (["a", "b"], 2, [("1",), ("1", "2"), ()])
    assert sent != {"a": "1", "b": "2"}
