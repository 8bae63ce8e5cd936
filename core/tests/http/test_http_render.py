"""Problems as answers."""

from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.problems import BadRequest, Forbidden, Internal, Problem, RateLimited, Unauthenticated
from greatseal.http.render import render
from greatseal.http.wire import head_of

STYLES = ("oauth", "api", "acme", "acme-admin", "page")


class Text(HTMLParser):
    """The text and the elements of a page."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.text = ""
        self.elements: list[str] = []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)

    def handle_data(self, data):
        self.text += data


PLAIN = Text(render(BadRequest("x"), "page").body).elements


@given(st.text(), st.sampled_from(STYLES))
def test_any_detail_can_be_said_in_any_style(detail, style):
    reply = render(BadRequest(detail), style)

    assert head_of(reply, style)
    if style == "page":
        assert Text(reply.body).elements == PLAIN
    else:
        body = msgspec.json.decode(reply.body)
        said = body["detail" if style.startswith("acme") else "error_description"]
        assert said
        if style == "oauth":
            assert all(char in "\x20\x21" or "\x23" <= char <= "\x5b" or "\x5d" <= char <= "\x7e" for char in said)
        elif detail.strip():
            assert said.encode("utf-8", "backslashreplace") == detail.encode("utf-8", "backslashreplace")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("problem", [BadRequest(), Unauthenticated(), Forbidden(), RateLimited(), Internal()])
def test_a_problem_without_detail_says_something(problem, style):
    reply = render(problem, style)

    assert reply.status == problem.status
    assert len(reply.body) > 20


def test_the_page_is_accessible_and_complete_in_itself():
    page = render(Forbidden("a <script>alert(1)</script>"), "page")
    text = page.body.decode()

    assert '<html lang="en">' in text
    assert "<title>You may not do this</title>" in text
    assert 'role="alert"' in text
    assert "<script>" not in text
    assert "http" not in text
    assert "src=" not in text


def test_a_cause_is_for_the_log_alone():
    for style in STYLES:
        assert b"s3cret" not in render(BadRequest("x", cause="s3cret"), style).body


def test_a_type_of_another_registry_stays():
    class Foreign(Problem):
        status, error, type = 400, "x", "about:blank"

    assert msgspec.json.decode(render(Foreign("x"), "acme").body)["type"] == "about:blank"


def test_members_do_not_replace_what_a_problem_is():
    body = msgspec.json.decode(render(BadRequest("x", members={"error": "y", "status": 200, "type": "z", "detail": "w"}), "acme").body)

    assert body == {"error": "y", "status": 400, "type": "urn:ietf:params:acme:error:malformed", "detail": "x"}
