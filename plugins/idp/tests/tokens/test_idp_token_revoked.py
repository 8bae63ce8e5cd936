"""The set of what was revoked: whoever looks at it sees all of it, also in the first moments of a process."""

import asyncio
from typing import Any

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
