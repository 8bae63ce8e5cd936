"""SIGTERM under load: what was answered is kept, what was not answered was not done, and nobody sees a reset."""

import asyncio
import random
import time

import pytest
from faults.crash import Crashing, Ledger, subscribers
from faults.invariants import check, check_answers, rows_of
from rig.acme import Responder

ROUNDS = 20
STOP_SECONDS = 15.0
"""Ten for requests under way, and a little."""


@pytest.mark.timeout(300)
async def test_f21_sigterm_under_load_loses_no_answer_and_resets_no_request(tmp_path, record_property):
    ledger, once = Ledger(), Ledger()
    chosen = random.Random(21)
    stops: list[float] = []
    async with Responder().served() as responder:
        service = Crashing(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", responder)
        async with service.warm():
            async with subscribers(service, responder, ledger, 4), subscribers(service, responder, once, 4, keep_alive=False):
                for _ in range(ROUNDS):
                    assert await service.start()
                    enough = len(ledger.orders) + len(once.orders) + chosen.randint(2, 8)
                    while len(ledger.orders) + len(once.orders) < enough:  # noqa: ASYNC110  # nobody tells
                        await asyncio.sleep(0.002)
                    began = time.monotonic()
                    assert await service.end() == {"code": 0}
                    stops.append(time.monotonic() - began)
                assert await service.start()
            await check_answers(ledger)
            await check_answers(once)
            assert await service.end() == {"code": 0}

    # A connection that is kept may end just before a request; a new one is answered or never made.
    assert set(ledger.broken) <= {"refused", "ended"}
    assert set(once.broken) <= {"refused"}
    assert max(stops) < STOP_SECONDS
    merge(ledger, once)
    record_property("figures", f"{ROUNDS} stops of at most {max(stops):.1f} s, {len(ledger.certificates)} certificates")
    check(service, ledger)
    with rows_of(service.document["database"]["url"]) as ask:  # without an answer nothing was done
        assert ask("SELECT count(*) FROM acme_order") == [(len(ledger.orders),)]
        assert ask("SELECT count(*) FROM acme_account") == [(len(ledger.accounts),)]
        assert ask("SELECT count(*) FROM ca_certificate") == [(len(ledger.certificates),)]


def merge(into: Ledger, other: Ledger) -> None:
    into.certificates |= other.certificates
    into.orders += other.orders
    into.accounts += other.accounts
    into.contacts += other.contacts
    into.deactivated += other.deactivated
