"""``greatseal ctl``: keys, cluster key, nodes, families, users, groups, scopes, audit."""

from datetime import datetime
from typing import Any

import click

from greatseal.ctl.base import LIMIT, WHEN, YES, Admin, command, confirm, secret_of, timestamp

# ---- Keys


@click.group()
def keys() -> None:
    """Signing keys."""


@command(keys, "list")
def list_keys(admin: Admin) -> None:
    """List the signing keys that are not revoked."""
    admin.output.rows(admin.listed("keys"), ("kid", "alg", "status", "created_at", "retire_at", "node_id"), "no keys")


@command(keys, "rotate")
@click.option("--alg", help="ES256 or RS256; the configured one when left out.")
def rotate_key(admin: Admin, alg: str | None) -> None:
    """Make a new signing key; the one before still verifies."""
    made = admin.ask("POST", "keys", "rotate", body={} if alg is None else {"alg": alg})
    admin.output.done(f"{made['alg']} key {made['kid']} signs now", made)


@command(keys, "revoke", leading_dash=True)
@click.argument("kid")
@YES
def revoke_key(admin: Admin, kid: str, yes: bool) -> None:
    """Revoke a signing key at once: what it signed is refused from now on."""
    confirm(f"Revoke the key {kid}? Every token that it signed ends now.", yes)
    admin.ask("DELETE", "keys", kid)
    admin.output.done(f"key {kid} is revoked")


@click.group("cluster-key")
def cluster_key() -> None:
    """The key that seals all private keys and secrets."""


@command(cluster_key, "show")
def show_cluster_key(admin: Admin) -> None:
    """Show its id and when it was set; never the key."""
    admin.output.record(admin.ask("GET", "keys", "cluster"))


@command(cluster_key, "rotate")
@click.option("--key-file", metavar="FILE", help="32 bytes in base64url, first line of a file, - for standard input; else a random one.")
def rotate_cluster_key(admin: Admin, key_file: str | None) -> None:
    """Set a new one and seal everything again under it."""
    made = admin.ask("PUT", "keys", "cluster", body={"key": secret_of(key_file)} if key_file else {})
    admin.output.done(f"cluster key {made['key_id']} is in force; make a new backup of its file", made)


# ---- Nodes and refresh families


@command(None, "nodes")
def list_nodes(admin: Admin) -> None:
    """List the nodes of the cluster."""
    admin.output.rows(admin.listed("nodes"), ("node_id", "status", "address", "version", "last_seen", "started_at"), "no nodes")


@click.group()
def families() -> None:
    """Refresh token families: what applications may do while people are away."""


@command(families, "list")
@click.option("--sub", help="Of this subject alone, for example alice@EXAMPLE.ORG.")
@click.option("--client-id", help="Of this client alone.")
@LIMIT
def list_families(admin: Admin, sub: str | None, client_id: str | None, limit: int) -> None:
    """List the families that are alive, newest first."""
    found = admin.listed("refresh-families", limit, sub=sub, client_id=client_id)
    admin.output.rows(found, ("family_id", "sub", "client_id", "scope", "last_used_at", "expires_at"), "no refresh families")


@command(families, "revoke")
@click.argument("family_id")
@YES
def revoke_family(admin: Admin, family_id: str, yes: bool) -> None:
    """Revoke all tokens of a family."""
    confirm(f"Revoke the family {family_id}?", yes)
    admin.ask("DELETE", "refresh-families", family_id)
    admin.output.done(f"family {family_id} is revoked")


# ---- People


@click.group("users")
def people() -> None:
    """People, to be read; `greatseal users` changes the users file."""


@command(people, "list")
def list_users(admin: Admin) -> None:
    """List the users of the static users file."""
    admin.output.rows(admin.listed("users"), ("username", "display_name", "email", "groups", "enabled"), "no users")


@command(people, "show")
@click.argument("username")
def show_user(admin: Admin, username: str) -> None:
    """Show one user."""
    admin.output.record(admin.ask("GET", "users", username))


@click.group()
def groups() -> None:
    """Groups of people, to be read."""


@command(groups, "list")
def list_groups(admin: Admin) -> None:
    """List the groups of the static users file."""
    admin.output.rows(admin.listed("groups"), ("name", "description", "gid_number", "members"), "no groups")


@command(groups, "show")
@click.argument("name")
def show_group(admin: Admin, name: str) -> None:
    """Show one group with its members."""
    admin.output.record(admin.ask("GET", "groups", name))


# ---- Scopes


@click.group()
def scopes() -> None:
    """Scope definitions."""


@command(scopes, "list")
def list_scopes(admin: Admin) -> None:
    """List every scope."""
    admin.output.rows(admin.listed("scopes"), ("name", "description", "claims", "is_system"), "no scopes")


@command(scopes, "set")
@click.argument("name")
@click.option("--description", help="What people read on the consent page.")
@click.option("--claim", "claims", multiple=True, help="A claim that it releases; may be given again.")
def set_scope(admin: Admin, name: str, description: str | None, claims: tuple[str, ...]) -> None:
    """Make a custom scope, or replace it."""
    body: dict[str, Any] = {"claims": list(claims)}
    if description is not None:
        body["description"] = description
    admin.output.done(f"scope {name} is set", admin.ask("PUT", "scopes", name, body=body))


@command(scopes, "delete")
@click.argument("name")
@YES
def delete_scope(admin: Admin, name: str, yes: bool) -> None:
    """Delete a custom scope."""
    confirm(f"Delete the scope {name}?", yes)
    admin.ask("DELETE", "scopes", name)
    admin.output.done(f"scope {name} is deleted")


# ---- Audit


@command(None, "audit")
@click.option("--type", "event_type", help="Events of this type alone, for example login_failure.")
@click.option("--sub", help="Events of this subject alone.")
@click.option("--outcome", type=click.Choice(["success", "failure"]), help="Events that ended so.")
@click.option("--since", type=WHEN, help="From this moment on, in UTC.")
@click.option("--until", type=WHEN, help="Before this moment, in UTC.")
@LIMIT
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Leave out so many of the newest.")
def audit(admin: Admin, /, limit: int, since: datetime | None, until: datetime | None, **query: str | int | None) -> None:
    """List audit events, newest first."""
    found = admin.listed("audit", limit, since=timestamp(since), until=timestamp(until), **query)
    admin.output.rows(found, ("created_at", "event_type", "sub", "client_id", "detail"), "no events")
