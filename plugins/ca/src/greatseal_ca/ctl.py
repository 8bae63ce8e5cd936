"""``greatseal ctl certificates``: the inventory, revoking one or many, and what expires soon."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import click

from greatseal.ctl.base import LIMIT, WHEN, YES, Admin, CtlProblem, confirm, timestamp
from greatseal.ctl.base import operator_command as command

COLUMNS = ("serial", "ca_id", "status", "profile", "account_id", "not_after", "id")
SOON = ("not_after", "ca_id", "serial", "account_id", "names")
REASONS = ("unspecified", "keyCompromise", "affiliationChanged", "superseded", "cessationOfOperation", "privilegeWithdrawn")
AT_ONCE = 500
"""Certificates that one request revokes; its lists are made once."""


@click.group()
def certificates() -> None:
    """Certificates of the CAs."""


@command(certificates, "list")
@click.option("--ca", "ca_id", help="Of this CA alone.")
@click.option("--account", "account_id", help="Of this ACME account alone.")
@click.option("--profile", help="Of this profile alone.")
@click.option("--name", "subject", help="Of this name, or behind a dot of the names below a domain.")
@click.option("--serial", help="Of this serial, in hexadecimal.")
@click.option("--spki", help="Of the key with this SHA-256, in hexadecimal.")
@click.option("--status", type=click.Choice(["active", "signing", "issued", "unknown", "revoked"]), help="In this state alone.")
@LIMIT
def list_certificates(admin: Admin, /, limit: int, **query: str | None) -> None:
    """List certificates, newest first. Active ones are issued and have not ended."""
    admin.output.rows(admin.listed("certs", limit, **query), COLUMNS, "no certificates")


@command(certificates, "show")
@click.argument("ca")
@click.argument("serial")
def show_certificate(admin: Admin, ca: str, serial: str) -> None:
    """Show one certificate by its CA and serial."""
    admin.output.record(_one(admin, ca, serial))


@command(certificates, "revoke")
@click.argument("ca", required=False)
@click.argument("serial", required=False)
@click.option("--account", "account_id", help="All of this ACME account.")
@click.option("--profile", help="All of this profile.")
@click.option("--spki", help="All of the key with this SHA-256, in hexadecimal.")
@click.option("--since", type=WHEN, help="All that were issued since then, UTC.")
@click.option("--reason", type=click.Choice(REASONS), help="Why; left out, none is given.")
@click.option("--dry-run", is_flag=True, help="Show what would be revoked, and change nothing.")
@YES
def revoke_certificates(admin: Admin, /, *, ca: str | None, serial: str | None, reason: str | None, dry_run: bool, **more: Any) -> None:
    """Revoke a certificate for good: CA and SERIAL name it. Or many: of those that are active, all that fit every option that is given."""
    yes, since = more.pop("yes"), more.pop("since")
    wanted: dict[str, Any] = {name: value for name, value in more.items() if value is not None}
    if since is not None:
        wanted["issued_after"] = timestamp(since)
    if serial is not None and not wanted and not dry_run:
        assert ca is not None
        _revoke_one(admin, ca, serial, reason, yes=yes)
        return
    if serial is not None or not wanted:
        raise CtlProblem("name one certificate by CA and SERIAL, or many by --account, --profile, --spki or --since", code=2)
    fitting = {"status": "active", "ca_id": ca, **wanted}
    counted, newest = 0, ""
    for one in () if dry_run else admin.listed("certs", None, **fitting):
        counted, newest = counted + 1, max(newest, one["id"])
    if not counted:
        admin.output.rows(admin.listed("certs", None, **fitting) if dry_run else iter(()), COLUMNS, "no active certificate fits")
        return
    confirm(f"Revoke {counted} certificates? This cannot be taken back.", yes)
    # Walked again page by page, without those that were issued since they were counted: there may be more than fit into memory.
    ids = (one["id"] for one in admin.listed("certs", None, **fitting) if one["id"] <= newest)
    _revoke_many(admin, ids, counted, reason)


@command(certificates, "expiring")
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="Within so many days.")
@click.option("--ca", "ca_id", help="Of this CA alone.")
@click.option("--account", "account_id", help="Of this ACME account alone.")
def expiring_certificates(admin: Admin, days: int, ca_id: str | None, account_id: str | None) -> None:
    """List certificates that end soon and were not renewed: no active one that ends later has all their names."""
    soon = admin.listed("certs/expiring", None, days=days, ca_id=ca_id, account_id=account_id)
    admin.output.rows(soon, SOON, f"no certificate that was not renewed ends within {days} days")


def _revoke_one(admin: Admin, ca: str, serial: str, reason: str | None, *, yes: bool) -> None:
    confirm(f"Revoke the certificate {serial} of CA {ca}? This cannot be taken back.", yes)
    body = {} if reason is None else {"reason": reason}
    admin.ask("POST", "revoke", body={"cert_id": _one(admin, ca, serial)["id"], **body})
    made = _one(admin, ca, serial)
    admin.output.done(f"certificate {made['serial']} of CA {made['ca_id']} is revoked", made)


def _revoke_many(admin: Admin, ids: Iterator[str], counted: int, reason: str | None) -> None:
    outcomes: Counter[str] = Counter()

    def reported() -> Iterator[Mapping[str, str]]:
        for one in _outcomes(admin, ids, counted, reason):
            outcomes[one["outcome"]] += 1
            yield one

    if admin.output.json:
        admin.output.rows(reported(), (), "")
    else:
        for one in reported():
            if one["outcome"] == "refused":
                click.echo(f"certificate {one['cert_id']}: {one['detail']}", err=True)
        admin.output.done(f"{outcomes['revoked']} certificates are revoked")
    if outcomes["refused"]:
        raise CtlProblem(f"{outcomes['refused']} certificates were not revoked")


def _outcomes(admin: Admin, ids: Iterator[str], counted: int, reason: str | None) -> Iterator[Mapping[str, str]]:
    """What became of each, as soon as it is known."""
    with click.progressbar(length=counted, label="Revoking", file=sys.stderr) as bar:
        while some := list(islice(ids, AT_ONCE)):
            answer = admin.ask("POST", "revocations", body={"cert_ids": some, **({} if reason is None else {"reason": reason})})
            yield from ({"cert_id": id, "outcome": "revoked"} for id in answer["revoked"])
            yield from ({**one, "outcome": "refused"} for one in answer["refused"])
            bar.update(len(some))


def _one(admin: Admin, ca: str, serial: str) -> Any:
    found = next(admin.listed("certs", 1, ca_id=ca, serial=serial), None)
    if found is None:
        raise CtlProblem(f"CA {ca} has no certificate of the serial {serial}")
    return found


COMMANDS = (certificates,)
