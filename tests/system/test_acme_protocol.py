"""Directory, nonces, and what every answer carries (RFC 8555 s6, s7.1.1, s7.2)."""

import re
from collections.abc import AsyncIterator

import pytest
from rig.acme import JOSE, Site, acme_site, b64url, compact, csr_for

from greatseal.api.problems import StartProblem


@pytest.fixture
async def site(start_service) -> AsyncIterator[Site]:
    async with acme_site(start_service, server={"website_url": "https://ca.example/"}) as site:
        yield site


async def test_the_directory_names_what_exists_and_no_more(site):
    directory = (await site.get_directory()).json

    urls = {name: url for name, url in directory.items() if str(url).startswith(site.url)}
    assert urls == {
        "newNonce": f"{site.url}/acme/new-nonce",
        "newAccount": f"{site.url}/acme/new-account",
        "newOrder": f"{site.url}/acme/new-order",
    }
    assert directory["meta"] == {"website": "https://ca.example/", "externalAccountRequired": False}
    assert len(directory.keys() - urls.keys() - {"meta"}) == 1  # the member that clients must ignore


async def test_a_nonce_by_head_and_by_get(site):
    client = await site.client(register=False)

    head, get = [await client.get(client.directory["newNonce"], method) for method in ("HEAD", "GET")]

    assert (head.status, get.status, get.body) == (200, 204, b"")
    for answer in (head, get):
        assert re.fullmatch(r"[A-Za-z0-9_-]{22,}", answer.headers["Replay-Nonce"])
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.links["index"] == f"{site.url}/acme/directory"
    assert head.headers["Replay-Nonce"] != get.headers["Replay-Nonce"]


async def test_directory_and_nonce_by_post_as_get(site):
    client = await site.client()

    assert (await client.post(f"{site.url}/acme/directory")).json["newOrder"] == client.directory["newOrder"]
    assert (await client.post(client.directory["newNonce"])).status == 204


async def test_ca_200_every_post_is_answered_with_a_nonce_and_the_index(site):
    client = await site.client()
    order = await client.order("a.localhost")
    asked = [
        await client.post(order.location),
        await client.post(order.json["authorizations"][0]),
        await client.post(order.json["finalize"], {"csr": ""}),
        await client.post(order.location, {}),
        await client.post(f"{site.url}/acme/order/unknown"),
        await client.post(order.location, nonce="unknown"),
        await client.post(order.location, url="https://elsewhere.example/"),
        await client.send(order.location, b"not json"),
    ]

    assert [one.status for one in asked] == [200, 200, 403, 400, 401, 400, 401, 400]
    for answer in asked:
        assert answer.headers["Replay-Nonce"]
        assert answer.links["index"] == f"{site.url}/acme/directory"
        assert answer.headers["Content-Type"] == ("application/json" if answer.status == 200 else "application/problem+json")
        assert answer.status == 200 or len(answer.json["detail"]) > 10


async def test_another_content_type_is_refused(site):
    client = await site.client()
    body = compact(client.signed(await client.header(client.directory["newOrder"]), {}))

    refused = await client.send(client.directory["newOrder"], body, {"Content-Type": "application/json"})
    read = await client.send(client.directory["newOrder"], body, {"Content-Type": "application/jose+json; charset=utf-8"})

    assert (refused.status, refused.error) == (415, "malformed")
    assert refused.headers["Replay-Nonce"]
    assert read.error == "malformed"  # the payload, not the envelope
    assert read.status == 400


async def test_a_body_over_the_limit_is_refused(site):
    client = await site.client()

    answer = await client.post(client.directory["newOrder"], {"identifiers": [], "filler": "x" * 70_000})

    assert (answer.status, answer.error) == (413, "malformed")


@pytest.mark.parametrize(
    ("change", "error", "status"),
    [
        ({"alg": "none"}, "badSignatureAlgorithm", 400),
        ({"alg": "HS256"}, "badSignatureAlgorithm", 400),
        ({"alg": "ES384"}, "badPublicKey", 400),
        ({"crit": ["x"]}, "malformed", 400),
        ({"b64": False}, "malformed", 400),
        ({"nonce": "never-made"}, "badNonce", 400),
        ({"nonce": 7}, "badNonce", 400),
        ({"kid": None}, "malformed", 400),
        ({"kid": 7}, "malformed", 400),
        ({"kid": "https://elsewhere.example/acme/account/1"}, "malformed", 400),
        ({"url": None}, "unauthorized", 401),
    ],
)
async def test_a_protected_header_with_a_mistake(site, change, error, status):
    client = await site.client()
    header = {**(await client.header(client.directory["newOrder"])), **change}
    header = {name: value for name, value in header.items() if value is not None}

    answer = await client.send(client.directory["newOrder"], compact(client.signed(header, {})))

    assert (answer.error, answer.status) == (error, status)
    if error == "badSignatureAlgorithm":
        assert "ES256" in answer.json["algorithms"]


@pytest.mark.parametrize("change", [{"header": {}}, {"signatures": []}, {"payload": None}, {"signature": 5}, {"signature": ""}])
async def test_an_envelope_with_a_mistake(site, change):
    client = await site.client()
    envelope = {**client.signed(await client.header(client.directory["newOrder"]), {}), **change}

    answer = await client.send(client.directory["newOrder"], compact({name: one for name, one in envelope.items() if one is not None}))

    assert (answer.error, answer.status) == ("malformed", 400)


async def test_ca_190_a_wrong_signature_is_malformed_and_leaves_the_nonce(site):
    client = await site.client()
    url, nonce = client.directory["newOrder"], await client.nonce()
    good = client.signed(await client.header(url, nonce=nonce), {"identifiers": [{"type": "dns", "value": "a.localhost"}]})

    forged = await client.send(url, compact({**good, "signature": b64url(b"\1" * 64)}))
    real = await client.send(url, compact(good))

    assert (forged.error, forged.status) == ("malformed", 400)
    assert real.status == 201


async def test_a_replay_nonce_header_in_a_request_is_malformed(site):
    client = await site.client()
    url = client.directory["newOrder"]
    body = compact(client.signed(await client.header(url), {}))

    assert (await client.send(url, body, {**JOSE, "Replay-Nonce": "x"})).error == "malformed"


async def test_an_account_that_does_not_exist(site):
    client = await site.client()
    unknown = client.kid[:-1] + ("0" if client.kid[-1] != "0" else "1")

    answers = [await client.post(client.directory["newOrder"], {}, kid=kid) for kid in (unknown, f"{site.url}/acme/account/7")]

    assert [(one.error, one.status) for one in answers] == [("accountDoesNotExist", 400)] * 2


async def test_browsers_may_read_the_headers(site):
    answer = await site.get_directory(headers={"Origin": "https://pages.example"})

    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Replay-Nonce" in answer.headers["Access-Control-Expose-Headers"]


async def test_s117_protected_resources_are_not_read_by_get(site):
    client = await site.client()
    order = (await client.order("a.localhost")).json
    urls = [client.kid, client.directory["newOrder"], client.directory["newAccount"], order["finalize"], *order["authorizations"]]

    answers = [await client.get(url) for url in urls]

    assert {(one.status, one.error) for one in answers} == {(405, "malformed")}
    assert all("POST" in one.headers["Allow"] for one in answers)


async def test_s117_post_as_get_has_the_empty_payload(site):
    client = await site.client()
    ready = await client.ready(site.responder, "a.localhost")
    done = await client.finalize(ready.json, csr_for("a.localhost"))

    for url in (ready.location, ready.json["authorizations"][0], done.json["certificate"]):
        answer = await client.post(url, {})
        assert (answer.status, answer.error) == (400, "malformed")
    account = await client.post(client.kid, {})
    assert account.status == 200


async def test_without_a_challenge_type_the_service_does_not_start(start_service):
    with pytest.raises(StartProblem, match="no challenge type to offer; enable one, for example http-01"):
        await start_service("ca", "acme", "resolver")
