"""Directory, nonces, and what every answer carries (RFC 8555 s6, s7.1.1, s7.2)."""

import re
from collections.abc import AsyncIterator

import pytest
from rig.acme import Site, acme_site, b64url, compact


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
        "newAuthz": f"{site.url}/acme/new-authz",
        "keyChange": f"{site.url}/acme/key-change",
        "revokeCert": f"{site.url}/acme/revoke-cert",
        "renewalInfo": f"{site.url}/acme/renewal-info",
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


async def test_ca_190_a_wrong_signature_is_malformed_and_leaves_the_nonce(site):
    client = await site.client()
    url, nonce = client.directory["newOrder"], await client.nonce()
    good = client.signed(await client.header(url, nonce=nonce), {"identifiers": [{"type": "dns", "value": "a.localhost"}]})

    forged = await client.send(url, compact({**good, "signature": b64url(b"\1" * 64)}))
    real = await client.send(url, compact(good))

    assert (forged.error, forged.status) == ("malformed", 400)
    assert real.status == 201


async def test_browsers_may_read_the_headers(site):
    client = await site.client(register=False)
    answer = await client.get(client.directory["newNonce"], headers={"Origin": "https://pages.example"})

    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Replay-Nonce" in answer.headers["Access-Control-Expose-Headers"]
