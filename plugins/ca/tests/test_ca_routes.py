"""The CA's certificates over HTTP, its checks, and what a person is told."""

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal.testing import FakeClock


async def get(desk, path: str) -> tuple[int, str, bytes]:
    async with aiohttp.ClientSession() as session, session.get(desk.service.url + path) as reply:
        return reply.status, reply.content_type, await reply.read()


async def test_root_and_chain_can_be_fetched(desk):
    whole = desk.authority().chain

    for prefix in ("/ca", "/ca/default"):
        status, kind, root = await get(desk, f"{prefix}/root.pem")
        assert (status, kind) == (200, "application/pem-certificate-chain")
        assert x509.load_pem_x509_certificate(root).public_bytes(Encoding.DER) == whole[-1]
        _, _, chain = await get(desk, f"{prefix}/chain.pem")
        assert tuple(one.public_bytes(Encoding.DER) for one in x509.load_pem_x509_certificates(chain)) == whole


async def test_another_ca_is_not_found(desk):
    status, kind, _ = await get(desk, "/ca/other/root.pem")

    assert (status, kind) == (404, "application/problem+json")


async def test_readiness_says_that_the_cas_can_sign(desk):
    results = await desk.service.kernel.health.run(ready_only=False)

    assert results["ca"].ok
    assert results["ca"].detail == "1 can sign"
    assert results["ca-lifetime"].ok


@pytest.mark.parametrize(("days", "ready"), [(365 - 89, True), (366, False)])
async def test_an_end_that_comes_near_is_told(open_desk, days, ready):
    clock = FakeClock()
    desk = await open_desk(clock=clock, ca={"ca_validity_years": 1})
    clock.advance(days * 86_400)
    results = await desk.service.kernel.health.run(ready_only=False)

    assert results["ca"].ok is ready
    assert not results["ca-lifetime"].ok
    assert "renew it" in results["ca-lifetime"].detail


async def test_a_person_is_told_where_the_root_is(desk):
    lines = [line for one in desk.service.kernel.welcomes for line in one.lines()]

    assert lines == [str(desk.service.kernel.state_dir / "ca" / "default" / "root.pem")]
