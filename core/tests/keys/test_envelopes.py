"""What leaves the service sealed and comes back."""

import msgspec
import pytest

from greatseal.clock import FakeClock
from greatseal.keys.envelopes import FeatureEnvelopes, NodeSeals


class Note(msgspec.Struct, frozen=True):
    words: str


@pytest.fixture
async def service(start_service):
    return await start_service("resolver", "http-01", clock=FakeClock())


async def test_what_was_sealed_is_read_again_and_shows_nothing(service):
    envelopes = service.host("resolver").envelopes

    text = await envelopes.seal("nt", Note("a secret"), seconds=60)

    assert await envelopes.open("nt", text, Note) == Note("a secret")
    assert text.startswith("nt_n1_")
    assert text.replace("_", "").replace("-", "").isalnum()
    assert text != await envelopes.seal("nt", Note("a secret"), seconds=60)


@pytest.mark.parametrize("away", [0, 59, -1, -3600, 60, 10**6])
async def test_it_is_good_for_as_long_as_was_said_whatever_the_clock_does(service, away):
    envelopes = service.host("resolver").envelopes
    text = await envelopes.seal("nt", Note("x"), seconds=60)
    always = await envelopes.seal("nt", Note("x"), seconds=None)

    service.kernel.clock.advance(away)

    assert (await envelopes.open("nt", text, Note) is not None) == (0 <= away < 60)
    assert await envelopes.open("nt", always, Note) == Note("x")


async def test_nothing_else_is_read(service):
    envelopes = service.host("resolver").envelopes
    text = await envelopes.seal("nt", Note("x"), seconds=60)
    changed = text[:-1] + ("A" if text[-1] != "A" else "B")

    for kind, other in (("nt", changed), ("nx", text), ("nx", text.replace("nt_", "nx_")), ("nt", text.replace("_n1_", "_n2_"))):
        assert await envelopes.open(kind, other, Note) is None
    for other in ("", "nt_n1_", "nt_n1_AAAA", "nt_n1_!", f"{text}A", text[:40]):
        assert await envelopes.open("nt", other, Note) is None
    assert await service.host("http-01").envelopes.open("nt", text, Note) is None
    assert await envelopes.open("nt", text, int) is None


async def test_another_process_reads_it_and_a_node_makes_its_own_key(service):
    kernel = service.kernel
    text = await service.host("resolver").envelopes.seal("nt", Note("x"), seconds=60)

    def of(node):
        return FeatureEnvelopes(NodeSeals(kernel.store, lambda: kernel.keys, kernel.handles, kernel.clock, node), "resolver")

    assert await of("n1").open("nt", text, Note) == Note("x")
    assert await of("n2").open("nt", text, Note) == Note("x")
    other = await of("n2").seal("nt", Note("y"), seconds=60)
    assert other.startswith("nt_n2_")
    assert await service.host("resolver").envelopes.open("nt", other, Note) == Note("y")
