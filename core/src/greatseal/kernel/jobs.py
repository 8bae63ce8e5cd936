"""Repeated work and tasks that belong to the kernel."""

import asyncio
import random
import time
from collections.abc import Awaitable, Sequence
from typing import Any

import structlog

from greatseal.api.declarations import Job
from greatseal.kernel.metrics import Metrics


class Jobs:
    """Runs every declared job until the stop. A failure is logged; the next run comes in its time."""

    def __init__(self, log: structlog.stdlib.BoundLogger, metrics: Metrics) -> None:
        self._log = log
        self._runs = metrics.histogram("greatseal_job_seconds", "Runs of jobs.", ("job", "outcome"))
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, jobs: Sequence[Job]) -> None:
        """One task for each job; it sleeps between runs."""
        for job in jobs:
            self.spawn(f"job {job.name}", self._repeat(job))

    def spawn(self, name: str, work: Awaitable[Any]) -> None:
        """A task whose failure is logged and which ends with the kernel."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(name, done))

    async def stop(self) -> None:
        """Cancel what runs and wait for it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_once(self, job: Job) -> None:
        """One run, with its failure logged."""
        began, outcome = time.perf_counter(), "done"
        try:
            await job.run()
        except Exception:  # noqa: BLE001  # a job must not end the service
            outcome = "failed"
            self._log.exception("job failed", job=job.name)
        self._runs.observe(time.perf_counter() - began, job.name, outcome)

    async def _repeat(self, job: Job) -> None:
        await asyncio.sleep(random.uniform(0, job.jitter))  # noqa: S311  # spreads load, guards nothing
        while True:
            await self.run_once(job)
            await asyncio.sleep(job.every)

    def _ended(self, name: str, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._log.error("task failed", task=name, exc_info=task.exception())
