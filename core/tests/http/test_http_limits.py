"""What a client may send, and how slowly."""

import asyncio

import pytest

from greatseal.api.http import Reply, Route
from greatseal.http.listeners import HttpLimits


async def echo(call):
    return Reply.text(f"{len(await call.raw())}")


async def ok(_call):
    return Reply.json({})


ROUTES = [Route("GET", "/a", ok), Route("POST", "/echo", echo, content_types=())]
QUICK = HttpLimits(head_seconds=0.3, body_seconds=0.3, idle_seconds=0.3, linger_seconds=0.3)
HOST = b"Host: a\r\n"


async def test_s145_defaults():
    limits = HttpLimits()

    assert (limits.head_seconds, limits.body_seconds, limits.idle_seconds) == (10, 30, 75)
    assert (limits.head_bytes, limits.line_bytes, limits.header_count) == (65536, 8192, 100)


async def trickle(client, data: bytes) -> None:
    """One byte at a time, forever or until the server has enough."""
    try:
        for byte in data:
            await client.send(bytes([byte]))
            await asyncio.sleep(0.02)
    except ConnectionError:
        pass


SLOW = {
    "headers": (b"", b"GET /a HTTP/1.1\r\nX: " + b"x" * 10_000, [408]),
    "headers of a later request": (b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /a HTTP/1.1\r\nX: " + b"x" * 10_000, [200, 408]),
    "a body": (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n", b"x" * 10_000, [408]),
    "chunks": (b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n", b"a\r\n1\r\n" * 1000, [408]),
    "a body that nobody reads": (b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc", b"", [404]),
    "everything": (b"", b"", []),
    "the next request": (b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n", b"", [200]),
}


@pytest.mark.parametrize(("first", "then", "statuses"), SLOW.values(), ids=SLOW)
async def test_s145_who_is_slow_is_cut(serve, first, then, statuses):
    client = await (await serve(ROUTES, limits=QUICK)).client()

    await client.send(first)
    sending = asyncio.create_task(trickle(client, then))
    answers = [await asyncio.wait_for(client.answer(), 10) for _ in statuses]

    assert [answer.status for answer in answers] == statuses
    assert all(answer.headers["connection"] == "close" for answer in answers if answer.status == 408)
    assert await client.is_ended()
    sending.cancel()


async def test_a_steady_client_is_not_idle(serve):
    client = await (await serve(ROUTES, limits=HttpLimits(idle_seconds=1.2))).client()

    for _ in range(6):
        assert (await client.ask("POST", "/echo", body=b"abc")).status == 200
        await asyncio.sleep(0.25)


def head(*lines: bytes) -> bytes:
    return b"".join(line + b"\r\n" for line in (b"GET /a HTTP/1.1", b"Host: a", *lines, b""))


S146 = {
    "a header line of 66 kB": (head(b"X: " + b"x" * 66_000), 431),
    "200 headers": (head(*(b"X%d: y" % n for n in range(200))), 431),
    "a URL of 9 kB": (head().replace(b"/a", b"/" + b"a" * 9_000), 400),
    "a query of 9 kB": (head().replace(b"/a", b"/a?" + b"a" * 9_000), 400),
    "a cookie of 66 kB": (head(b"Cookie: a=" + b"x" * 66_000), 431),
    "many headers that are large together": (head(*(b"X%d: " % n + b"y" * 8_000 for n in range(9))), 431),
    "a header name of 66 kB": (head(b"x" * 66_000 + b": y"), 431),
    "a head without end": (head(*(b"X%d: " % n + b"y" * 8_000 for n in range(40)))[:-2], 431),
    "trailers without end": (
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        + b"".join(b"X%d: " % n + b"y" * 60_000 + b"\r\n" for n in range(40)),
        400,
    ),
}


@pytest.mark.parametrize(("data", "status"), S146.values(), ids=S146)
async def test_s146_a_head_has_limits(serve, data, status):
    answer, ended = await (await serve(ROUTES)).say(data)

    assert (answer.status, ended) == (status, True)


async def test_s146_a_large_head_within_the_limits_passes(serve):
    served = await serve(ROUTES)
    ticket = {"Authorization": f"Negotiate {'x' * 60_000}"}

    assert (await served.ask("GET", "/a", headers=ticket)).status == 200
    assert (await served.ask("GET", f"/a?{'x' * 8_000}")).status == 200
    assert (await served.ask("GET", "/a", headers={f"X{n}": "y" for n in range(98)})).status == 200


async def test_s146_pipelined_requests_count_each_for_itself(serve):
    client = await (await serve(ROUTES)).client()
    one = b"GET /a HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 8_000 + b"\r\n\r\n"

    await client.send(one * 20)

    assert [(await client.answer()).status for _ in range(20)] == [200] * 20


async def test_s146_a_large_head_behind_a_good_request_is_refused_alone(serve):
    client = await (await serve(ROUTES)).client()
    large = b"GET /a HTTP/1.1\r\nHost: a\r\n" + b"".join(b"X%d: " % n + b"y" * 8_000 + b"\r\n" for n in range(9)) + b"\r\n"

    await client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n" + large)

    assert [(await client.answer()).status for _ in range(2)] == [200, 431]
    assert await client.is_ended()


CHUNKED = b"Transfer-Encoding: chunked\r\n"
S147 = {
    "CL and TE": b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "TE and CL": b"POST /echo HTTP/1.1\r\n" + HOST + CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a list of lengths": b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 1, 1\r\n\r\na",
    "a signed length": b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: +1\r\n\r\na",
    "a hexadecimal length": b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 0x1\r\n\r\na",
    "a TE list": b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "an unknown TE": b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a TE list without chunks": b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, identity\r\n\r\n{}",
    "two TE": b"POST /echo HTTP/1.1\r\n" + HOST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
    "bare LF": b"POST /echo HTTP/1.1\n" + HOST + b"Content-Length: 1\n\na",
    "bare LF in a header": b"GET /a HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
    "bare CR in a header": b"GET /a HTTP/1.1\r\n" + HOST + b"X: y\rZ: z\r\n\r\n",
    "chunk extensions of 1 MB": b"POST /echo HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n1;" + b"x" * 1_000_000 + b"\r\na\r\n0\r\n\r\n",
    "a bad chunk size": b"POST /echo HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\nzz\r\na\r\n0\r\n\r\n",
    "a negative chunk size": b"POST /echo HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n-1\r\na\r\n0\r\n\r\n",
    "a chunk longer than its size": b"POST /echo HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n1\r\nabc\r\n0\r\n\r\n",
    "a huge chunk size": b"POST /echo HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\nfffffffffffffffff\r\na\r\n0\r\n\r\n",
    "bare LF in chunks": b"POST /echo HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n1\na\n0\n\n",
    "space before colon": b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length : 1\r\n\r\na",
    "a folded header": b"GET /a HTTP/1.1\r\n" + HOST + b"X: y\r\n z\r\n\r\n",
    "a folded first header": b"GET /a HTTP/1.1\r\n X: y\r\n" + HOST + b"\r\n",
    "no host": b"GET /a HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "NUL in a header": b"GET /a HTTP/1.1\r\n" + HOST + b"X: \x00\r\n\r\n",
    "no header name": b"GET /a HTTP/1.1\r\n" + HOST + b": y\r\n\r\n",
    "a version in lower case": b"GET /a http/1.1\r\n" + HOST + b"\r\n",
    "a version without a dot": b"GET /a HTTP/11\r\n" + HOST + b"\r\n",
    "a version with a letter": b"GET /a HTTP/1.1x\r\n" + HOST + b"\r\n",
    "a space behind the version": b"GET /a HTTP/1.1 \r\n" + HOST + b"\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n",
    "tabs in the request line": b"GET\t/a\tHTTP/1.1\r\n" + HOST + b"\r\n",
    "NUL in the target": b"GET /a\x00 HTTP/1.1\r\n" + HOST + b"\r\n",
    "DEL in the target": b"GET /a\x7f HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target without a slash": b"GET a HTTP/1.1\r\n" + HOST + b"\r\n",
    "an asterisk to GET": b"GET * HTTP/1.1\r\n" + HOST + b"\r\n",
    "no colon": b"GET /a HTTP/1.1\r\n" + HOST + b"foo\r\n\r\n",
    "a separator in a name": b"GET /a HTTP/1.1\r\n" + HOST + b"fo(o: x\r\n\r\n",
    "a space in the host": b"GET /a HTTP/1.1\r\nHost: a b\r\n\r\n",
    "a path in the host": b"GET /a HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a user in the host": b"GET /a HTTP/1.1\r\nHost: a@b\r\n\r\n",
    "a port of letters": b"GET /a HTTP/1.1\r\nHost: a:b\r\n\r\n",
    "a host that is not ASCII": b"GET /a HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n",
    "a bad host in HTTP/1.0": b"GET /a HTTP/1.0\r\nHost: a b\r\n\r\n",
    "chunks in HTTP/1.0": b"POST /echo HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n0\r\n\r\n",
    "an unknown method": b"BREW /a HTTP/1.1\r\n" + HOST + b"\r\n",
    "TLS on a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 100,
    "an HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


NOT_HERE = {
    "HTTP/0.9": (505, b"GET /a\r\n\r\n"),
    "HTTP/0.9 by name": (505, b"GET /a HTTP/0.9\r\n" + HOST + b"\r\n"),
    "HTTP/1.2": (505, b"GET /a HTTP/1.2\r\n" + HOST + b"\r\n"),
    "HTTP/2": (505, b"GET /a HTTP/2.0\r\n" + HOST + b"\r\n"),
    "HTTP/3": (505, b"GET /a HTTP/3.0\r\n" + HOST + b"\r\n"),
    "a version of the future": (505, b"GET /a HTTP/9.9\r\n" + HOST + b"\r\n"),
    "a version of the future with a body": (505, b"POST /echo HTTP/2.0\r\n" + HOST + CHUNKED + b"\r\n"),
    "compressed chunks": (501, b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize(("status", "data"), NOT_HERE.values(), ids=NOT_HERE)
async def test_what_http_1_1_does_not_have_is_refused_before_its_route(serve, status, data):
    served = await serve(ROUTES)

    answer, ended = await served.say(data)
    more, ended_too = await served.say(data + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")

    assert (answer.status, ended, ended_too) == (status, True, True)
    assert more.status in {status, 400}
    assert not [line for line in served.log if line["event"] == "request"]


async def test_a_request_that_came_before_a_refused_head_is_answered(serve):
    client = await (await serve(ROUTES)).client()
    await client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /a HTTP/1.1\r\nHost: a b\r\n\r\n")

    assert [(await client.answer()).status for _ in range(2)] == [200, 400]
    assert await client.is_ended()


LENIENT = {
    "an empty line before": b"\r\nGET /a HTTP/1.1\r\n" + HOST + b"\r\n",
    "two spaces": b"GET  /a HTTP/1.1\r\n" + HOST + b"\r\n",
    "an empty host": b"GET /a HTTP/1.1\r\nHost:\r\n\r\n",
    "a host with a port": b"GET /a HTTP/1.1\r\nHost: id_1.example.org:8443\r\n\r\n",
    "an address": b"GET /a HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n",
    "HTTP/1.0 without a host": b"GET /a HTTP/1.0\r\n\r\n",
    "chunked in capitals": b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: Chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\nX: y\r\n\r\n",
}


@pytest.mark.parametrize("data", LENIENT.values(), ids=LENIENT)
async def test_what_rfc_9112_lets_a_client_say_is_answered(serve, data):
    answer, _ = await (await serve(ROUTES)).say(data)

    assert answer.status == 200


@pytest.mark.parametrize("data", S147.values(), ids=S147)
async def test_s147_ambiguous_messages_end_the_connection(serve, data):
    served = await serve(ROUTES)

    answer, ended = await served.say(data + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")

    assert (answer.status, ended) == (400, True)
    assert not [line for line in served.log if "smuggled" in repr(line)]


async def test_the_parser_s_errors_are_logged_without_their_bytes(serve):
    served = await serve(ROUTES)
    await served.say(b"GET /a HTTP/1.1\r\nHost: a\r\nAuthorization : Bearer s3cret\r\n\r\n")
    await served.say(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\ns3cret\r\n")

    assert [line["event"] for line in served.log if line["event"] == "bad request"]
    assert "s3cret" not in repr(served.log)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_a_client_may_end_the_connection_or_keep_it(serve, version):
    served = await serve(ROUTES)
    keep, end = b"Connection: keep-alive\r\n", b"Connection: close\r\n"

    client = await served.client()
    for _ in range(2):
        await client.send(b"GET /a HTTP/" + version + b"\r\n" + HOST + keep + b"\r\n")
        assert (await client.answer()).status == 200
    _, ended = await served.say(b"GET /a HTTP/" + version + b"\r\n" + HOST + end + b"\r\n")
    assert ended


async def test_an_upgrade_is_declined_and_the_connection_goes_on(serve):
    client = await (await serve(ROUTES)).client()

    await client.send(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n")

    assert [(await client.answer()).status for _ in range(2)] == [200, 200]
    assert (await (await (await serve(ROUTES)).client()).ask("CONNECT", "a:1")).status == 404


async def test_many_requests_behind_one_whose_body_came_late_are_all_answered(serve):
    client = await (await serve(ROUTES)).client()
    await client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert (await client.answer()).status == 100
    await client.send(b"{}" + b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n" * 100)

    assert [(await asyncio.wait_for(client.answer(), 5)).status for _ in range(101)] == [200] * 101
