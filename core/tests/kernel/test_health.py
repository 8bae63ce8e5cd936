"""/readyz is open to everybody, and its checks cost something."""

import asyncio
import json

import pytest

from greatseal.api.declarations import Check, CheckResult
from greatseal.kernel.health import Health


async def test_all_who_ask_before_the_checks_end_share_them_and_one_who_leaves_takes_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greatseal.kernel.health.REUSED_SECONDS", 0.0)
    runs = 0
    released = asyncio.Event()

    async def slow() -> CheckResult:
        nonlocal runs
        runs += 1
        await released.wait()
        return CheckResult(ok=True, detail="fine")

    health = Health([Check(name="slow", run=slow)])
    health.serving = True
    readyz = next(route.handler for route in health.routes() if route.path == "/readyz")
    first, *others = [asyncio.ensure_future(readyz(None)) for _ in range(20)]  # type: ignore[arg-type]  # it does not look at the call
    await asyncio.sleep(0)
    others.append(asyncio.ensure_future(readyz(None)))  # type: ignore[arg-type]  # as above
    first.cancel()
    await asyncio.sleep(0)
    released.set()

    replies = await asyncio.gather(*others)
    assert first.cancelled()
    assert runs == 1
    assert {reply.status for reply in replies} == {200}
    assert json.loads(replies[0].body)["checks"] == {"slow": {"ok": True, "detail": "fine"}}
