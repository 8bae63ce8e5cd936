"""PostgreSQL dies and comes back under load: 503 with Retry-After meanwhile, at work again within five seconds, nothing lost."""

import asyncio
import signal
import time

import aiohttp
import pytest
from faults.crash import Crashing, Ledger, subscribers
from faults.invariants import check, check_answers, settled
from rig.acme import AcmeClient, Responder, eventually

BACK_SECONDS = 5.0
SYNCHRONOUS = "&options=-csynchronous_commit%3Don"
"""The test clusters do not wait for the disk; here what was acknowledged has to outlive a crash."""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT], ids=["crash", "restart"])
async def test_f09_postgres_goes_and_comes_back_under_load(mortal_cluster, tmp_path, how, record_property):
    ledger = Ledger()
    backs: list[float] = []
    async with Responder().served() as responder, aiohttp.ClientSession() as session:
        service = Crashing(tmp_path, mortal_cluster.make() + SYNCHRONOUS, responder)
        async with service.warm():
            assert await service.start()
            stranger = await AcmeClient.connect(session, service.url)
            assert (await stranger.register()).status == 201
            async with subscribers(service, responder, ledger, 4):
                for _ in range(3):
                    known = len(ledger.certificates)
                    await eventually(lambda k=known: len(ledger.certificates) > k + 2)
                    await asyncio.to_thread(mortal_cluster.stop, how)

                    refused = await stranger.order("outage.localhost")
                    assert (refused.status, refused.error) == (503, "serverInternal")
                    assert int(refused.headers["Retry-After"]) > 0
                    assert b"postgres" not in refused.body.lower()
                    async with session.get(f"{service.url}/ca/root.pem") as answer:
                        assert answer.status == 200
                    async with session.get(f"{service.url}/readyz") as answer:
                        assert answer.status == 503

                    await asyncio.to_thread(mortal_cluster.start)
                    backs.append(await seconds_until_back(stranger))
            await eventually(lambda: settled(service))
            await check_answers(ledger)
            assert await service.end() == {"code": 0}
        for answer in ledger.unavailable:
            assert answer.error == "serverInternal"
            assert int(answer.headers["Retry-After"]) > 0
        assert not ledger.broken
        assert max(backs) < BACK_SECONDS
        check(service, ledger)
        record_property("figures", f"{len(backs)} outages, back after at most {max(backs):.2f} s, {len(ledger.unavailable)} refusals")


async def seconds_until_back(client: AcmeClient) -> float:
    began = time.monotonic()
    await eventually(lambda: ordered(client))
    return time.monotonic() - began


async def ordered(client: AcmeClient) -> bool:
    return (await client.order("back.localhost")).status == 201
