"""GET /healthz and /readyz."""

import asyncio
from collections.abc import Sequence

from greatseal.api.declarations import Check, CheckResult
from greatseal.api.http import Call, ListenerName, Reply, Route

CHECK_SECONDS = 5.0
"""A check that takes longer has failed."""
REUSED_SECONDS = 0.2
"""How long /readyz gives the same results to everybody, or until they are there: a check may write to the disk, and anybody may ask."""


class Health:
    """Answers for the process and for every part that it needs."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = tuple(checks)
        self._recent: asyncio.Task[dict[str, CheckResult]] | None = None
        self._begun = 0.0
        self.serving = False

    def routes(self) -> list[Route]:
        """Both routes, on both listeners."""
        listeners: tuple[ListenerName, ...] = ("main", "admin")
        return [
            Route("GET", path, handler, listener=listener, summary=summary)
            for listener in listeners
            for path, handler, summary in (
                ("/healthz", self._healthz, "The process answers."),
                ("/readyz", self._readyz, "Database, keys and plugins: one line for each check; 503 when one fails."),
            )
        ]

    async def run(self, *, ready_only: bool) -> dict[str, CheckResult]:
        """The result of every check, by name."""
        chosen = [check for check in self._checks if check.ready or not ready_only]
        results = await asyncio.gather(*(_run(check) for check in chosen))
        return {check.name: result for check, result in zip(chosen, results, strict=True)}

    async def _healthz(self, _call: Call) -> Reply:
        return Reply.json({"status": "ok"})

    async def _readyz(self, _call: Call) -> Reply:
        now = asyncio.get_running_loop().time()
        if self._recent is None or (self._recent.done() and now - self._begun > REUSED_SECONDS):
            self._recent, self._begun = asyncio.create_task(self.run(ready_only=True)), now
        results = await asyncio.shield(self._recent)
        ready = self.serving and all(result.ok for result in results.values())
        checks = {name: {"ok": result.ok, "detail": result.detail} for name, result in sorted(results.items())}
        body = {"status": "ready" if ready else "not ready", "checks": checks}
        return Reply.json(body, status=200 if ready else 503)


async def _run(check: Check) -> CheckResult:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check.run()
    except Exception as error:  # noqa: BLE001  # any failure of a check is its result
        return CheckResult(ok=False, detail=f"{type(error).__name__}: the check itself failed", cause=str(error))
