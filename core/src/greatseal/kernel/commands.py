"""Commands that installed plugins bring, enabled or not: nothing is configured yet."""

from collections.abc import Collection
from typing import Literal

import click

from greatseal.api.problems import StartProblem
from greatseal.kernel.hooks import Hooks
from greatseal.kernel.loading import installed, load
from greatseal.kernel.report import Report

__all__ = ["plugin_commands"]


def plugin_commands(context: click.Context, hook: Literal["commands", "ctl"], own: Collection[str]) -> dict[str, click.Command]:
    """The commands of one hook, by name, looked up once in an invocation; ``own`` are those that no plugin may have.

    What is wrong with a plugin is said on stderr and does not keep the others from working.
    """
    found: dict[str, click.Command] | None = context.meta.get(hook)
    if found is None:
        found = context.meta[hook] = _collected(hook, own)
    return found


def _collected(hook: str, own: Collection[str]) -> dict[str, click.Command]:
    hooks, found, owners = Hooks(), dict[str, click.Command](), dict[str, str]()
    loaded, problems = load(sorted(name for name, points in installed().items() if len(points) == 1))
    problems += [problem for plugin in loaded if (problem := hooks.register(plugin))]
    names = {plugin.feature: plugin.who for plugin in loaded}
    report = Report(names.__getitem__)
    for feature in hooks.instances:
        try:
            commands = hooks.collect(feature, hook)
        except StartProblem as refused:
            problems += refused.messages
            continue
        except Exception as error:  # noqa: BLE001  # whatever a third party's hook raises must name its plugin
            problems.append(f"plugin {feature!r}: hook {hook} failed: {type(error).__name__}: {error}")
            continue
        for command in commands:
            if not isinstance(command, click.Command) or not command.name:
                problems.append(f"plugin {feature!r}: hook {hook} returned {type(command).__name__}, which is no click.Command with a name")
            elif command.name in own:
                problems.append(f"plugin {feature!r}: the command {command.name!r} is greatseal's own; rename it")
            elif command.name in found:
                both = f"plugin {owners[command.name]!r} and from plugin {feature!r}"
                problems.append(f"the command {command.name!r} comes from {both}; the first one is used, uninstall or rename the other")
            else:
                found[command.name], owners[command.name] = command, feature
    for problem in problems:
        click.echo(f"greatseal: {report.named(problem)}", err=True)
    return found
