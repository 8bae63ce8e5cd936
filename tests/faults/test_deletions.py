"""A client with very many refresh families is deleted while others write: nobody waits for more than a bite of it.

``make test`` deletes a client with 2,000 families on each database, ``make test-faults`` one with 100,000.
"""

import asyncio
import os
from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import Client, Registration
from greatseal.api.tokens import Granted
from greatseal_idp import tables as t
from greatseal_idp.token.endings import BITE

NUMBER = 100_000 if os.environ.get("GREATSEAL_ALL_FAULTS") else 2_000
AT_ONCE = 500


@pytest.mark.timeout(1800)
async def test_others_write_between_the_bites_of_a_deletion(
    start_service: Any, database_url: str, record_property: Callable[[str, object], None]
) -> None:
    service = await start_service("idp", database={"url": database_url, "migrate": "auto"})
    host = service.host("idp")
    provider = service.kernel.hooks.instances["idp"].assembly(host)
    asked = Client(client_id="", token_endpoint_auth_method="none", redirect_uris=("https://app.example/cb",))
    client = (await provider.clients.register(Registration(client=asked, open=False), by="root")).client.client_id
    granted = Granted(subject="alice@EXAMPLE", client_id=client, scopes=("openid", "offline_access"))
    for _ in range(NUMBER // AT_ONCE):
        await host.db.write(lambda tx: [provider.families.open(tx, granted) for _ in range(AT_ONCE)])

    waits: list[float] = []
    began = perf_counter()
    deleting = asyncio.create_task(provider.clients.delete(client, by="root"))
    while not deleting.done() or provider.endings.pending:
        asked_at = perf_counter()
        await host.audit_log(AuditEvent(event_type="token_revoked", service="idp"))
        waits.append(perf_counter() - asked_at)

    assert await deleting
    left = await host.db.read(lambda tx: tx.all(t.family.select().where(t.family.c.revoked_at.is_(None)).limit(1)))
    assert not left
    # With one that writes all the time, a bite and a write take turns; PostgreSQL does both at once.
    assert len(waits) >= NUMBER // BITE // 2
    record_property(
        "figures",
        f"{NUMBER} families in {perf_counter() - began:.1f} s; {len(waits)} writes beside it, the longest took {max(waits) * 1000:.0f} ms",
    )
