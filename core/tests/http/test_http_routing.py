"""Paths and templates."""

from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.http import Anonymous, AuthScheme, Bearer, Handler, Route
from greatseal.http.routing import PathTable, check_routes, segments_of, template_of

SEGMENTS = st.sampled_from(["a", "b", "ab", "{x}", "{y}", ""])
TEMPLATES = st.lists(SEGMENTS, min_size=1, max_size=4).flatmap(
    lambda parts: st.sampled_from([parts, [*parts, "{rest*}"], [*parts, "{all**}"]]).map(lambda all_: "/" + "/".join(all_))
)
RAW = st.lists(
    st.sampled_from(["a", "b", "ab", "c", "", ".", "..", "%61", "%2e", "%2E%2e", "a%2Fb", "%zz", "%", "%ff", "%00", "é", "a b", "%c3%a9"]),
    max_size=6,
).map(lambda parts: "/" + "/".join(parts))


def reference(table: list[tuple[str, str]], method: str, path: str) -> tuple[str | None, dict[str, str], set[str]]:
    """The rule in its plainest form: try every template, sort by how literal it is."""
    nothing: tuple[str | None, dict[str, str], set[str]] = (None, {}, set())
    try:
        parts = [decoded(part) for part in path[1:].split("/")]
    except ValueError:
        return nothing
    fits = []
    for has, template in table:
        parameters = matched(template[1:].split("/"), parts)
        if parameters is not None:
            rank = [one.count("*") + 1 if one.startswith("{") else 0 for one in template[1:].split("/")]
            fits.append((rank, has, template, parameters))
    fits.sort(key=lambda fit: fit[0])
    for _, has, template, parameters in fits:
        if has == method:
            return f"{has} {template}", parameters, set()
    return None, {}, {has for _, has, _, _ in fits}


def decoded(part: str) -> str:
    for at, char in enumerate(part):
        if char == "%":
            int(part[at + 1 : at + 3] if len(part) >= at + 3 else "no", 16)
        elif not (char.isascii() and (char.isalnum() or char in "-._~!$&'()*+,;=:@")):
            raise ValueError(part)
    text = unquote_to_bytes(part).decode()
    if text in {".", ".."} or any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise ValueError(part)
    return text


def matched(template: list[str], parts: list[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for at, one in enumerate(template):
        if one.endswith("**}"):
            return {**found, one[1:-3]: "/".join(parts[at:])} if parts[at:] else None
        if one.endswith("*}"):
            rest = parts[at:]
            return {**found, one[1:-2]: "/".join(rest)} if rest and all(rest) and not any("/" in part for part in rest) else None
        if at >= len(parts):
            return None
        if one.startswith("{"):
            if not parts[at]:
                return None
            found[one[1:-1]] = parts[at]
        elif one != parts[at]:
            return None
    return found if len(template) == len(parts) else None


@given(st.lists(st.tuples(st.sampled_from(["GET", "POST"]), TEMPLATES), max_size=8), st.sampled_from(["GET", "POST", "PUT"]), RAW)
def test_matcher_agrees_with_the_naive_one(routes, method, path):
    table: PathTable[str] = PathTable()
    kept = []
    for has, template in routes:
        try:
            if table.add(has, template, f"{has} {template}"):
                kept.append((has, template))
        except ValueError:
            continue

    match = table.find(method, path)

    assert (match.value, dict(match.parameters), set(match.allowed)) == reference(kept, method, path)


@given(st.text(min_size=1).filter(lambda text: text not in {".", ".."} and all(ord(c) >= 32 and ord(c) != 127 for c in text)))
def test_any_text_travels_in_one_segment(text):
    table: PathTable[int] = PathTable()
    table.add("GET", "/o/{id}", 1)

    try:
        path = f"/o/{quote(text, safe='')}"
    except UnicodeEncodeError:
        return
    assert table.find("GET", path).parameters == {"id": text}


@pytest.mark.parametrize(
    "path",
    ["//", "/a/", "/a//", "//a", "/a/.", "/a/..", "/./a", "/%2e/a", "/b/%2e%2e/a", "/a%2f", "/%61%zz", "/a%00", "/a%0a", "/é", "/a%ff",
     "", "a", "*", "http://evil.example/a", "/a#b", "/%2561", "/a\\", "/a%"],
)  # fmt: skip
def test_no_path_is_repaired_into_another(path):
    table: PathTable[int] = PathTable()
    table.add("GET", "/a", 1)

    assert table.find("GET", path).value is None


def test_percent_encoding_of_plain_characters_is_taken_off_once():
    table: PathTable[int] = PathTable()
    table.add("GET", "/a/{name}", 1)

    assert table.find("GET", "/%61/%2561").parameters == {"name": "%61"}


def test_an_encoded_slash_is_no_separator():
    table: PathTable[int] = PathTable()
    table.add("GET", "/principals/{name}", 1)
    table.add("GET", "/files/{path*}", 2)

    assert table.find("GET", "/principals/host%2Fa.example").parameters == {"name": "host/a.example"}
    assert table.find("GET", "/files/a%2Fb").value is None
    assert table.find("GET", "/files/a/b").parameters == {"path": "a/b"}


def test_the_whole_rest_is_what_was_sent_with_its_slashes():
    table = PathTable[int]()
    table.add("GET", "/ocsp/{request**}", 1)
    table.add("GET", "/ocsp/list", 2)

    for path in ("a//b+/c=", "a%2F%2Fb+%2Fc%3D", "a/%2Fb%2B/c="):
        assert table.find("GET", f"/ocsp/{path}").parameters == {"request": "a//b+/c="}
    assert table.find("GET", "/ocsp/list").value == 2
    assert table.find("GET", "/ocsp/").parameters == {"request": ""}
    assert table.find("GET", "/ocsp").value is None
    assert table.find("GET", "/ocsp/a/../b").value is None


def test_dot_segments_never_reach_the_rest():
    assert segments_of("/files/%2e%2e/etc") is None
    assert segments_of("/files/..%2fetc") == ["files", "../etc"]


@pytest.mark.parametrize(
    "template", ["a", "/a/{x}y", "/a/{x*}/b", "/a/{x**}/b", "/{x***}", "/{x}/{x}", "/a b", "/%61", "/..", "/{X}", "", "/a/{}"]
)
def test_bad_templates_are_refused(template):
    with pytest.raises(ValueError):
        template_of(template)


async def nothing(_call):
    raise AssertionError


class BearerScheme(AuthScheme):
    rule = Bearer

    async def authenticate(self, call):
        raise NotImplementedError


def test_check_routes_names_both_owners_and_the_cure():
    routes = [Route("GET", "/a/{x}", nothing), Route("GET", "/a/{y}", nothing), Route("GET", "/a/{x}", nothing, listener="admin")]

    problems = check_routes(routes, ["one", "two", "three"], {})

    assert problems == ["GET /a/{y} on the main listener comes from plugin 'one' and from plugin 'two'; disable one of them"]


def test_check_routes_wants_a_scheme_for_every_rule():
    routes = [Route("GET", "/a", nothing, auth=Bearer()), Route("GET", "/b", nothing, auth=Handler("signed by the mail gateway"))]

    (problem,) = check_routes(routes, ["one", "two"], {})

    assert problem == (
        "plugin 'one': route GET /a is guarded by Bearer, which no enabled plugin serves; enable one with an auth scheme for Bearer"
    )
    assert check_routes(routes, ["one", "two"], {Bearer: BearerScheme()}) == []


def test_check_routes_wants_owners_where_other_nodes_ask():
    async def owner(_call):
        return None

    (problem,) = check_routes([Route("GET", "/x", owner, listener="admin", owner=owner)], ["one"], {})

    assert problem.startswith("plugin 'one': route GET /x: ")


def test_check_routes_reports_all_at_once():
    routes = [Route("get", "/a", nothing), Route("GET", "b", nothing), Route("GET", "/c", nothing, auth=Bearer())]

    assert len(check_routes(routes, ["one"] * 3, {})) == 3
    assert isinstance(routes[0].auth, Anonymous)


def test_check_routes_wants_a_route_beside_that_for_other_credentials():
    plain, beside = Route("GET", "/a/{x}", nothing), Route("GET", "/a/{x}", nothing, credentials="bearer")
    astray = Route("PUT", "/a/{x}", nothing, credentials="bearer")

    assert check_routes([beside, plain], ["one", "two"], {}) == []
    (alone,) = check_routes([plain, astray], ["one", "two"], {})
    assert alone == (
        "plugin 'two': PUT /a/{x} with bearer credentials stands beside no route of that method and path; give it those of one"
    )
    (twice,) = check_routes([plain, beside, beside], ["one", "two", "three"], {})
    assert twice == "GET /a/{x} with bearer credentials comes from plugin 'two' and from plugin 'three'; disable one of them"
