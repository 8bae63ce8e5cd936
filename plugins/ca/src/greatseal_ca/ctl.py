"""``greatseal ctl certificates``: the inventory, and revoking."""

import click

from greatseal.ctl.base import YES, Admin, command, confirm

COLUMNS = ("serial", "ca_id", "status", "profile", "account_id", "not_after", "id")


@click.group()
def certificates() -> None:
    """Certificates of the CAs."""


@command(certificates, "list")
@click.option("--ca", "ca_id", help="Of this CA alone.")
@click.option("--account", "account_id", help="Of this ACME account alone.")
@click.option("--status", type=click.Choice(["signing", "issued", "unknown", "revoked"]), help="In this state alone.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
def list_certificates(admin: Admin, ca_id: str | None, account_id: str | None, status: str | None, limit: int) -> None:
    """List certificates, newest first."""
    found = admin.listed("certificates", limit, ca_id=ca_id, account_id=account_id, status=status)
    admin.output.rows(found, COLUMNS, "no certificates")


@command(certificates, "show")
@click.argument("ca")
@click.argument("serial")
def show_certificate(admin: Admin, ca: str, serial: str) -> None:
    """Show one certificate by its CA and serial."""
    admin.output.record(admin.ask("GET", "certificates", ca, serial))


@command(certificates, "revoke")
@click.argument("ca")
@click.argument("serial")
@click.option("--reason", help="keyCompromise, affiliationChanged, superseded, cessationOfOperation or privilegeWithdrawn.")
@YES
def revoke_certificate(admin: Admin, ca: str, serial: str, reason: str | None, yes: bool) -> None:
    """Revoke a certificate for good."""
    confirm(f"Revoke the certificate {serial} of CA {ca}? This cannot be taken back.", yes)
    made = admin.ask("POST", "certificates", ca, serial, "revocation", body={} if reason is None else {"reason": reason})
    admin.output.done(f"certificate {made['serial']} of CA {made['ca_id']} is revoked", made)


COMMANDS = (certificates,)
