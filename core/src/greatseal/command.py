"""For commands that plugins bring by the hook ``commands``: a service that is opened and does not serve.

.. code-block:: python

    @command(stations, "forget", feature="weather", writes=True)
    @click.argument("place")
    async def forget(weather: Weather, host: Host, place: str) -> None:
        \"\"\"Forget a station. The service must be stopped.\"\"\"
        await host.db.write(weather.forget, place)

A command that needs no service is one of click's own, under :func:`one_line_each`: a StartProblem ends it with 2, a Problem with 1.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from greatseal.api.problems import StartProblem
from greatseal.cli import CONFIG, kernel_of, kernel_of_store, one_line_each, run
from greatseal.host import Host

if TYPE_CHECKING:
    from greatseal.kernel.kernel import Kernel

__all__ = ["command", "one_line_each"]

P = ParamSpec("P")
Work = Callable[[Any, Host], Awaitable[None]]


def command(
    group: click.Group, name: str, *, feature: str, writes: bool, store: bool = True
) -> Callable[[Callable[Concatenate[Any, Host, P], Awaitable[None]]], click.Command]:
    """Make a command of ``group`` that takes the plugin of ``feature`` and its host first, and ``-c``.

    Database, keys and components can be used; no lifespan was opened, so the command opens what it needs of its own plugin. With
    ``writes`` it is the only process of the database, and says in one line that the service must be stopped; without, it may run beside
    the service, and what it writes is tried and undone. Without ``store`` nothing is opened: settings, services and threads are there, so
    that it runs before the first start. Else what keeps the service from starting is said first. A StartProblem or a Problem is said in one
    line.
    """

    def register(fn: Callable[Concatenate[Any, Host, P], Awaitable[None]]) -> click.Command:
        @wraps(fn)
        def opened(path: Path, *args: P.args, **kwargs: P.kwargs) -> None:
            kernel = kernel_of_store(path) if store else kernel_of(path)
            if feature not in kernel.hosts:
                raise StartProblem(f"{path} does not enable the plugin {feature!r}, whose command this is")

            async def work(plugin: Any, host: Host) -> None:
                await fn(plugin, host, *args, **kwargs)

            if not store:
                run(_without_store(kernel, feature, work))
                return
            if not writes:
                run(_within(kernel, feature, work, beside=True))
                return
            from greatseal.db.sole import sole

            with sole(kernel.database.url):
                run(_within(kernel, feature, work, beside=False))

        made = click.command(name)(CONFIG(one_line_each(opened)))
        group.add_command(made)
        return made

    return register


async def _within(kernel: "Kernel", feature: str, work: Work, *, beside: bool) -> None:
    from greatseal.kernel.running import prepared

    async with prepared(kernel, beside=beside):
        await work(kernel.hooks.instances[feature], kernel.hosts[feature])


async def _without_store(kernel: "Kernel", feature: str, work: Work) -> None:
    try:
        await work(kernel.hooks.instances[feature], kernel.hosts[feature])
    finally:
        kernel.blocking.close()
