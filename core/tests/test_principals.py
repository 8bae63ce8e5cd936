"""Principals as text, and patterns of them."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from greatseal.principals import Pattern, Principal, parse, principal_of

PARTS = {
    "a@R": (("a",), "R"),
    "a/b@R": (("a", "b"), "R"),
    "a/b/c@R": (("a", "b", "c"), "R"),
    "host/x@EVIL.TEST@R": (("host", "x@EVIL.TEST"), "R"),
    r"a\/b@R": (("a/b",), "R"),
    r"a\\/b@R": (("a\\", "b"), "R"),
    r"a@R\@S": (("a",), "R@S"),
    "a@R/S": (("a",), "R/S"),
}


@pytest.mark.parametrize("text", PARTS)
def test_s141_a_principal_is_split_where_no_backslash_stands(text: str) -> None:
    found = parse(text)

    assert (found.components, found.realm) == PARTS[text]
    assert found.is_service == (len(found.components) > 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("alice", "no @"), (r"alice\@R", "no @"), ("", "no @"), ("@R", "empty component"), ("a@", "empty realm"),
        ("/b@R", "empty component"), ("a/@R", "empty component"), ("a//b@R", "empty component"), ("a\n@R", "printed"),
        ("a\0@R", "printed"), ("a\u202e@R", "printed"), (r"a\n@R", "backslash"), (r"a\b@R", "backslash"), ("a@R\\", "backslash"),
        ("a" * 1023 + "@R", "1025 characters"),
    ],
)  # fmt: skip
def test_s141_what_is_no_principal_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)


def written(principal: Principal) -> str:
    """The text form of MIT's krb5_unparse_name, for printable characters."""
    escaped = [one.replace("\\", r"\\").replace("/", r"\/").replace("@", r"\@") for one in (*principal.components, principal.realm)]
    return f"{'/'.join(escaped[:-1])}@{escaped[-1]}"


PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=12)


@given(st.lists(PRINTABLE, min_size=1, max_size=4), PRINTABLE)
def test_whatever_is_written_is_read_again(components: list[str], realm: str) -> None:
    principal = Principal(tuple(components), realm)

    assert parse(written(principal)) == principal


@given(st.text(max_size=40) | st.text("/@\\ab", max_size=40))
@example("\\")
def test_any_text_is_a_principal_or_a_reason(text: str) -> None:
    with suppress(ValueError):
        found = parse(text)
        assert parse(written(found)) == found


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("host/Web1.chancery.test@R", "web1.chancery.test"),
        ("HTTP/web1/extra@R", "web1"),
        ("alice@R", None),
        (r"a\/b@R", None),
        ("host/\u212aA@R", "\u212aa"),
    ],
)
def test_the_host_of_a_service(text: str, host: str | None) -> None:
    assert parse(text).host == host


@pytest.mark.parametrize(
    ("text", "nobody"),
    [
        ("WELLKNOWN/ANONYMOUS@WELLKNOWN:ANONYMOUS", True),
        ("WELLKNOWN/ANONYMOUS@R", True),
        ("alice@WELLKNOWN:ANONYMOUS", True),
        ("WELLKNOWNS/a@R", False),
        ("host/WELLKNOWN@R", False),
    ],
)
def test_s084_a_reserved_name_is_nobodys(text: str, nobody: bool) -> None:
    assert parse(text).is_anonymous is nobody


# ---- patterns


@pytest.mark.parametrize(
    ("pattern", "principal", "matches"),
    [
        ("host/*@CHANCERY.TEST", "host/web1.chancery.test@CHANCERY.TEST", True),
        ("host/*@CHANCERY.TEST", "host/@CHANCERY.TEST", True),
        ("host/*@CHANCERY.TEST", "host/a/b@CHANCERY.TEST", True),
        ("host/*@CHANCERY.TEST", "host/web1.chancery.test@EVIL.TEST", False),
        ("host/*@CHANCERY.TEST", "host/x@EVIL.TEST@CHANCERY.TEST", False),
        ("host/*@CHANCERY.TEST", r"host/x\@EVIL.TEST@CHANCERY.TEST", False),
        ("host/*@CHANCERY.TEST", "host/web1.chancery.test@CHANCERY.TEST\n", False),
        ("host/*.chancery.test@CHANCERY.TEST", "host/web1xchancery.test@CHANCERY.TEST", False),
        ("*/web1.chancery.test@CHANCERY.TEST", "HTTP/web1.chancery.test@CHANCERY.TEST", True),
        ("*@*", "alice@CHANCERY.TEST", True),
        ("HTTP/*@CHANCERY.TEST", "http/web1.chancery.test@CHANCERY.TEST", False),
        ("a*b*c*@R", "abc@R", True),
        ("a*b*c*@R", "aabbccc@R", True),
        ("*a*a*b@R", "ab" * 500 + "@R", True),
        ("*a*a*b@R", "a" * 1000 + "@R", False),
        ("*@*", "@R", True),
        ("*/web1.chancery.test@CHANCERY.TEST", r"x\/web1.chancery.test@CHANCERY.TEST", False),
        ("host/*.chancery.test@CHANCERY.TEST", r"host/evil.test\/x.chancery.test@CHANCERY.TEST", False),
        ("host/*@CHANCERY.TEST", r"host/a\\b@CHANCERY.TEST", True),
        (r"x\/*@R", r"x\/y@R", True),
    ],
)
def test_idp_045_s086_a_wildcard_is_any_run_without_an_at(pattern: str, principal: str, matches: bool) -> None:
    assert Pattern(pattern).matches(principal) is matches


@pytest.mark.parametrize(
    ("text", "why"), [("host/*", "no @"), ("a*b*c*d*@R", "4 wildcards"), ("a\n*@R", "printed"), ("a" * 1023 + "@R", "1025 characters")]
)
def test_idp_044_idp_046_what_is_no_pattern_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Pattern(text)


def test_a_pattern_knows_whether_it_says_a_realm() -> None:
    assert [Pattern(text).any_realm for text in ("*@*", "*@R*", "a*@R")] == [True, True, False]


def test_what_is_no_principal_is_none() -> None:
    assert principal_of("host/a@R") == parse("host/a@R")
    for text in ("alice", "host/@R", "a\n@R"):
        assert principal_of(text) is None
