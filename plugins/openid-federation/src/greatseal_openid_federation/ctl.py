"""``greatseal ctl entity-keys``: the federation keys of the service."""

import json

import click

from greatseal.ctl.base import LIMIT, YES, Admin, command, confirm

COLUMNS = ("kid", "alg", "status", "created_at")
PATH = "entity-keys"


@click.group(PATH)
def entity_keys() -> None:
    """Federation keys: what superiors in an OpenID Federation vouch for."""


@command(entity_keys, "list")
@LIMIT
def list_keys(admin: Admin, limit: int) -> None:
    """List the keys, the one that signs first."""
    admin.output.rows(admin.listed(PATH, limit), COLUMNS, "no federation keys")


@command(entity_keys, "jwks")
def show_jwks(admin: Admin) -> None:
    """Print the JWK Set that superiors need, as JSON."""
    click.echo(json.dumps(admin.ask("GET", PATH, "jwks"), indent=2))


@command(entity_keys, "create")
def create_key(admin: Admin) -> None:
    """Create a further key, published at once; it signs when those before it are revoked."""
    admin.output.record(admin.ask("POST", PATH))


@command(entity_keys, "revoke")
@click.argument("kid")
@YES
def revoke_key(admin: Admin, kid: str, yes: bool) -> None:
    """Revoke a key. Superiors must know the next one by then."""
    confirm(f"Revoke the federation key {kid}?", yes)
    admin.ask("DELETE", PATH, kid)
    admin.output.done(f"federation key {kid} is revoked")


COMMANDS = (entity_keys,)
