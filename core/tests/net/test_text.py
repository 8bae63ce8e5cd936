"""What strangers sent, in messages."""

from hypothesis import given
from hypothesis import strategies as st

from greatseal.net.text import excerpt, listing


def test_control_characters_and_broken_utf_8_are_escaped() -> None:
    assert excerpt(b"\x1b[31mred\r\n\x00\xff") == '"\\x1b[31mred\\r\\n\\x00\\xff"'
    assert excerpt("a\u202eb\u2028") == '"a\\u202eb\\u2028"'


def test_long_text_is_cut_at_a_hundred_characters() -> None:
    assert excerpt("x" * 100) == f'"{"x" * 100}"'
    assert excerpt("x" * 101) == f'"{"x" * 100}"...'
    assert excerpt(b"\x00" * 1000) == '"' + "\\x00" * 25 + '"...'


def test_a_listing_shows_three_values() -> None:
    assert listing([]) == "nothing"
    assert listing(["a", "b"]) == '"a", "b"'
    assert listing(["a", "b", "c", "d", "e"]) == '"a", "b", "c" and 2 more'


@given(st.binary() | st.text())
def test_an_excerpt_is_printable_and_bounded(found: bytes | str) -> None:
    shown = excerpt(found)

    assert shown.isprintable()
    assert len(shown) <= 105
