"""``greatseal ctl`` for operators of the CA: accounts, orders, EAB keys, profiles, operators, the audit log of the CA."""

from datetime import datetime
from pathlib import Path

import click

from greatseal.ctl.base import LIMIT, WHEN, YES, Admin, confirm, members_of, secret_of, timestamp
from greatseal.ctl.base import operator_command as command

# ---- ACME accounts and orders


@click.group()
def accounts() -> None:
    """ACME accounts."""


@command(accounts, "list")
@click.option("--status", type=click.Choice(["valid", "deactivated", "revoked"]), help="In this state alone.")
@LIMIT
def list_accounts(admin: Admin, status: str | None, limit: int) -> None:
    """List accounts, newest first."""
    columns = ("id", "status", "contact", "kerberos_principal", "profile_grants", "created")
    admin.output.rows(admin.listed("accounts", limit, status=status), columns, "no accounts")


@command(accounts, "show")
@click.argument("id")
def show_account(admin: Admin, id: str) -> None:
    """Show one account."""
    admin.output.record(admin.ask("GET", "account", id))


@command(accounts, "deactivate")
@click.argument("id")
@YES
def deactivate_account(admin: Admin, id: str, yes: bool) -> None:
    """Deactivate an account for good, as its holder can."""
    confirm(f"Deactivate the account {id}? This cannot be taken back.", yes)
    admin.output.done(f"account {id} is deactivated", admin.ask("POST", "account", id, "deactivate"))


@command(accounts, "revoke")
@click.argument("id")
@YES
def revoke_account(admin: Admin, id: str, yes: bool) -> None:
    """Revoke an account for good. Its certificates stay: see `certificates revoke --account`."""
    confirm(f"Revoke the account {id}? This cannot be taken back.", yes)
    admin.output.done(f"account {id} is revoked", admin.ask("POST", "account", id, "revoke"))


@command(accounts, "grants")
@click.argument("id")
@click.option("--set", "wanted", multiple=True, metavar="PROFILE", help="A profile that the account may use; may be given again.")
@click.option("--clear", is_flag=True, help="Take all grants away.")
def grants_of_account(admin: Admin, id: str, wanted: tuple[str, ...], clear: bool) -> None:
    """Show or set the profiles that an account was granted."""
    if wanted:
        admin.ask("PUT", "account", id, "profile-grants", body={"profile_grants": wanted})
    elif clear:
        admin.ask("DELETE", "account", id, "profile-grants")
    admin.output.record(admin.ask("GET", "account", id, "profile-grants"))


@click.group()
def orders() -> None:
    """ACME orders."""


@command(orders, "list")
@click.option("--account", "account_id", help="Of this account alone.")
@click.option("--ca", "ca_id", help="Of this CA alone.")
@click.option("--status", type=click.Choice(["pending", "ready", "processing", "valid", "invalid"]), help="In this state alone.")
@LIMIT
def list_orders(admin: Admin, /, limit: int, **query: str | None) -> None:
    """List orders, newest first."""
    columns = ("id", "status", "ca_id", "profile", "account_id", "identifiers", "created")
    admin.output.rows(admin.listed("orders", limit, **query), columns, "no orders")


@command(orders, "show")
@click.argument("id")
def show_order(admin: Admin, id: str) -> None:
    """Show one order."""
    admin.output.record(admin.ask("GET", "orders", id))


# ---- EAB keys


@click.group()
def eab() -> None:
    """Keys for external account binding."""


@command(eab, "list")
@click.option("--used/--unused", default=None, help="Those that made an account, or those that did not.")
@LIMIT
def list_keys(admin: Admin, used: bool | None, limit: int) -> None:
    """List keys."""
    query = {} if used is None else {"used": "true" if used else "false"}
    admin.output.rows(admin.counted("eab", "eab_keys", limit, **query), ("kid", "created", "used_at", "profile_grants"), "no keys")


@command(eab, "show", leading_dash=True)
@click.argument("kid")
def show_key(admin: Admin, kid: str) -> None:
    """Show one key; its secret is not shown to anybody."""
    admin.output.record(admin.ask("GET", "eab", kid))


@command(eab, "add", leading_dash=True)
@click.argument("kid")
@click.option(
    "--hmac-key-file", metavar="FILE", required=True, help="The secret in base64url, in the first line of a file; -: standard input."
)
@click.option("--grant", "grants", multiple=True, metavar="PROFILE", help="A profile that its account may use; may be given again.")
def add_key(admin: Admin, kid: str, hmac_key_file: str, grants: tuple[str, ...]) -> None:
    """Add a key that one new account may use."""
    body = {"kid": kid, "hmac_key_b64u": secret_of(hmac_key_file), "profile_grants": grants or None}
    admin.output.done(f"EAB key {kid} is added", admin.ask("POST", "eab", body=body))


@command(eab, "delete", leading_dash=True)
@click.argument("kid")
@YES
def delete_key(admin: Admin, kid: str, yes: bool) -> None:
    """Delete a key; the account that it made stays."""
    confirm(f"Delete the EAB key {kid}?", yes)
    admin.ask("DELETE", "eab", kid)
    admin.output.done(f"EAB key {kid} is deleted")


# ---- CAs and profiles


PEM = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group()
def profiles() -> None:
    """Issuing profiles."""


SETTINGS = click.option("--set", "settings", multiple=True, metavar="KEY=JSON", help="A key of [profiles.<id>]; may be given again.")


@command(profiles, "list")
def list_profiles(admin: Admin) -> None:
    """List the issuing profiles of every CA."""
    columns = ("id", "ca_id", "validity_days", "eku", "issue_as", "source")
    admin.output.rows(iter(admin.ask("GET", "profiles")["profiles"]), columns, "no profiles")


@command(profiles, "show")
@click.argument("id")
def show_profile(admin: Admin, id: str) -> None:
    """Show one profile."""
    admin.output.record(admin.ask("GET", "profiles", id))


@command(profiles, "create")
@click.argument("id")
@SETTINGS
def create_profile(admin: Admin, id: str, settings: tuple[str, ...]) -> None:
    """Create a profile; certificates of it are issued at once."""
    admin.output.record(admin.ask("POST", "profiles", body={**members_of(settings), "id": id}))


@command(profiles, "replace")
@click.argument("id")
@SETTINGS
def replace_profile(admin: Admin, id: str, settings: tuple[str, ...]) -> None:
    """Replace all settings of a profile; one of the configuration file is changed there."""
    admin.output.record(admin.ask("PUT", "profiles", id, body=members_of(settings)))


@command(profiles, "delete")
@click.argument("id")
@YES
def delete_profile(admin: Admin, id: str, yes: bool) -> None:
    """Delete a profile; orders that named it cannot be finalized."""
    confirm(f"Delete the profile {id}?", yes)
    admin.ask("DELETE", "profiles", id)
    admin.output.done(f"profile {id} is deleted")


@click.group()
def cas() -> None:
    """The CAs of the service."""


@command(cas, "list")
def list_cas(admin: Admin) -> None:
    """List the CAs."""
    admin.output.rows(iter(admin.ask("GET", "cas")["cas"]), ("id", "is_default", "subject", "not_after", "fingerprint"), "no CAs")


@command(cas, "crl")
@click.argument("ca", required=False)
def force_lists(admin: Admin, ca: str | None) -> None:
    """Make the revocation lists again, of one CA or of all."""
    path = ("crl", "force") if ca is None else ("ca", ca, "crl", "force")
    admin.output.record(admin.ask("POST", *path)["crl_numbers"])


@command(cas, "cross-sign")
@click.argument("ca")
@click.argument("file", type=PEM, required=False)
@click.option("--of", "subject_ca_id", metavar="CA", help="Certify this CA of the service, instead of the one in FILE.")
@click.option("--years", type=click.IntRange(1, 100), help="How long it lives at most; 5 when left out.")
@click.option("--path-length", type=click.IntRange(0, 10), help="How many CAs may follow; left out, as many as the other CA says itself.")
def cross_sign(admin: Admin, /, *, ca: str, file: Path | None, years: int | None, **members: str | int | None) -> None:
    """Print a cross-certificate for another CA by the root of CA. FILE is the certificate of the other CA, or a request of it, in PEM."""
    pem = None if file is None else file.read_text(encoding="utf-8", errors="replace")
    wanted = {**members, "subject_cert_pem": pem, "validity_years": years}
    made = admin.ask("POST", "ca", ca, "cross-sign", body={name: value for name, value in wanted.items() if value is not None})
    admin.output.done(made["certificate"].rstrip(), made)


@command(cas, "cross-certs")
@LIMIT
def list_cross_certificates(admin: Admin, limit: int) -> None:
    """List the cross-certificates that roots here signed, newest first."""
    columns = ("serial", "ca_id", "status", "subject", "not_after", "id")
    admin.output.rows(admin.listed("cross-certs", limit), columns, "no cross-certificates")


# ---- Operators


@click.group()
def operators() -> None:
    """Who operates the CA."""


@command(operators, "list")
@LIMIT
def list_operators(admin: Admin, limit: int) -> None:
    """List operators by name."""
    columns = ("name", "role", "ca_id", "active", "last_seen_at", "locked_until", "id")
    admin.output.rows(admin.listed("operators", limit), columns, "no operators")


@command(operators, "show")
@click.argument("id")
def show_operator(admin: Admin, id: str) -> None:
    """Show one operator."""
    admin.output.record(admin.ask("GET", "operators", id))


ROLE = click.Choice(["administrator", "ca_operations", "ca_ra", "auditor"])


@command(operators, "add")
@click.argument("name")
@click.option("--role", type=ROLE, required=True, help="What they may do.")
@click.option("--ca", "ca_id", help="The CA of a ca_ra.")
@click.option("--certificate", type=PEM, help="Their certificate, a PEM file.")
@click.option("--eab-kid", metavar="KID", help="The id of their EAB key.")
@click.option("--principal", "gssapi_principal", metavar="PRINCIPAL", help="Their Kerberos principal: ada@EXAMPLE.ORG.")
def add_operator(admin: Admin, /, certificate: Path | None, **members: str | None) -> None:
    """Add an operator, who signs in with the certificate, the EAB key or a ticket of the principal."""
    pem = None if certificate is None else certificate.read_text(encoding="utf-8", errors="replace")
    body = {**members, "certificate": pem}
    made = admin.ask("POST", "operators", body=body)
    admin.output.done(f"operator {made['name']} has the id {made['id']}", made)


@command(operators, "change")
@click.argument("id")
@click.option("--name", help="Another name.")
@click.option("--role", type=ROLE, help="Another role.")
@click.option("--ca", "ca_id", help="Another CA, of a ca_ra; - is none.")
@click.option("--certificate", type=PEM, help="Another certificate, a PEM file.")
@click.option("--eab-kid", metavar="KID", help="The id of another EAB key.")
@click.option("--principal", "gssapi_principal", metavar="PRINCIPAL", help="Another Kerberos principal.")
@click.option("--active/--inactive", default=None, help="Whether they may sign in.")
def change_operator(admin: Admin, /, id: str, ca_id: str | None, certificate: Path | None, **members: str | bool | None) -> None:
    """Change an operator. With another role, CA, certificate or key, and inactive, their sessions end."""
    body: dict[str, object] = {member: value for member, value in members.items() if value is not None}
    if certificate is not None:
        body["certificate"] = certificate.read_text(encoding="utf-8", errors="replace")
    if ca_id is not None:
        body["ca_id"] = None if ca_id == "-" else ca_id
    admin.output.record(admin.ask("PATCH", "operators", id, body=body))


@command(operators, "unlock")
@click.argument("id")
def unlock_operator(admin: Admin, id: str) -> None:
    """Let an operator sign in again after too many failures."""
    admin.ask("POST", "operators", id, "unlock")
    admin.output.done(f"operator {id} may sign in")


@command(operators, "delete")
@click.argument("id")
@YES
def delete_operator(admin: Admin, id: str, yes: bool) -> None:
    """Delete an operator with their sessions."""
    confirm(f"Delete the operator {id}?", yes)
    admin.ask("DELETE", "operators", id)
    admin.output.done(f"operator {id} is deleted")


# ---- What happened, and how much there is


@command(None, "ca-audit")
@click.option("--type", help="Of this type alone, such as cert.revoke.")
@click.option("--subject", help="About this subject alone.")
@click.option("--outcome", type=click.Choice(["success", "failure"]), help="With this outcome alone.")
@click.option("--since", type=WHEN, help="From then on, UTC.")
@click.option("--until", type=WHEN, help="Before then, UTC.")
@LIMIT
def audit(admin: Admin, /, limit: int, since: datetime | None, until: datetime | None, **query: str | None) -> None:
    """Show audit events of the CA, newest first."""
    wanted = {**query, "from": timestamp(since), "until": timestamp(until)}
    columns = ("occurred_at", "event_type", "outcome", "subject", "principal", "detail")
    admin.output.rows(admin.counted("audit", "events", limit, **wanted), columns, "no events")


@command(None, "ca-stats")
def stats(admin: Admin) -> None:
    """Show how much there is."""
    admin.output.record(admin.ask("GET", "stats"))


@command(None, "ca-config")
def config(admin: Admin) -> None:
    """Show the configuration that is in force, without secrets."""
    admin.output.record(admin.ask("GET", "config"))


@command(None, "ca-resume")
def resume(admin: Admin) -> None:
    """Allow issuing again after the alarm ended it."""
    admin.ask("POST", "alarm", "reset")
    admin.output.done("certificates are issued again")


COMMANDS = (accounts, orders, eab, profiles, cas, operators, audit, stats, config, resume)
