"""Cookies and the origin of requests that carry them."""

import pytest

from greatseal.http.cookies import clear_cookie, cookie_name, cookie_of, set_cookie
from greatseal.http.csrf import FORM, ForeignOrigin, refuse_foreign

OWN = {"https://id.example.org"}


def test_a_cookie_under_https_is_bound_to_the_host():
    assert set_cookie("session", "abc", max_age=28800, secure=True) == (
        "Set-Cookie",
        "__Host-session=abc; Path=/; Max-Age=28800; HttpOnly; SameSite=Lax; Secure",
    )


def test_a_cookie_of_a_loopback_issuer_has_no_prefix():
    assert set_cookie("session", "abc", max_age=60, secure=False)[1] == "session=abc; Path=/; Max-Age=60; HttpOnly; SameSite=Lax"
    assert cookie_name("session", secure=False) == "session"


def test_clearing_has_the_same_name_and_path():
    assert clear_cookie("session", secure=True)[1] == "__Host-session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure"


@pytest.mark.parametrize(("name", "value"), [("a b", "x"), ("a", "x;y"), ("a", "x\r\ny"), ("a", "é"), ("", "x"), ("a", 'x"'), ("a", "x,y")])
def test_s073_a_cookie_cannot_carry_separators(name, value):
    with pytest.raises(ValueError):
        set_cookie(name, value, max_age=1, secure=True)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("__Host-session=abc", "abc"),
        ("a=b; __Host-session=abc;c=d", "abc"),
        ("session=abc", None),
        ("__host-session=abc", None),
        ("__Host-session=abc; __Host-session=abc", None),
        ('__Host-session="abc"', None),
        ("__Host-session", None),
        ("", None),
    ],
)
def test_a_cookie_is_read_by_its_exact_name_and_only_once(header, value):
    assert cookie_of(header, "session", secure=True) == value


@pytest.mark.parametrize(
    ("origin", "site", "content_type", "token"),
    [
        (None, None, None, False),
        (None, None, "application/json", False),
        ("https://id.example.org", None, "application/json", False),
        ("https://id.example.org", "same-origin", "application/json", False),
        (None, "none", None, False),
        ("null", "same-origin", FORM, True),
    ],
)
def test_own_pages_and_no_browsers_pass(origin, site, content_type, token):
    refuse_foreign(origin=origin, fetch_site=site, own_origins=OWN, content_type=content_type, form_token_valid=token)


@pytest.mark.parametrize(
    ("origin", "site", "content_type", "token"),
    [
        ("https://evil.example", None, None, False),
        ("https://id.example.org.evil.example", None, "application/json", False),
        ("http://id.example.org", None, "application/json", False),
        ("https://id.example.org:8443", None, None, False),
        ("null", None, "application/json", False),
        ("null", "cross-site", FORM, True),
        (None, "cross-site", "application/json", False),
        (None, "same-site", "application/json", False),
        ("https://id.example.org", "same-site", "application/json", False),
        ("https://evil.example", "same-origin", "application/json", False),
        ("", None, None, False),
        (None, None, "text/plain", False),
        (None, None, "", False),
        ("https://id.example.org", "same-origin", FORM, False),
    ],
)
def test_others_are_refused(origin, site, content_type, token):
    with pytest.raises(ForeignOrigin) as refusal:
        refuse_foreign(origin=origin, fetch_site=site, own_origins=OWN, content_type=content_type, form_token_valid=token)

    assert (refusal.value.status, refusal.value.error) == (403, "csrf")
