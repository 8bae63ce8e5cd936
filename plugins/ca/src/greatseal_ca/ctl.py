"""``greatseal ctl certificates``: the inventory, revoking one or many, and what expires soon."""

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import click

from greatseal.ctl.base import LIMIT, WHEN, YES, Admin, CtlProblem, confirm, timestamp
from greatseal.ctl.base import operator_command as command

COLUMNS = ("serial", "ca_id", "status", "profile", "account_id", "not_after", "id")
SOON = ("not_after", "ca_id", "serial", "account_id", "names")
REASONS = ("unspecified", "keyCompromise", "affiliationChanged", "superseded", "cessationOfOperation", "privilegeWithdrawn")
AT_ONCE = 500
"""Certificates that one request revokes; its lists are made once."""
DAY = 86_400


@click.group()
def certificates() -> None:
    """Certificates of the CAs."""


@command(certificates, "list")
@click.option("--ca", "ca_id", help="Of this CA alone.")
@click.option("--account", "account_id", help="Of this ACME account alone.")
@click.option("--profile", help="Of this profile alone.")
@click.option("--name", "subject", help="With this in one of their names.")
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
    found = list(admin.listed("certs", None, status="active", ca_id=ca, **wanted))
    if dry_run or not found:
        admin.output.rows(iter(found), COLUMNS, "no active certificate fits")
        return
    confirm(f"Revoke {len(found)} certificates? This cannot be taken back.", yes)
    _revoke_many(admin, [one["id"] for one in found], reason)


@command(certificates, "expiring")
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="Within so many days.")
@click.option("--ca", "ca_id", help="Of this CA alone.")
@click.option("--account", "account_id", help="Of this ACME account alone.")
def expiring_certificates(admin: Admin, days: int, ca_id: str | None, account_id: str | None) -> None:
    """List certificates that end soon and were not renewed: no active one that ends later has all their names."""
    active = list(admin.listed("certs", None, status="active", ca_id=ca_id, account_id=account_id))
    end = int(time.time()) + days * DAY
    soon = sorted(not_renewed(active, end), key=lambda one: (one["not_after"], one["id"]))
    admin.output.rows(iter(soon), SOON, f"no certificate that was not renewed ends within {days} days")


def not_renewed(active: Sequence[dict[str, Any]], end: int) -> Iterator[dict[str, Any]]:
    """Of the active certificates those that end before ``end``, a Unix timestamp, and have no successor."""
    by_name: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in active:
        for name in one.get("names", ()):
            by_name[name].append(one)
    for one in active:
        names = set(one.get("names", ()))
        near = by_name[min(names)] if names else []
        if one["not_after"] < end and not any(other["not_after"] > one["not_after"] and names <= set(other["names"]) for other in near):
            yield one


def _revoke_one(admin: Admin, ca: str, serial: str, reason: str | None, *, yes: bool) -> None:
    confirm(f"Revoke the certificate {serial} of CA {ca}? This cannot be taken back.", yes)
    body = {} if reason is None else {"reason": reason}
    admin.ask("POST", "revoke", body={"cert_id": _one(admin, ca, serial)["id"], **body})
    made = _one(admin, ca, serial)
    admin.output.done(f"certificate {made['serial']} of CA {made['ca_id']} is revoked", made)


def _revoke_many(admin: Admin, ids: list[str], reason: str | None) -> None:
    report: dict[str, list[Any]] = {"revoked": [], "refused": []}
    with click.progressbar(length=len(ids), label="Revoking", file=sys.stderr) as bar:
        for begin in range(0, len(ids), AT_ONCE):
            some = ids[begin : begin + AT_ONCE]
            answer = admin.ask("POST", "revocations", body={"cert_ids": some, **({} if reason is None else {"reason": reason})})
            for name, found in report.items():
                found.extend(answer[name])
            bar.update(len(some))
    admin.output.done(f"{len(report['revoked'])} certificates are revoked", report)
    for one in report["refused"]:
        click.echo(f"certificate {one['cert_id']}: {one['detail']}", err=True)
    if report["refused"]:
        raise CtlProblem(f"{len(report['refused'])} certificates were not revoked")


def _one(admin: Admin, ca: str, serial: str) -> Any:
    found = next(admin.listed("certs", 1, ca_id=ca, serial=serial), None)
    if found is None:
        raise CtlProblem(f"CA {ca} has no certificate of the serial {serial}")
    return found


COMMANDS = (certificates,)
