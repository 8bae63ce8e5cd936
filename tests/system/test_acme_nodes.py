"""ACME on two nodes: an order belongs to the node that made it, and any node takes the requests about it."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import msgspec
import pytest
from cryptography import x509
from rig.acme import JOSE, AcmeClient, Answer, Key, Responder, csr_for
from sqlalchemy import select

from greatseal.api.audit import AuditQuery
from greatseal.testing.nodes import Nodes
from greatseal.testing.service import Service
from greatseal_acme import tables as t


class Client(AcmeClient):
    """An account whose requests go to the node ``at``; what they say is the one base URL."""

    at: Service

    async def send(self, url: str, body: bytes, headers: Mapping[str, str] = JOSE) -> Answer:
        return await super().send(f"http://{self.at.addresses['main']}{url.removeprefix(self.at.url)}", body, headers)

    async def nonce_of(self, service: Service) -> str:
        async with self.session.head(f"http://{service.addresses['main']}/acme/new-nonce") as answer:
            return answer.headers["Replay-Nonce"]


class Site:
    """Two nodes, a client that asks n1, and a web server that answers challenges."""

    def __init__(self, nodes: Nodes, services: Mapping[str, Service], responder: Responder, session: aiohttp.ClientSession) -> None:
        self.nodes = nodes
        self.n1, self.n2 = services["n1"], services["n2"]
        self.responder = responder
        self.session = session

    async def client(self) -> Client:
        """An account that every node knows."""
        client = await self.stranger()
        assert (await client.register()).status == 201
        await self.nodes.settle()
        return client

    async def stranger(self, key: Key | None = None) -> Client:
        client = await Client.connect(self.session, self.n1.url, key)
        client.at = self.n1
        return client

    async def order_of_n2(self, client: Client, name: str = "one.localhost") -> Answer:
        client.at = self.n2
        made = await client.order(name)
        client.at = self.n1
        assert made.status == 201, made.body
        return made

    async def rows(self, service: Service, table: Any) -> list[Any]:
        return list(await service.kernel.store.read(lambda tx: tx.all(select(table))))


@pytest.fixture
async def site(start_nodes) -> AsyncIterator[Site]:
    async with Responder().served() as responder, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        settings = {"http_validation_port": responder.port, "http_validation_allow_private_ips": True}
        nodes, services = await start_nodes("ca", "acme", "http-01", "resolver", collections=[t.ACCOUNT], server=settings)
        yield Site(nodes, services, responder, session)


async def test_an_order_of_one_node_is_proven_finalized_and_downloaded_at_the_other(site):
    client = await site.client()
    made = await site.order_of_n2(client)

    (authorization,) = made.json["authorizations"]
    assert await client.prove(authorization, site.responder) == "valid"
    ready = await client.post(made.location)
    done = await client.finalize(ready.json, csr_for("one.localhost"))
    assert (done.status, done.json["status"]) == (200, "valid"), done.body
    leaf, issuing = x509.load_pem_x509_certificates((await client.post(done.json["certificate"])).body)
    anybody = await client.get(done.json["certificate"])

    leaf.verify_directly_issued_by(issuing)
    assert x509.load_pem_x509_certificates(anybody.body)[0] == leaf
    assert [row.status for row in await site.rows(site.n2, t.order)] == ["valid"]
    assert not await site.rows(site.n1, t.order)
    assert {call.target.split("/")[2] for call in site.nodes.calls} == {"order", "authz", "chall", "cert"}
    assert site.nodes.forwarded  # a nonce of one node was used up for the other


async def test_a_lost_reply_to_finalize_makes_one_certificate(site):
    client = await site.client()
    made = await site.order_of_n2(client)
    assert await client.prove(made.json["authorizations"][0], site.responder) == "valid"
    site.nodes.replies_to_lose = 1

    done = await client.finalize(made.json, csr_for("one.localhost"))

    assert (done.status, done.json["status"]) == (200, "valid"), done.body
    issued = await site.n2.host("ca").audit_records(AuditQuery(service="ca", event_type="cert.issue"))
    assert len(issued) == 1
    assert site.nodes.calls[-1].op_id == site.nodes.calls[-2].op_id


async def test_a_nonce_of_another_node_is_good_once(site):
    client = await site.client()
    nonce = await client.nonce_of(site.n2)

    first = await client.post(client.kid, None, nonce=nonce)
    again = await client.post(client.kid, None, nonce=nonce)

    assert (first.status, again.status, again.error) == (200, 400, "badNonce")
    assert (await client.post(client.kid, None, nonce=again.headers["Replay-Nonce"])).status == 200


async def test_a_nonce_whose_maker_is_out_of_reach_is_bad_and_the_next_one_good(site):
    client = await site.client()
    nonce = await client.nonce_of(site.n2)
    site.nodes.unreachable.add("n2")

    refused = await client.post(client.kid, None, nonce=nonce)

    assert (refused.status, refused.error) == (400, "badNonce")
    assert (await client.post(client.kid, None, nonce=refused.headers["Replay-Nonce"])).status == 200


async def test_a_nonce_of_another_node_is_not_used_up_by_who_cannot_sign(site):
    client = await site.client()
    nonce = await client.nonce_of(site.n2)
    body = client.signed(await client.header(client.kid, nonce=nonce), None)
    thief = await site.stranger()
    forged = {**body, "signature": thief.signed({}, None)["signature"]}

    assert (await client.send(client.kid, msgspec.json.encode(forged))).status == 400
    assert (await client.post(client.kid, None, nonce=nonce)).status == 200


async def test_an_order_whose_node_is_out_of_reach_is_an_outage_with_a_nonce(site):
    client = await site.client()
    made = await site.order_of_n2(client)
    client.nonces.clear()
    nonce = await client.nonce_of(site.n1)
    site.nodes.unreachable.add("n2")

    answer = await client.post(made.location, None, nonce=nonce)

    assert (answer.status, answer.error) == (503, "serverInternal")
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.headers["Replay-Nonce"]
    site.nodes.unreachable.clear()
    assert (await client.post(made.location)).status == 200


async def test_an_account_made_a_moment_ago_is_known_where_its_call_is_answered(site):
    owner = await site.client()
    made = await site.order_of_n2(owner)
    stranger = await site.stranger()
    assert (await stranger.register()).status == 201

    assert (await stranger.post(made.location)).error == "unauthorized"  # not accountDoesNotExist
