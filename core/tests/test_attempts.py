"""Limits of tickets at an endpoint: refused ones count for the address, accepted ones for their owner."""

import pytest

from greatseal.api.kerberos import NegotiateRefused, Ready, Unusable
from greatseal.api.problems import RateLimited, Unavailable
from greatseal.attempts import OF_OWNER, TicketLimits
from greatseal.kernel.limits import LimitsImpl
from greatseal.testing import FakeClock
from greatseal.testing.calls import FakeCall
from greatseal.testing.negotiate import FakeNegotiator

ALICE, BOB = "alice@EXAMPLE", "bob@EXAMPLE"


class World:
    def __init__(self, most=2):
        self.negotiator = FakeNegotiator(ALICE, BOB)
        self.limits = TicketLimits(LimitsImpl(FakeClock()), "x", most)

    async def come(self, principal):
        call = FakeCall("GET", "https://ca.example/x", headers=[("Authorization", f"Negotiate {principal}")] if principal else [])
        return await self.limits.accept(self.negotiator, call)


async def test_refused_tickets_count_and_shut_the_address():
    world = World()
    for _ in range(2):
        with pytest.raises(NegotiateRefused):
            await world.come("nobody@EXAMPLE")

    with pytest.raises(RateLimited, match="300 seconds") as limited:
        await world.come(ALICE)
    assert limited.value.headers == {"Retry-After": "300"}


async def test_accepted_ones_count_for_their_owner_alone():
    world = World()
    for _ in range(2 * OF_OWNER):
        await world.come(ALICE)

    with pytest.raises(RateLimited):
        await world.come(ALICE)
    await world.come(BOB)


async def test_no_ticket_and_no_keytab_count_for_nobody():
    world = World(most=1)
    world.negotiator.state = Unusable(reason="no keytab")
    for _ in range(3):
        with pytest.raises(Unavailable):
            await world.come(ALICE)
    world.negotiator.state = Ready()
    for _ in range(3):
        await world.come("")

    await world.come(ALICE)


async def test_zero_is_off():
    world = World(most=0)
    for _ in range(50):
        await world.come(ALICE)
        with pytest.raises(NegotiateRefused):
            await world.come("nobody@EXAMPLE")
