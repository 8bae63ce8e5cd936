import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.jose.strict import decode_json, decode_object, is_deeper

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_what_json_writes_is_read_back(value, ascii):
    assert decode_json(json.dumps(value, ensure_ascii=ascii).encode(), max_depth=100) == value


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\ue01dD8-+.naNIfity \n\0\ufeff', max_size=60).map(str.encode))
def test_any_bytes_give_a_value_or_a_reason(data):
    try:
        value = decode_json(data)
    except ValueError:
        return
    assert value == json.loads(data)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": NaN}', "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"[-Infinity]", "-Infinity"),
        (b"1e999", "double"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"x": {"a": 1, "\\u0061": 1}}', "twice"),
        (b"[" * 100_000, "deeper"),
        (b'{"a":' * 100_000, "deeper"),
        (b'["' * 32_000, "deeper"),
        (b'"\\"' * 21_000, "not JSON"),
        (b'"' + b"\\" * 65_535, "not JSON"),
        (b'{"\\u0041":' * 6_000, "deeper"),
        (b"[" * 40 + b'"' * 65_000, "deeper"),
        (b"[" * 33 + b"]" * 33, "deeper"),
        (b"1" * 5_000, "64 bits"),
        (b"9223372036854775808", "64 bits"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'["\\ud800 \\udc00"]', "surrogate"),
        (b'"\xed\xa0\x80"', "UTF-8"),
        (b'"\xff"', "UTF-8"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"{\x00}", "not JSON"),
        (b'"\\u0000"', "0000"),
        (b"", "not JSON"),
        (b"{} {}", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a": 01}', "not JSON"),
        (b'"\t"', "not JSON"),
        ("{}".encode("utf-16"), "UTF-8"),
    ],
)
def test_s148_one_text_has_one_meaning_or_is_refused(text, reason):
    with pytest.raises(ValueError, match=reason):
        decode_json(text)


def test_the_deepest_allowed_nesting_is_read():
    assert decode_json(b"[" * 32 + b"]" * 32)
    assert decode_json(b'{"a": "' + b"[" * 100 + b'"}') == {"a": "[" * 100}


def test_surrogate_pairs_are_characters():
    assert decode_json(b'"\\ud83d\\ude00"') == "\U0001f600"


@given(VALUES)
def test_depth_is_that_of_the_text_outside_strings(value):
    def depth(of):
        if isinstance(of, dict):
            return 1 + max(map(depth, of.values()), default=0)
        return 1 + max(map(depth, of), default=0) if isinstance(of, list) else 0

    text = json.dumps(value).encode()
    assert not is_deeper(text, depth(value))
    assert depth(value) == 0 or is_deeper(text, depth(value) - 1)


def test_an_object_is_asked_for():
    assert decode_object(b'{"a": 1}') == {"a": 1}
    with pytest.raises(ValueError, match="not a JSON object"):
        decode_object(b"[]")
