"""Request bodies: size, encoding, media type, strict JSON."""

import asyncio
import gzip
import zlib

import msgspec
import pytest

from greatseal.api.http import AuthScheme, Caller, Jws, Reply, Route


class Order(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    days: int = 90


async def read_order(call):
    order = await call.body(Order)
    return Reply.json({"name": order.name, "days": order.days})


async def read_raw(call):
    return Reply.text(str(len(await call.raw())))


async def ignore(_call):
    return Reply.empty()


ROUTES = [
    Route("POST", "/order", read_order),
    Route("POST", "/raw", read_raw, content_types=()),
    Route("POST", "/typed", read_raw, content_types=("application/jose+json",), style="acme"),
    Route("POST", "/ignored", ignore),
]


async def test_a_body_becomes_a_struct(serve):
    assert (await (await serve(ROUTES)).ask("POST", "/order", body=b'{"name":"a","days":3}')).json == {"name": "a", "days": 3}


S148 = {
    "NaN": b'{"name":"a","days":NaN}',
    "duplicate": b'{"name":"a","name":"b"}',
    "deep": b"[" * 30_000 + b"]" * 30_000,
    "surrogate": b'{"name":"\\ud800"}',
    "comment": b'{"name":"a"/**/}',
    "empty": b"",
}
"""The whole table is that of the reader, in core/tests/jose."""


@pytest.mark.parametrize("body", S148.values(), ids=S148)
async def test_s148_json_is_strict(serve, body):
    served = await serve(ROUTES)
    client = await served.client()

    answer = await client.ask("POST", "/order", body=body)

    assert (answer.status, answer.json["error"]) == (400, "invalid_request")
    assert (await client.ask("POST", "/order", body=b'{"name":"a"}')).status == 200


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"days":1}', "name"),
        (b'{"name":1}', "$.name"),
        (b'{"name":"a","days":"1"}', "$.days"),
        (b"[]", "object"),
        (b'{"name":"a","x":1}', "x"),
    ],
)
async def test_a_member_that_does_not_fit_is_named(serve, body, told):
    answer = await (await serve(ROUTES)).ask("POST", "/order", body=body)

    assert answer.status == 400
    assert told in answer.json["error_description"]


async def test_a_sender_s_text_comes_back_short_and_plain(serve):
    answer = await (await serve(ROUTES)).ask("POST", "/order", body=b'{"name":"a","<b>\\u202e\\u001b' + b"x" * 1000 + b'":1}')

    assert answer.status == 400
    assert len(answer.json["error_description"]) < 300
    assert answer.json["error_description"].isprintable()
    assert "<" not in answer.json["error_description"]


@pytest.mark.parametrize("given", ["application/jose+json", "Application/JOSE+JSON; charset=utf-8"])
async def test_the_media_type_is_compared_without_case_and_parameters(serve, given):
    assert (await (await serve(ROUTES)).ask("POST", "/typed", body=b"{}", headers={"Content-Type": given})).status == 200


@pytest.mark.parametrize("given", ["application/json", "", "application/jose+jsonx", "text/plain, application/jose+json"])
async def test_another_media_type_is_refused_before_the_body_is_read(serve, given):
    answer = await (await serve(ROUTES)).ask("POST", "/typed", headers={"Content-Type": given, "Content-Length": "60000"})

    assert (answer.status, answer.json["type"]) == (415, "urn:ietf:params:acme:error:malformed")


async def test_without_a_body_no_media_type_is_asked_for(serve):
    client = await (await serve(ROUTES)).client()

    assert (await client.ask("POST", "/typed", headers={"Content-Type": "text/plain", "Content-Length": "0"})).body == b"0"
    await client.send(b"POST /typed HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert (await client.answer()).body == b"0"


@pytest.mark.parametrize("size", [65536, 65537, 200_000])
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_body_is_at_most_max_body_bytes(serve, size, framing):
    client = await (await serve(ROUTES)).client()
    body = b"x" * size
    if framing == "length":
        await client.send(b"POST /raw HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size + body)
    else:
        await client.send(b"POST /raw HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % size + body + b"\r\n0\r\n\r\n")

    answer = await client.answer()

    assert answer.status == (200 if size <= 65536 else 413)


async def test_a_large_declared_length_is_refused_before_the_body(serve):
    answer, ended = await (await serve(ROUTES)).say(b"POST /raw HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n")

    assert (answer.status, answer.json["error"], ended) == (413, "payload_too_large", True)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_compressed_body_counts_inflated(serve, coding):
    compress = gzip.compress if coding == "gzip" else zlib.compress
    served = await serve(ROUTES)

    small = await served.ask("POST", "/raw", body=compress(b"x" * 60_000), headers={"Content-Encoding": coding})
    bomb = await served.ask("POST", "/raw", body=compress(b"x" * 30_000_000), headers={"Content-Encoding": coding})

    assert (small.status, small.body) == (200, b"60000")
    assert bomb.status == 413


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
async def test_a_broken_content_encoding_is_a_bad_request(serve, coding):
    assert (await (await serve(ROUTES)).ask("POST", "/raw", body=b"no such thing", headers={"Content-Encoding": coding})).status == 400


async def test_a_body_that_nobody_wanted_does_not_become_the_next_request(serve):
    client = await (await serve(ROUTES)).client()
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

    for path in ("/ignored", "/nothing"):
        await client.send(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(smuggled)))
        assert (await client.answer()).status in {204, 404}
        await client.send(smuggled)
    assert (await client.ask("POST", "/raw", body=b"xyz")).body == b"3"


async def test_100_continue_is_sent_when_the_handler_wants_the_body(serve):
    client = await (await serve(ROUTES)).client()
    head = b"POST %s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n"

    await client.send(head % b"/order")
    assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await client.send(b'{"name":"a"}')
    assert (await client.answer()).status == 200

    await client.send(head % b"/nothing")
    refused = await client.answer()
    assert (refused.status, refused.headers["connection"]) == (404, "close")


async def test_a_scheme_may_take_the_body_out_of_its_envelope(serve):
    class Envelope(AuthScheme):
        rule = Jws

        async def authenticate(self, call):
            call.replace_body((await call.raw())[2:])
            return Caller(subject="a")

    served = await serve([Route("POST", "/order", read_order, auth=Jws())], {Jws: Envelope()})

    assert (await served.ask("POST", "/order", body=b'>>{"name":"inner"}')).json["name"] == "inner"


async def test_a_client_that_leaves_inside_the_body_harms_nobody(serve):
    entered, left = asyncio.Event(), asyncio.Event()

    async def handler(call):
        entered.set()
        try:
            await call.raw()
        finally:
            left.set()

    served = await serve([*ROUTES, Route("POST", "/slow", handler, content_types=())])
    client = await served.client()
    await client.send(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
    await asyncio.wait_for(entered.wait(), 5)
    await client.close()

    await asyncio.wait_for(left.wait(), 5)
    assert (await served.ask("POST", "/raw", body=b"x")).status == 200
    assert not [line for line in served.log if line["level"] in {"error", "exception"}]
