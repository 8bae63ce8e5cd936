"""From a request to its handler and back."""

import asyncio

import pytest

from greatseal.api.http import AuthScheme, Bearer, Caller, Permission, Reply, Route, Session
from greatseal.api.problems import BadRequest, Conflict, Forbidden, Problem, Unauthenticated
from greatseal.http.dispatch import Dispatcher


async def ok(_call):
    return Reply.json({"ok": True})


async def echo_path(call):
    return Reply.json(dict(call.path))


async def echo_call(call):
    return Reply.json({"url": call.url, "remote": call.remote, "host": call.headers["Host"]})


class Guard(AuthScheme):
    """Lets the header X-Caller in; a caller named "guest" has no permission."""

    rule = Permission

    async def authenticate(self, call):
        name = call.headers.get("X-Caller")
        if name is None:
            raise Unauthenticated("no X-Caller")
        if name == "guest":
            raise Forbidden("no permission", members={"required_permission": call.route.auth.name})
        return Caller(subject=name)

    def finish(self, call, reply):
        return reply.with_headers(("X-Finished", call.route.path))


async def test_order_of_refusals(serve):
    async def handler(call):
        raise Conflict(f"{call.caller.subject} reached the handler")

    served = await serve([Route("POST", "/guarded", handler, auth=Permission("a:write"))], {Permission: Guard()})
    client = await served.client()

    statuses = [
        (await client.ask("POST", "/nothing")).status,
        (await client.ask("GET", "/guarded")).status,
        (await client.ask("POST", "/guarded")).status,
        (await client.ask("POST", "/guarded", headers={"X-Caller": "guest"})).status,
        (await client.ask("POST", "/guarded", headers={"X-Caller": "alice"})).status,
    ]

    assert statuses == [404, 405, 401, 403, 409]


async def test_the_scheme_finishes_every_reply_of_its_routes_and_no_other(serve):
    async def broken(_call):
        raise RuntimeError("secret-detail")

    auth = Permission("a:read")
    routes = [Route("GET", "/a", ok, auth=auth), Route("GET", "/broken", broken, auth=auth), Route("GET", "/open", ok)]
    served = await serve(routes, {Permission: Guard()})
    caller = {"X-Caller": "alice"}

    assert (await served.ask("GET", "/a", headers=caller)).headers["x-finished"] == "/a"
    assert (await served.ask("GET", "/a")).headers["x-finished"] == "/a"
    assert (await served.ask("GET", "/broken", headers=caller)).headers["x-finished"] == "/broken"
    assert "x-finished" not in (await served.ask("GET", "/open")).headers


async def test_405_names_the_methods_and_has_the_style_of_the_path(serve):
    served = await serve([Route("GET", "/acme/directory", ok, style="acme", cors=True), Route("PUT", "/scopes/{name}", ok, style="api")])

    acme, api = await served.ask("DELETE", "/acme/directory"), await served.ask("POST", "/scopes/x")

    assert (acme.status, acme.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert acme.json["type"] == "urn:ietf:params:acme:error:malformed"
    assert (api.status, api.headers["allow"], api.json["error"]) == (405, "PUT", "method_not_allowed")


PROTOCOL = [Route("POST", "/acme/order", ok, style="acme", cors=True), Route("GET", "/admin/a", ok, style="acme-admin")]


@pytest.mark.parametrize("path", ["/acme", "/acme/x", "/acme/order/x", "/admin/x"])
async def test_unknown_paths_beside_those_of_a_protocol_get_its_problem_document(serve, path):
    answer = await (await serve(PROTOCOL)).ask("GET", path)

    assert answer.status == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["type"] == "urn:ietf:params:acme:error:malformed"


@pytest.mark.parametrize("path", ["/", "/acmes", "/token", "/Acme/x", "/..", "/%2e%2e/x", "*"])
async def test_unknown_paths_elsewhere_get_an_error_object(serve, path):
    answer = await (await serve(PROTOCOL)).ask("GET" if path != "*" else "OPTIONS", path)

    assert answer.status == 404
    assert answer.json["error"] == "not_found"


async def test_head_is_get_without_a_body_unless_it_has_a_route(serve):
    async def nonce(_call):
        return Reply.empty(200).with_headers(("Replay-Nonce", "abc"))

    routes = [Route("GET", "/a", ok), Route("HEAD", "/nonce", nonce, style="acme"), Route("GET", "/nonce", ok, style="acme")]
    client = await (await serve(routes)).client()

    head = await client.ask("HEAD", "/a")
    assert (head.status, head.headers["content-length"]) == (200, "11")
    assert (await client.ask("HEAD", "/nonce")).headers["replay-nonce"] == "abc"
    assert "replay-nonce" not in (await client.ask("GET", "/nonce")).headers


async def test_s075_cors_is_for_routes_that_ask_for_it_and_never_reflects(serve):
    async def nonce(_call):
        return Reply.empty(200).with_headers(("Replay-Nonce", "abc"), ("Link", "<x>"))

    routes = [
        Route("POST", "/acme/order", nonce, style="acme", cors=True),
        Route("GET", "/keys", ok, cors=True),
        Route("POST", "/api/me", ok),
        Route("GET", "/page", ok, style="page"),
        Route("POST", "/token", ok, style="oauth"),
    ]
    served = await serve(routes)
    origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}

    preflight = await served.ask("OPTIONS", "/acme/order", headers=origin)
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert preflight.headers["access-control-allow-methods"] == "POST"
    assert preflight.headers["access-control-allow-headers"] == "*, Authorization"
    assert int(preflight.headers["access-control-max-age"]) > 0
    answers = {path: await served.ask(method, path, headers=origin) for method, path in (("POST", "/acme/order"), ("GET", "/acme/nothing"))}
    for answer in (*answers.values(), await served.ask("PUT", "/acme/order", headers=origin)):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers
    assert answers["/acme/order"].headers["access-control-expose-headers"] == "Replay-Nonce, Link"
    for method in ("GET", "HEAD"):  # a cache may keep the answer, and give it to a script
        assert (await served.ask(method, "/keys")).headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in (await served.ask("POST", "/acme/order")).headers
    assert not [name for name in (await served.ask("POST", "/acme/order")).headers if name.startswith("access-control")]
    for method, path in (("POST", "/api/me"), ("GET", "/page"), ("POST", "/token"), ("OPTIONS", "/api/me"), ("OPTIONS", "/token")):
        answer = await served.ask(method, path, headers=origin)
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_an_unexpected_exception_is_an_incident_and_its_text_stays_in_the_log(serve):
    async def broken(_call):
        raise RuntimeError("password=hunter2")

    served = await serve(
        [Route("GET", "/a", broken), Route("GET", "/acme/a", broken, style="acme"), Route("GET", "/p", broken, style="page")]
    )

    for path in ("/a", "/acme/a", "/p"):
        answer = await served.ask("GET", path)
        (event,) = [line for line in served.log if line["event"] == "unexpected exception"]
        served.log.clear()
        assert answer.status == 500
        assert event["incident"] in answer.body.decode()
        assert "hunter2" not in answer.body.decode()
        assert "hunter2" in str(event["exc_info"])


async def test_a_handler_that_returns_no_reply_is_an_incident_that_names_its_route(serve):
    async def forgetful(_call):
        return {}

    served = await serve([Route("GET", "/a", forgetful)])

    answer = await served.ask("GET", "/a")

    (event,) = [line for line in served.log if line["event"] == "unexpected exception"]
    assert answer.status == 500
    assert event["incident"] in answer.body.decode()
    assert "the handler of GET /a returned dict, not a Reply" in str(event["exc_info"])


async def test_a_scheme_that_breaks_refuses(serve):
    class Broken(AuthScheme):
        rule = Session

        async def authenticate(self, call):
            raise KeyError("x")

    served = await serve([Route("GET", "/a", ok, auth=Session())], {Session: Broken()})

    assert (await served.ask("GET", "/a")).status == 500


async def test_a_caller_is_there_only_when_a_scheme_proved_one(serve):
    class Other(Caller, frozen=True):
        pass

    async def subject(call):
        with pytest.raises(TypeError):
            call.caller_as(Other)
        return Reply.text(call.caller_as(Caller).subject)

    served = await serve([Route("GET", "/open", subject), Route("GET", "/a", subject, auth=Permission("x"))], {Permission: Guard()})

    assert (await served.ask("GET", "/open")).status == 500
    assert (await served.ask("GET", "/a", headers={"X-Caller": "alice"})).body == b"alice"


def test_a_dispatcher_does_not_start_with_an_unguarded_rule():
    with pytest.raises(ValueError, match="Bearer"):
        Dispatcher([Route("GET", "/", ok, auth=Bearer())], {}, base_url="http://a", max_body_bytes=1, trusted_proxies=(), log=None)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "X-Forwarded-For": "192.0.2.1"},
        {"Forwarded": "for=192.0.2.1;host=evil"},
    ],
)
async def test_s074_urls_come_from_the_configuration_and_addresses_from_the_connection(serve, headers):
    served = await serve([Route("GET", "/a", echo_call)])

    answer = await served.ask("GET", "/a?x=%2F&y", headers=headers)

    assert answer.json == {"url": "https://id.example.org/a?x=%2F&y", "remote": "127.0.0.1", "host": "evil.example"}


@pytest.mark.parametrize("target", [b"/a\xff", b"/a?x=\xff", b"/a?x=\xc3\xa9", b"/\xe2\x80\xae"])
async def test_a_target_that_is_not_ascii_leads_nowhere(serve, target):
    answer, _ = await (await serve([Route("GET", "/a", echo_call)])).say(
        b"GET " + target + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )

    assert answer.status in {400, 404}


@pytest.mark.parametrize("start", ["http://evil.example", "https://id.example.org", "HTTP://127.0.0.1:8080", "http://u@[::1]:1"])
async def test_s074_an_absolute_form_is_its_path_whatever_authority_it_names(serve, start):
    """RFC 9112 s3.2.2: a server must accept it. Its authority counts as little as the Host header does."""
    served = await serve([Route("GET", "/", echo_call), Route("GET", "/a", echo_call)], base_url="https://id.example.org/pki")

    for target, path in (("", "/"), ("?x=http://b/c", "/?x=http://b/c"), ("/a?x=/y", "/a?x=/y"), ("/pki/a", "/a")):
        answer = await served.ask("GET", start + target)
        assert answer.status == 200, target
        assert answer.json["url"] == f"https://id.example.org/pki{path}"
    assert (await served.ask("GET", f"{start}/b")).status == 404
    assert "evil" not in repr(served.log)


@pytest.mark.parametrize("target", ["ftp://id.example.org/a", "http:///a", "http://", "http:/a", "x:/a", "//a/a"])
async def test_s074_other_forms_lead_nowhere(serve, target):
    served = await serve([Route("GET", "/a", echo_call)])

    assert (await served.ask("GET", target)).status in {400, 404}


@pytest.mark.parametrize("target", ["id.example.org:443", "http://id.example.org/a", "/a"])
async def test_s074_nothing_is_tunnelled(serve, target):
    answer, _ = await (await serve([Route("GET", "/a", echo_call)])).say(f"CONNECT {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())

    assert answer.status in {400, 404, 405}


@pytest.mark.parametrize(
    ("headers", "remote"),
    [
        ({}, "127.0.0.1"),
        ({"X-Forwarded-For": "192.0.2.1"}, "192.0.2.1"),
        ({"X-Forwarded-For": "198.51.100.9, 192.0.2.1, 127.0.0.7"}, "192.0.2.1"),
        ({"X-Forwarded-For": "192.0.2.1:4711"}, "192.0.2.1"),
        ({"X-Forwarded-For": "[2001:db8::1]:4711"}, "2001:db8::1"),
        ({"X-Forwarded-For": "::ffff:192.0.2.1"}, "192.0.2.1"),
        ({"X-Forwarded-For": "192.0.2.1, unknown"}, "127.0.0.1"),
        ({"X-Forwarded-For": "evil\u00e9, 192.0.2.1"}, "192.0.2.1"),
        ({"Forwarded": 'for=198.51.100.9, for="[2001:db8::1]:80";proto=https'}, "2001:db8::1"),
        ({"Forwarded": "for=192.0.2.1", "X-Forwarded-For": "192.0.2.1"}, "192.0.2.1"),
        ({"Forwarded": "for=198.51.100.9", "X-Forwarded-For": "192.0.2.1"}, "127.0.0.1"),
        # What a client may write in front of what the proxy appends, or into a value that the proxy quotes.
        ({"Forwarded": 'for="[198.51.100.9], for="[2001:db8::1]"'}, "127.0.0.1"),
        ({"Forwarded": 'for=192.0.2.1;host="for=198.51.100.9";proto=https'}, "192.0.2.1"),
        ({"Forwarded": 'proto=https; For=192.0.2.1 ;host="a, for=198.51.100.9\\", for=10.0.0.3"'}, "192.0.2.1"),
        ({"Forwarded": "for=198.51.100.9, proto=https"}, "127.0.0.1"),
        ({"Forwarded": "for=198.51.100.9;for=192.0.2.1"}, "127.0.0.1"),
        ({"Forwarded": 'for="[198.51.100.9]x"'}, "127.0.0.1"),
        ({"Forwarded": f"for=192.0.2.1;host={'a' * 5000}"}, "127.0.0.1"),
    ],
)
async def test_s074_forwarded_addresses_count_from_trusted_proxies_from_the_end(serve, headers, remote):
    served = await serve([Route("GET", "/a", echo_call)], trusted_proxies=["127.0.0.0/8", "10.0.0.0/8"])

    assert (await served.ask("GET", "/a", headers=headers)).json["remote"] == remote


async def test_s074_a_quotation_that_a_client_leaves_open_ends_with_its_header(serve):
    served = await serve([Route("GET", "/a", echo_call)], trusted_proxies=["127.0.0.1"])
    of_client, of_proxy = 'Forwarded: for="[198.51.100.9]', 'Forwarded: for="[2001:db8::1]:4711"'

    answer, _ = await served.say(f"GET /a HTTP/1.1\r\nHost: a\r\n{of_client}\r\n{of_proxy}\r\nConnection: close\r\n\r\n".encode())

    assert answer.json["remote"] == "2001:db8::1"


async def test_peers_of_a_unix_socket_are_trusted_only_by_name(serve, tmp_path):
    for number, (proxies, remote) in enumerate([((), "unix"), (("unix",), "192.0.2.1")]):
        served = await serve([Route("GET", "/a", echo_call)], address=f"unix:{tmp_path}/{number}", trusted_proxies=proxies)
        assert (await served.ask("GET", "/a", headers={"X-Forwarded-For": "192.0.2.1"})).json["remote"] == remote


async def test_a_base_url_with_a_path_works_behind_a_proxy_that_keeps_or_strips_it(serve):
    served = await serve([Route("GET", "/a/{x}", echo_call)], base_url="https://id.example.org/pki")

    for target in ("/a/1?q=1", "/pki/a/1?q=1"):
        assert (await served.ask("GET", target)).json["url"] == "https://id.example.org/pki/a/1?q=1"
    assert (await served.ask("GET", "/pkia/1")).status == 404
    assert (await served.ask("GET", "/pki/pki/a/1")).status == 404


async def test_a_query_parameter_counts_once(serve):
    async def query(call):
        return Reply.json(dict(call.query))

    served = await serve([Route("GET", "/a", query)])

    assert (await served.ask("GET", "/a?x=1%2B+&y=&z")).json == {"x": "1+ "}
    for bad in ("x=1&x=1", "x=%ff", "&".join(f"p{n}" for n in range(1001))):
        assert (await served.ask("GET", f"/a?{bad}")).status == 400


@pytest.mark.parametrize("value", ["/ok\r\nSet-Cookie: a=b", "/ok\nX: y", "/\x00", "/\x1b[2J", "/\u2028", "/é"])
async def test_s073_no_text_splits_a_header(serve, value):
    async def redirect(_call):
        return Reply(status=303, headers=(("Location", value),))

    async def refuse(_call):
        raise BadRequest("no", headers={"X-Reason": value})

    served = await serve([Route("GET", "/a", redirect), Route("GET", "/b", refuse)])

    for path in ("/a", "/b"):
        answer = await served.ask("GET", path)
        assert answer.status == 500
        assert not {"location", "set-cookie", "x-reason"} & answer.headers.keys()


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "Connection", "Bad Name", "A:B", ""])
async def test_a_handler_cannot_frame_the_message(serve, name):
    async def handler(_call):
        return Reply(body=b"x", headers=((name, "5"),))

    assert (await (await serve([Route("GET", "/a", handler)])).ask("GET", "/a")).status == 500


async def test_s076_answers_are_not_stored_unless_the_handler_says_so(serve):
    async def cacheable(_call):
        return Reply.json({}).with_headers(("cache-control", "max-age=60"))

    guarded = Route("GET", "/guarded", ok, auth=Permission("x"))
    served = await serve([Route("GET", "/a", ok), Route("GET", "/jwks", cacheable), guarded], {Permission: Guard()})

    for path in ("/a", "/guarded", "/nothing"):
        assert (await served.ask("GET", path)).headers["cache-control"] == "no-store"
    assert (await served.ask("GET", "/jwks")).headers["cache-control"] == "max-age=60"


@pytest.mark.parametrize("broken", [False, True])
async def test_the_problems_of_pages_are_said_by_who_makes_pages(serve, broken):
    async def refused(_call):
        raise Forbidden("not this door", cause="for the log")

    async def failing(_call):
        raise RuntimeError

    def refusal(problem, headers):
        if broken:
            raise LookupError("no template")
        return Reply.text(f"{problem.error} for {headers['Accept']}", status=problem.status)

    styles = [Route("GET", "/page", refused, style="page"), Route("GET", "/fails", failing, style="page"), Route("GET", "/api", refused)]
    served = await serve(styles, refusal=refusal)
    client = await served.client()
    asked = [await client.ask(method, path, headers={"Accept": "text/html"}) for method, path in
             (("GET", "/page"), ("GET", "/fails"), ("POST", "/page"), ("GET", "/api"))]  # fmt: skip

    assert [answer.status for answer in asked] == [403, 500, 405, 403]
    if broken:
        assert all(b"<h1>" in answer.body for answer in asked[:3])
        assert sum(line["event"] == "the page of a refusal cannot be made" for line in served.log) == 3
    else:
        assert [answer.body for answer in asked[:3]] == [
            b"forbidden for text/html",
            b"server_error for text/html",
            b"method_not_allowed for text/html",
        ]
    assert b'"error":"forbidden"' in asked[3].body


async def test_s014_s015_pages_are_not_framed_and_tell_no_referrer(serve):
    async def refused(_call):
        raise Unauthenticated("sign in")

    served = await serve([Route("GET", "/page", ok, style="page"), Route("GET", "/refused", refused, style="page")])

    for path in ("/page", "/refused"):
        headers = (await served.ask("GET", path)).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"


async def test_no_answer_tells_the_software(serve):
    assert "server" not in (await (await serve([Route("GET", "/a", ok)])).ask("GET", "/a")).headers


async def test_s150_a_log_line_has_the_template_and_no_secret(serve):
    async def handler(call):
        await call.raw()
        raise BadRequest("bad\nFAKE \x1b[31m\u202e", cause="line\rone")

    served = await serve([Route("POST", "/reset/{token}", handler)])
    await served.ask("POST", "/reset/s3cret?code=s3cret", body=b'{"a":"s3cret"}', headers={"Authorization": "Bearer s3cret"})
    await served.ask("GET", "/x%0a%1b[31m?q=s3cret")

    lines = [line for line in served.log if line["event"] == "request"]
    assert [(line["method"], line["status"], line["route"]) for line in lines] == [
        ("POST", 400, "/reset/{token}"),
        ("GET", 404, "unmatched /x%0a%1b[31m"),
    ]
    assert "s3cret" not in repr(served.log)
    assert lines[0]["detail"] == "bad\\nFAKE \\x1b[31m\\u202e"
    assert lines[0]["cause"] == "line\\rone"
    assert all(str(value).isprintable() for line in served.log for value in line.values())


async def test_state_lives_as_long_as_the_connection(serve):
    async def count(call):
        state = call.connection.state
        state["n"] = state.get("n", 0) + 1
        return Reply.json({"n": state["n"], "proxy": call.connection.trusted_proxy})

    served = await serve([Route("GET", "/a", count)], trusted_proxies=["127.0.0.1/32"])
    client = await served.client()

    assert [(await client.ask("GET", "/a")).json["n"] for _ in range(3)] == [1, 2, 3]
    assert (await served.ask("GET", "/a")).json == {"n": 1, "proxy": True}


async def test_pipelined_requests_are_answered_in_order(serve):
    first_may_end = asyncio.Event()

    async def handler(call):
        if call.path["n"] == "0":
            await asyncio.wait_for(first_may_end.wait(), 5)
        else:
            first_may_end.set()
        return Reply.json(dict(call.path))

    client = await (await serve([Route("GET", "/{n}", handler)])).client()
    first_may_end.set()

    await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(40)))

    assert [(await client.answer()).json["n"] for _ in range(40)] == [str(n) for n in range(40)]


async def test_problems_carry_their_members_in_the_style_of_the_route(serve):
    class TooOld(Problem):
        status, error, type = 400, "too_old", "badCSR"

    async def handler(_call):
        inner = TooOld("one", identifier={"type": "dns", "value": "a.example"})
        raise TooOld(
            'say "\\é"', members={"error": "x", "type": "y", "algorithms": ["ES256"]}, headers={"Retry-After": "3"}, subproblems=[inner]
        )

    styles = ("oauth", "api", "acme", "page")
    served = await serve([Route("GET", f"/{style}", handler, style=style) for style in styles])
    oauth, api, acme, page = [await served.ask("GET", f"/{style}") for style in styles]

    assert oauth.json == {"error": "too_old", "error_description": "say '??'", "type": "y", "algorithms": ["ES256"]}
    assert api.json["error_description"] == 'say "\\é"'
    assert acme.json == {
        "type": "urn:ietf:params:acme:error:badCSR",
        "detail": 'say "\\é"',
        "status": 400,
        "error": "x",
        "algorithms": ["ES256"],
        "subproblems": [
            {"type": "urn:ietf:params:acme:error:badCSR", "detail": "one", "identifier": {"type": "dns", "value": "a.example"}}
        ],
    }
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "say &quot;" in page.body.decode()
    assert all(answer.headers["retry-after"] == "3" for answer in (oauth, api, acme, page))


async def test_the_log_tells_the_client_beside_the_proxy_that_is_trusted(serve):
    served = await serve([Route("GET", "/a", ok)], trusted_proxies=["127.0.0.0/8"])

    for headers in ({"X-Forwarded-For": "198.51.100.9, 192.0.2.1"}, {"Forwarded": "for=_hidden"}, {}):
        for target in ("/a", "/nothing"):
            await served.ask("GET", target, headers=headers)

    lines = [(line["peer"], line["client"]) for line in served.log if line["event"] == "request"]
    assert lines == [("127.0.0.1", "192.0.2.1")] * 2 + [("127.0.0.1", "127.0.0.1")] * 4


@pytest.mark.parametrize("proxies", [(), ("192.0.2.7/32",)])
async def test_the_log_tells_no_client_that_only_a_stranger_names(serve, proxies):
    served = await serve([Route("GET", "/a", ok)], trusted_proxies=proxies)

    await served.ask("GET", "/a", headers={"X-Forwarded-For": "192.0.2.1", "Forwarded": "for=192.0.2.1"})

    (line,) = [line for line in served.log if line["event"] == "request"]
    assert line["peer"] == "127.0.0.1"
    assert "client" not in line


async def test_a_route_for_other_credentials_stands_beside_that_of_its_path(serve):
    async def told(call):
        return Reply.json({"by": call.headers["Authorization"], **call.path})

    guarded = Route("GET", "/things/{id}", echo_path, auth=Permission("a:read"))
    beside = Route("GET", "/things/{id}", told, style="oauth", credentials="bearer")
    client = await (await serve([beside, guarded], {Permission: Guard()})).client()

    async def ask(method="GET", **headers):
        return await client.ask(method, "/things/7", headers=headers)

    assert (await ask(Authorization="bEaRer x")).json == {"by": "bEaRer x", "id": "7"}
    assert (await ask("HEAD", Authorization="Bearer x")).status == 200
    assert (await ask(**{"X-Caller": "alice"})).json == {"id": "7"}
    assert [(await ask(Authorization=sent)).status for sent in ("Basic x", "Bearers x", "")] == [401] * 3
    assert (await ask("PUT", Authorization="Bearer x")).status == 405
