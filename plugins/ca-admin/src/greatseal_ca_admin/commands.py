"""``greatseal operators``: operators of the CA while the service is stopped, for whoever cannot sign in any more."""

import getpass
from pathlib import Path

import click

from greatseal.api.problems import StartProblem
from greatseal.command import command
from greatseal.host import Host
from greatseal_ca_admin import operators as stored
from greatseal_ca_admin.first import certificate_of, fields_of
from greatseal_ca_admin.operators import ADMINISTRATOR
from greatseal_ca_admin.plugin import Plugin


@click.group()
def operators() -> None:
    """Operators of the CA, where none of them can sign in; see also: greatseal ctl operators."""


@command(operators, "list", feature="ca-admin", writes=False)
async def list_operators(_plugin: Plugin, host: Host) -> None:
    """List operators. It may run beside the service."""
    for one in await host.db.read(stored.listed, 1000):
        state = "active" if one["active"] else "inactive"
        click.echo(f"{one['name']}  {one['role']}  {state}  {one['cert_fingerprint'] or one['gssapi_principal'] or one['eab_kid']}")


@command(operators, "add", feature="ca-admin", writes=True)
@click.argument("name")
@click.option("--certificate", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=True, help="A PEM file.")
async def add_administrator(_plugin: Plugin, host: Host, name: str, certificate: Path) -> None:
    """Make an administrator who signs in with the certificate. The service must be stopped."""
    try:
        fields = fields_of(certificate_of(certificate), name)
    except ValueError as error:
        raise StartProblem(f"{certificate}: expected one certificate in PEM, of a key that is accepted: {error}") from None
    stored.check(fields, ())
    made = await host.db.write(stored.create, host.handles.new_id(), fields, by=f"{getpass.getuser()} at the command line")
    click.echo(f"{name} is an {ADMINISTRATOR}: {made['cert_fingerprint']}")


COMMANDS = (operators,)
