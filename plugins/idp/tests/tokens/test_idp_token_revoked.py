"""The set of what was revoked: whoever looks at it sees all of it, also in the first moments of a process."""

import asyncio
from typing import Any

import pytest

from greatseal_idp.token.revoked import Revocations


async def is_revoked(revocations: Revocations, key: str) -> bool:
    await revocations.load()
    return revocations.any([key])


async def test_i6_nobody_looks_before_the_set_was_read(desk: Any) -> None:
    await desk.host.db.write(lambda tx: desk.provider.revocations.revoke(tx, "family", "ended"))
    after_a_restart = Revocations(desk.host)

    assert await asyncio.gather(*(is_revoked(after_a_restart, "family ended") for _ in range(5))) == [True] * 5


async def test_i6_nobody_looks_while_an_unknown_change_is_read(desk: Any) -> None:
    revocations = desk.provider.revocations
    await revocations.load()
    await desk.host.db.write(lambda tx: Revocations(desk.host).revoke(tx, "family", "ended"))
    revocations._until.clear()
    revocations._heard("*")

    assert await asyncio.gather(*(is_revoked(revocations, "family ended") for _ in range(5))) == [True] * 5


DAY = 86_400


async def clean_up(desk: Any) -> None:
    (cleanup,) = (job for job in desk.provider.jobs() if job.name == "idp-cleanup")
    await cleanup.run()


async def test_i6_nothing_revoked_comes_back_with_a_clock_that_jumped_ahead(desk: Any, client: Any) -> None:
    code = await desk.code(client)
    tokens, other = (await desk.redeem(client, code)).json, await desk.tokens(client)
    for token in (tokens["refresh_token"], other["access_token"]):
        await desk.form("/revoke", client, {"token": token})
    revoked = set(desk.provider.revocations._until)

    desk.clock.step(30 * DAY)
    await clean_up(desk)
    after_a_restart = Revocations(desk.host)
    await after_a_restart.load()
    desk.clock.step(-30 * DAY)

    assert set(after_a_restart._until) == revoked
    for token in (tokens["access_token"], other["access_token"]):
        assert not await desk.is_live(client, token)
    assert (await desk.redeem(client, code)).error == "invalid_grant"
    assert len(await desk.events("code_replay")) == 1


@pytest.mark.parametrize("restarted", [False, True])
async def test_i6_what_was_issued_ahead_of_time_stays_revoked(desk: Any, client: Any, restarted: bool) -> None:
    desk.clock.step(DAY)
    token = (await desk.tokens(client))["access_token"]
    desk.clock.step(-DAY)
    if restarted:  # and what was issued is known from the rows alone
        desk.provider.revocations._latest = 0
    (family,) = await desk.families()
    await desk.host.db.write(desk.provider.families.revoke, family.id, event_type="refresh_family_revoked")

    for _ in range(12):
        desk.clock.advance(2 * 3600)
        await clean_up(desk)
        assert not await desk.is_live(client, token)
