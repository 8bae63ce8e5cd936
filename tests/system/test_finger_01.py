"""A third party's challenge type in the whole service: named in the configuration, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from rig.acme import AcmeClient, Site, acme_site

from greatseal.testing.plugin import StartService


@asynccontextmanager
async def finger_server(plans: dict[str, str]) -> AsyncIterator[int]:
    """The port of a server that answers a query with what ``plans`` holds for it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        query = (await reader.readline()).decode().strip()
        writer.write(plans.get(query, "no such user").encode() + b"\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def finger_site(start_service: StartService, settings: Mapping[str, object]) -> AsyncIterator[Site]:
    """The certificate features and finger-01 with these settings."""
    sections: dict[str, Any] = {"finger-01": settings}
    async with acme_site(start_service, "finger-01", **sections) as site:
        yield site


async def prove(site: Site, client: AcmeClient, name: str, plans: dict[str, str] | None = None) -> dict[str, Any]:
    """The authorization of ``name`` after its finger-01 challenge was answered."""
    made = await client.order(name)
    (authorization,) = made.json["authorizations"]
    challenge = await client.challenge(authorization, "finger-01")
    if plans is not None:
        plans[challenge["token"]] = f"{challenge['token']}.{client.key.thumbprint}"
    await client.post(challenge["url"], {})
    return await client.until(authorization, "pending")


async def test_finger_01_proves_a_name_and_says_what_it_found(start_service: StartService) -> None:
    plans: dict[str, str] = {}
    async with (
        finger_server(plans) as port,
        finger_site(start_service, {"allow_private": True, "port": port}) as site,
    ):
        client = await site.client()

        right = await prove(site, client, "a.localhost", plans)
        wrong = await prove(site, client, "b.localhost")

    assert right["status"] == "valid"
    assert wrong["status"] == "invalid"
    error = next(challenge["error"] for challenge in wrong["challenges"] if challenge["type"] == "finger-01")
    assert error["type"] == "urn:ietf:params:acme:error:incorrectResponse"
    assert error["detail"] == 'the finger server at 127.0.0.1 answered "no such user\\r\\n", not the key authorization'


async def test_private_addresses_are_not_asked_unless_the_operator_says_so(start_service: StartService) -> None:
    async with finger_server({}) as port, finger_site(start_service, {"port": port}) as site:
        refused = await prove(site, await site.client(), "a.localhost")

    error = next(challenge["error"] for challenge in refused["challenges"] if challenge["type"] == "finger-01")
    assert error["type"] == "urn:ietf:params:acme:error:incorrectResponse"
    assert "not public: loopback" in error["detail"]


@pytest.mark.parametrize(("features", "types"), [(("finger-01",), {"http-01", "finger-01"}), ((), {"http-01"})])
async def test_the_type_is_offered_only_where_it_is_enabled(
    start_service: StartService, features: tuple[str, ...], types: set[str]
) -> None:
    async with acme_site(start_service, *features) as site:
        client = await site.client()
        made = await client.order("a.localhost")
        offered = (await client.post(made.json["authorizations"][0])).json["challenges"]

    assert {challenge["type"] for challenge in offered} == types
