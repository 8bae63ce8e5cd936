"""``greatseal ctl passkeys``: the passkeys of people."""

import click

from greatseal.ctl.base import YES, Admin, CtlProblem, command, confirm

COLUMNS = ("id", "label", "created_at", "last_used_at", "suspected_at", "source")


@click.group()
def passkeys() -> None:
    """Passkeys of people, such as those of a phone that was lost.

    SUB is the name with its realm, such as ann@EXAMPLE.ORG, also of somebody who is gone from the directory.
    """


@command(passkeys, "list")
@click.argument("sub")
def list_passkeys(admin: Admin, sub: str) -> None:
    """List the passkeys of SUB."""
    _check(sub)
    admin.output.rows(iter(admin.ask("GET", "passkeys", query={"sub": sub})), COLUMNS, f"{sub} has no passkeys")


@command(passkeys, "delete")
@click.argument("sub")
@YES
def delete_passkeys(admin: Admin, sub: str, yes: bool) -> None:
    """Delete all passkeys of SUB: they sign nobody in any more."""
    _check(sub)
    confirm(f"Delete all passkeys of {sub}?", yes)
    admin.ask("DELETE", "passkeys", query={"sub": sub})
    admin.output.done(f"{sub} has no passkeys any more")


def _check(sub: str) -> None:
    """A name without a realm is nobody's: it would look as if there were no passkeys."""
    if "@" not in sub:
        raise CtlProblem(f"write the name with its realm, such as {sub}@EXAMPLE.ORG; yours is shown by: greatseal ctl whoami")


COMMANDS = [passkeys]
