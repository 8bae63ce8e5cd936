"""``greatseal ctl hbac``: access rules, and what they would say."""

from collections.abc import Callable
from typing import Any

import click

from greatseal.ctl.base import LIMIT, YES, Admin, command, confirm

LISTS = {
    "users": ("--user", "NAME", "A person, or the principal of a program."),
    "user_groups": ("--group", "NAME", "A group of people."),
    "clients": ("--client", "CLIENT_ID", "An application."),
    "scopes": ("--scope", "SCOPE", "A scope."),
    "networks": ("--network", "CIDR", "Where people come from."),
    "hosts": ("--host", "NAME", "A machine."),
    "hostgroups": ("--hostgroup", "NAME", "A group of machines."),
    "services": ("--service", "NAME", "What a Kerberos client is registered with."),
    "servicegroups": ("--servicegroup", "NAME", "A group of services, as FreeIPA has them."),
    "delegation_targets": ("--target", "PRINCIPAL", "A service where the client may act for the person."),
}
ANYBODY = {
    "user_category": ("--any-user", "Every person."),
    "client_category": ("--any-client", "Every application."),
    "scope_category": ("--any-scope", "Every scope."),
    "host_category": ("--any-host", "Every machine."),
    "service_category": ("--any-service", "Every service."),
}
COLUMNS = ("rule_id", "source", "name", "enabled", "users", "user_groups", "clients", "scopes", "delegation_target_count")

Function = Callable[..., Any]


def axes(function: Function) -> Function:
    """The options by which a rule is said."""
    options: list[Callable[[Function], Function]] = [
        click.option("--name", help="A name for people."),
        click.option("--description", help="What it is for."),
        *(
            click.option(option, member, multiple=True, metavar=metavar, help=f"{text} May be given again.")
            for member, (option, metavar, text) in LISTS.items()
        ),
        *(click.option(option, member, flag_value="all", help=text) for member, (option, text) in ANYBODY.items()),
        click.option("--any-target/--listed-targets", "delegation_target_category", default=None, help="Whether it may act everywhere."),
        click.option("--require-mfa/--no-mfa", "require_mfa", default=None, help="Whether the person must sign in by two factors."),
        click.option("--enable/--disable", "enabled", default=None, help="Whether it counts."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def said(given: dict[str, Any]) -> dict[str, Any]:
    """The members that options name. A list takes its category away, and a category its lists."""
    body = {name: value for name, value in given.items() if value not in (None, ())}
    for category, names in (
        ("user_category", ("users", "user_groups")),
        ("client_category", ("clients",)),
        ("scope_category", ("scopes",)),
        ("host_category", ("hosts", "hostgroups")),
        ("service_category", ("services", "servicegroups")),
    ):
        if category in body:
            body = {**dict.fromkeys(names, ()), **body}
        elif any(name in body for name in names):
            body[category] = None
    return body


@click.group()
def hbac() -> None:
    """Access rules: who may use what, and which service may act where for people."""


@command(hbac, "list")
@LIMIT
def list_rules(admin: Admin, limit: int) -> None:
    """List rules."""
    admin.output.rows(admin.listed("hbac", limit), COLUMNS, "no rules")


@command(hbac, "show")
@click.argument("rule_id")
def show_rule(admin: Admin, rule_id: str) -> None:
    """Show one rule."""
    admin.output.record(admin.ask("GET", "hbac", rule_id))


@command(hbac, "create")
@axes
def create_rule(admin: Admin, /, **given: Any) -> None:
    """Create a rule. One that names nobody and nothing is for everybody."""
    admin.output.record(admin.ask("POST", "hbac", body=said(given)))


@command(hbac, "update")
@click.argument("rule_id")
@axes
@click.option("--add-target", "add_delegation_targets", multiple=True, metavar="PRINCIPAL", help="Add a service. May be given again.")
@click.option("--remove-target", "remove_delegation_targets", multiple=True, metavar="PRINCIPAL", help="Take one away.")
def update_rule(admin: Admin, /, rule_id: str, **given: Any) -> None:
    """Change a rule. What is not named stays; a list is replaced."""
    admin.output.record(admin.ask("PUT", "hbac", rule_id, body=said(given)))


@command(hbac, "delete")
@click.argument("rule_id")
@YES
def delete_rule(admin: Admin, rule_id: str, yes: bool) -> None:
    """Delete a rule."""
    confirm(f"Delete the access rule {rule_id}?", yes)
    admin.ask("DELETE", "hbac", rule_id)
    admin.output.done(f"access rule {rule_id} is deleted")


@command(hbac, "test")
@click.argument("user")
@click.option("--client", "client_id", default="", metavar="CLIENT_ID", help="At this application.")
@click.option("--scope", "scopes", multiple=True, help="With this scope; may be given again.")
@click.option("--target", "target_service", metavar="PRINCIPAL", help="The application wants to act there for the person.")
@click.option("--service", metavar="NAME", help="USER is the principal of a Kerberos client with this kerberos_hbac_service.")
@click.option("--address", help="The person is at this address.")
@click.option("--mfa", is_flag=True, help="The person signed in by two factors.")
def test_rules(admin: Admin, /, **trial: Any) -> None:
    """Say whether USER may, and which rule says so, or what the nearest rules miss."""
    found = admin.ask("POST", "hbac", "test", body=trial)
    if admin.output.json:
        admin.output.record(found)
        return
    tell(found)
    if (enforced := found.get("with_enforce_grants")) is not None:
        click.echo("with enforce_grants = true ", nl=False)
        tell(enforced, person=False)


def tell(found: dict[str, Any], *, person: bool = True) -> None:
    """What a trial found, for a reader."""
    click.echo(f"{'allowed' if found['allowed'] else 'REFUSED'}: {found['reason']}")
    if person:
        click.echo(f"  {found['sub']}, groups: {', '.join(found['groups']) or 'none'}")
    if found["scopes"]:
        click.echo(f"  scopes: {' '.join(found['scopes'])}")
    for rule in found["rules"]:
        click.echo(f"  by {rule['rule_id']} {rule['name']}")
    for rule in found["nearest"] if not found["allowed"] else ():
        click.echo(f"  not by {rule['rule_id']} {rule['name']}: {', '.join(rule['misses'])}")


COMMANDS = [hbac]
