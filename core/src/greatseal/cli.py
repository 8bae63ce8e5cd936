"""The command line: serve, check-config, plugins, migrate, doctor, ctl, keys, and the commands of plugins.

Exit codes: 0 well, 1 a failed operation, 2 bad usage or configuration.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import click

from greatseal import __version__
from greatseal.api.problems import Problem, StartProblem, Unavailable

if TYPE_CHECKING:
    from greatseal.api.declarations import CheckResult
    from greatseal.kernel.kernel import Kernel

P = ParamSpec("P")

CONFIG = click.option(
    "-c", "--config", "path", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The configuration file (TOML)."
)


class _Commands(click.Group):
    """The kernel's commands, and those that only their users pay for: ``ctl``, ``keys``, and those of every installed plugin."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "ctl":
            from greatseal.ctl import ctl

            return ctl
        if cmd_name == "keys":
            from greatseal.keys.command import keys

            return keys
        from greatseal.kernel.commands import plugin_commands

        return super().get_command(ctx, cmd_name) or plugin_commands(ctx, "commands", self._own(ctx)).get(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        from greatseal.kernel.commands import plugin_commands

        own = self._own(ctx)
        return sorted({*own, *plugin_commands(ctx, "commands", own)})

    def _own(self, ctx: click.Context) -> set[str]:
        return {"ctl", "keys", *super().list_commands(ctx)}


def one_line_each(fn: Callable[P, None]) -> Callable[P, None]:
    """Turn a StartProblem into its lines on stderr and exit code 2, a Problem (the disk is full) into one and exit code 1."""

    @wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            fn(*args, **kwargs)
        except StartProblem as problem:
            for message in problem.messages:
                click.echo(f"greatseal: {message}", err=True)
            sys.exit(2)
        except Problem as problem:
            click.echo(f"greatseal: {problem.detail}{f' ({problem.cause})' if problem.cause else ''}", err=True)
            sys.exit(1)

    return run


@click.group(cls=_Commands)
@click.version_option(__version__, prog_name="greatseal")
def main() -> None:
    """One system that issues identity for a whole organisation."""
    from greatseal.kernel.dumps import forbid_dumps

    forbid_dumps()


@main.command()
@CONFIG
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Worker processes.")
@one_line_each
def serve(path: Path, workers: int) -> None:
    """Run the service until SIGTERM or Ctrl-C."""
    if workers > 1:
        raise StartProblem(f"--workers {workers}: this release serves with one worker; leave the option out")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a start reads the files anyway
    kernel = kernel_of(path, serving=True)
    run(_serve(kernel))


async def _serve(kernel: "Kernel") -> None:
    from greatseal.kernel.running import reload, running

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    on_terminal = os.isatty(0)
    # The same signal tells that the terminal is gone, and with it whoever started this.
    loop.add_signal_handler(signal.SIGHUP, lambda: stop.set() if on_terminal and not os.isatty(0) else reload(kernel))
    async with running(kernel) as service:
        listening = ", ".join(f"{name} {address}" for name, address in service.addresses.items())
        kernel.log.info("ready", listeners=listening, plugins=list(kernel.order))
        _greet(kernel)
        _spare_collector()
        await asyncio.wait({asyncio.create_task(stop.wait()), service.lost}, return_when=asyncio.FIRST_COMPLETED)
        kernel.log.info("stopping")
        if service.lost.done() and (problem := service.lost.exception()):
            raise Unavailable(str(problem)) from problem
    kernel.log.info("stopped")


def _spare_collector() -> None:
    """What was made until now stays, and a request leaves few cycles behind: look for them seldom, and not in what stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def _greet(kernel: "Kernel") -> None:
    """What a person should do next; scripts read the log instead."""
    said = [f"\nGreatseal {__version__} serves {kernel.base_url}\n"]
    for welcome in kernel.welcomes:
        if lines := welcome.lines():
            said += [f"{welcome.title}\n", *(f"    {line}" for line in lines), ""]
    try:
        click.echo("\n".join(said))
    except OSError:
        # Nobody reads it any more: no reason to end, nor to fail at the last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@main.command("check-config")
@CONFIG
@one_line_each
def check_config(path: Path) -> None:
    """Say everything that is wrong with a configuration, without starting."""
    kernel = kernel_of(path, serving=True)
    if kernel.base_url != kernel.issuer:
        click.echo(f"note: base_url is {kernel.base_url}, issuer is {kernel.issuer}; ACME uses the first, tokens the second")
    _noted(kernel)
    click.echo(f"{path}: right; plugins: {', '.join(kernel.order) or 'none'}; {len(kernel.routes)} routes")


@main.command()
@click.option("-c", "--config", "path", type=click.Path(path_type=Path), metavar="FILE", help="Show what this configuration enables.")
@one_line_each
def plugins(path: Path | None) -> None:
    """List the installed plugins, or the enabled ones with their hooks and jobs."""
    if path is None:
        from greatseal.kernel.loading import installed

        for name, points in sorted(installed().items()):
            for point in points:
                click.echo(f"{name:<20} {point.dist.name if point.dist else '?'} {point.dist.version if point.dist else '?'}")
        return
    from greatseal.kernel.hooks import is_planned

    kernel = kernel_of(path)
    for name in kernel.order:
        plugin = kernel.plugins[name]
        hooks = (f"{hook} (planned)" if is_planned(hook) else hook for hook in kernel.hooks.implemented(name))
        click.echo(f"{name:<20} {plugin.distribution} {plugin.version}: {', '.join(hooks)}")
    for job in kernel.all_jobs:
        click.echo(f"job {job.name}: every {job.every:g} s, one for each {job.placement.value}")


@main.command()
@CONFIG
@one_line_each
def migrate(path: Path) -> None:
    """Bring the database schema up to date. The service must be stopped."""
    from greatseal.db.sole import sole
    from greatseal.kernel.running import migrate as run

    kernel = kernel_of_store(path)
    with sole(kernel.database.url):
        done = run(kernel, mode="auto")
    click.echo("\n".join(done) if done else "the schema is up to date")


@main.command()
@CONFIG
@click.option("--name", metavar="NAME", help="Say why a certificate for this name, address or mail address would be refused.")
@click.option("--profile", metavar="ID", help="With --name: the profile; left out, the default one.")
@click.option("--account", metavar="ID", help="With --name: the account that would order, the last part of its URL.")
@one_line_each
def doctor(path: Path, name: str | None, profile: str | None, account: str | None) -> None:
    """Try database, keys, DNS and whatever else the plugins check, and say what is wrong. Beside a service it changes nothing."""
    if name is None and (profile or account):
        raise StartProblem("--profile and --account go with --name")
    kernel = kernel_of(path, serving=True)
    healthy = run(_doctor(kernel, _health if name is None else partial(_name, name=name, profile=profile, account=account)))
    sys.exit(0 if healthy else 1)


async def _doctor(kernel: "Kernel", look: Callable[["Kernel"], Awaitable[bool]]) -> bool:
    from greatseal.db.sole import InUse, sole
    from greatseal.kernel.running import opened

    try:
        with sole(kernel.database.url, patience=0):
            async with opened(kernel):
                return await look(kernel)
    except InUse:
        async with opened(kernel, beside=True):
            return await look(kernel)


async def _health(kernel: "Kernel") -> bool:
    results = await kernel.health.run(ready_only=False)
    _noted(kernel)
    _told(results.items())
    return all(result.ok for result in results.values())


async def _name(kernel: "Kernel", *, name: str, profile: str | None, account: str | None) -> bool:
    """Whether a certificate would be given: one challenge type that can be asked is enough."""
    from greatseal.api.acme import ChallengeValidator
    from greatseal.api.services import EXAMINER

    if not kernel.provides(EXAMINER):
        raise StartProblem("no enabled plugin takes orders for certificates; --name needs one, for example acme")
    examiner: Any = kernel.service(EXAMINER)
    steps = await examiner.examine(name, profile=profile, account_id=account)
    _told((step.name, step.result) for step in steps)
    types = kernel.registry.of(ChallengeValidator)
    asked = [step.result.ok for step in steps if step.name in types]
    return all(step.result.ok for step in steps if step.name not in types) and any(asked)


def _noted(kernel: "Kernel") -> None:
    for note in kernel.notes:
        click.echo(f"note: {note}")


def _told(results: Iterable[tuple[str, "CheckResult"]]) -> None:
    for name, result in results:
        click.echo(f"{'ok  ' if result.ok else 'FAIL'} {name}: {result.detail}{f' ({result.cause})' if result.cause else ''}")


def kernel_of(path: Path, *, serving: bool = False) -> "Kernel":
    from greatseal.kernel import logs
    from greatseal.kernel.config import read_file
    from greatseal.kernel.kernel import Kernel

    logs.configure()
    return Kernel(read_file(path), serving=serving)


def kernel_of_store(path: Path) -> "Kernel":
    """For a command that opens the store. What keeps the service alone from starting is said first, and the command goes on: it may be the
    cure, or urgent. Raises StartProblem for what keeps the command from it too."""
    try:
        return kernel_of(path, serving=True)
    except StartProblem as problem:
        kernel = kernel_of(path)
        for message in problem.messages:
            click.echo(f"greatseal: the service would not start: {message}", err=True)
        return kernel


def run(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
