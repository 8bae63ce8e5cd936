"""Form and query parameters: the quick way reads what the slow one does."""

from urllib.parse import parse_qsl

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
