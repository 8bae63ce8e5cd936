"""``greatseal ctl federation``: linked accounts of other providers."""

import click

from greatseal.ctl.base import LIMIT, YES, Admin, command, confirm

COLUMNS = ("id", "upstream_id", "upstream_sub", "username", "disabled", "created_at", "last_login_at")


@click.group()
def federation() -> None:
    """Linked accounts: who somebody at another provider is here."""


@command(federation, "list")
@LIMIT
def list_accounts(admin: Admin, limit: int) -> None:
    """List linked accounts."""
    admin.output.rows(admin.listed("federated-accounts", limit), COLUMNS, "no account of another provider is linked")


@command(federation, "link")
@click.argument("upstream_id")
@click.argument("upstream_sub")
@click.argument("username")
@click.option("--issuer", help="The issuer, for a provider of many tenants.")
def link(admin: Admin, upstream_id: str, upstream_sub: str, username: str, issuer: str | None) -> None:
    """Link the account UPSTREAM_SUB of the provider UPSTREAM_ID with USERNAME."""
    body = {"upstream_id": upstream_id, "upstream_sub": upstream_sub, "username": username}
    made = admin.ask("POST", "federated-accounts", body=body if issuer is None else {**body, "issuer": issuer})
    admin.output.record(made)


@command(federation, "disable")
@click.argument("id")
def disable(admin: Admin, id: str) -> None:
    """Switch a linked account off, and end its sessions."""
    admin.output.record(admin.ask("PUT", "federated-accounts", id, body={"disabled": True}))


@command(federation, "enable")
@click.argument("id")
def enable(admin: Admin, id: str) -> None:
    """Switch a linked account on again."""
    admin.output.record(admin.ask("PUT", "federated-accounts", id, body={"disabled": False}))


@command(federation, "unlink")
@click.argument("id")
@YES
def unlink(admin: Admin, id: str, yes: bool) -> None:
    """Delete a link, and end the sessions that came of it."""
    confirm(f"Unlink the account {id}? Whoever signs in by it is signed out.", yes)
    admin.ask("DELETE", "federated-accounts", id)
    admin.output.done(f"the account {id} is unlinked")


COMMANDS = [federation]
