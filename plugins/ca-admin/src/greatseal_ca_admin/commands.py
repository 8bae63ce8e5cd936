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
from greatseal_ca_admin.settings import principal_problem


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
@click.option("--certificate", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A PEM file.")
@click.option("--principal", metavar="PRINCIPAL", help="Their Kerberos principal: ada@EXAMPLE.ORG.")
async def add_administrator(_plugin: Plugin, host: Host, name: str, certificate: Path | None, principal: str | None) -> None:
    """Make an administrator who signs in with the certificate, or a ticket of the principal. The service must be stopped."""
    if certificate is None and principal is None:
        raise StartProblem("give --certificate or --principal, or nobody could sign in")
    if principal is not None and (problem := principal_problem(principal)) is not None:
        raise StartProblem(f"--principal: {problem}")
    try:
        fields = fields_of(None if certificate is None else certificate_of(certificate), name, principal=principal)
    except ValueError as error:
        raise StartProblem(f"{certificate}: expected one certificate in PEM, of a key that is accepted: {error}") from None
    stored.check(fields, ())
    made = await host.db.write(stored.create, host.handles.new_id(), fields, by=f"{getpass.getuser()} at the command line")
    click.echo(f"{name} is an {ADMINISTRATOR}: {made['cert_fingerprint'] or made['gssapi_principal']}")


COMMANDS = (operators,)
