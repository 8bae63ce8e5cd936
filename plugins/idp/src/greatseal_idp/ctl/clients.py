"""``greatseal ctl clients``."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from greatseal.ctl.base import YES, Admin, CtlProblem, command, confirm, members_of, secret_of
from greatseal_idp.ctl.keycloak import Offered, Planned, Unreadable, plan

F = TypeVar("F", bound=Callable[..., Any])

METHODS = "How it proves itself: client_secret_basic, client_secret_post, private_key_jwt, none (public), ..."
LISTS = frozenset({"redirect_uris", "scopes", "grant_types"})
"""Options that may be given again."""
STRICT = {"Prefer": "handling=strict"}
"""A misspelt field is refused, and nothing is done; a server would ignore it else (RFC 7240 s4.4, RFC 7591 s2)."""


@click.group()
def clients() -> None:
    """OAuth clients."""


def fields(fn: F) -> F:
    """The options that set fields, the same for create and update."""
    options = [
        click.option("--name", "client_name", help="The name that people see."),
        click.option("--redirect-uri", "redirect_uris", multiple=True, help="An allowed redirect URI; may be given again."),
        click.option("--scope", "scopes", multiple=True, help="A scope that it may ask for; may be given again."),
        click.option("--grant-type", "grant_types", multiple=True, help="A grant that it may use; may be given again."),
        click.option("--method", "token_endpoint_auth_method", help=METHODS),
        click.option("--secret-file", metavar="FILE", help="Its secret, from the first line of a file; - is standard input."),
        click.option("--generate-secret", is_flag=True, help="Make a random secret and show it once."),
        click.option("--jwks-uri", help="Where its keys are."),
        click.option("--certificate", type=click.Path(path_type=Path, dir_okay=False), help="Its TLS certificate, PEM."),
        click.option("--principal", metavar="PRINCIPAL", help="Its Kerberos principal, or a pattern: host/*@EXAMPLE.ORG."),
        click.option(
            "--set", "more", multiple=True, metavar="FIELD=JSON", help="Any other field, for example --set consent='\"implicit\"'."
        ),
        click.option("--clear", multiple=True, metavar="FIELD", help="Unset an optional field; may be given again."),
    ]
    for option in reversed(options):
        fn = option(fn)
    return fn


@command(clients, "list")
def list_clients(admin: Admin) -> None:
    """List every client."""
    columns = ("client_id", "client_name", "token_endpoint_auth_method", "scopes", "created_at")
    admin.output.rows(admin.listed("clients"), columns, "no clients")


@command(clients, "show")
@click.argument("client_id")
def show_client(admin: Admin, client_id: str) -> None:
    """Show one client."""
    admin.output.record(admin.ask("GET", "clients", client_id))


@command(clients, "create")
@fields
def create_client(admin: Admin, /, **options: Any) -> None:
    """Register a client.

    Without --method it is client_secret_basic, what most web applications want; with keys (--jwks-uri, or --set jwks=...) it is
    private_key_jwt, with --principal kerberos_client_auth. A client_secret_ method gets a random secret, shown once, unless --secret-file
    is given. An application without a server, in a browser or on a phone or desktop, needs --method none.
    """
    body = body_of(**options)
    body.setdefault("token_endpoint_auth_method", _usual_method(body))
    if str(body["token_endpoint_auth_method"]).startswith("client_secret_"):
        body.setdefault("client_secret", secrets.token_urlsafe(32))
    admin.output.record(send(admin, "POST", "clients", body=body, **options))


@command(clients, "update")
@click.argument("client_id")
@fields
def update_client(admin: Admin, /, client_id: str, **options: Any) -> None:
    """Change a client; what is not named stays as it is."""
    body = body_of(**options)
    if not body:
        raise CtlProblem("there is nothing to change; name a field, see --help", code=2)
    changed = send(admin, "PUT", "clients", client_id, body=body, **options)
    if options["generate_secret"]:
        changed = {**changed, "client_secret": body["client_secret"]}
    admin.output.record(changed)


@command(clients, "delete")
@click.argument("client_id")
@YES
def delete_client(admin: Admin, client_id: str, yes: bool) -> None:
    """Delete a client; its refresh tokens end with it."""
    confirm(f"Delete the client {client_id}?", yes)
    admin.ask("DELETE", "clients", client_id)
    admin.output.done(f"client {client_id} is deleted")


@command(clients, "import-keycloak")
@click.argument("export", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--apply", is_flag=True, help="Register them; without it nothing is changed.")
@click.option("--new-secrets", is_flag=True, help="Replace the secrets that the export hides, and show the new ones.")
def import_keycloak(admin: Admin, export: Path, apply: bool, new_secrets: bool) -> None:
    """Register the clients of a Keycloak realm, of the file of kc.sh export.

    Each gets a client_id of this service, which its application must be told, and keeps its secret. A client that is here already from an
    earlier run is left as it is.
    """
    found = _plan(admin, export, new_secrets=new_secrets)
    here = {client["software_id"]: client["client_id"] for client in admin.listed("clients") if client.get("software_id")}
    rows = [_imported(admin, one, here.get(one.mark) if one.mark else None, apply=apply) for one in found]
    admin.output.rows(iter(rows), ("name", "outcome", "client_id", "client_secret", "notes"), "the realm has no clients of its own")
    if any(row["outcome"] == "refused" for row in rows):
        raise CtlProblem("some clients were refused; the others are registered")


def _plan(admin: Admin, export: Path, *, new_secrets: bool) -> list[Planned]:
    metadata = admin.anonymous().ask("GET", ".well-known", "openid-configuration").value
    offered = Offered(grant_types=metadata["grant_types_supported"], scopes=metadata["scopes_supported"])
    try:
        return plan(export.read_bytes(), offered, new_secrets=new_secrets)
    except (OSError, Unreadable) as error:
        raise CtlProblem(f"{export}: {error}", code=2) from None


def _imported(admin: Admin, one: Planned, client_id: str | None, *, apply: bool) -> dict[str, Any]:
    """One line of the report; with ``apply`` the client is registered, unless it is there."""
    row: dict[str, Any] = {"name": one.name, "outcome": "would be registered", "client_id": None, "client_secret": None, "notes": one.notes}
    if one.body is None:
        return {**row, "outcome": "left out"}
    if client_id is not None:
        return {**row, "outcome": "here already", "client_id": client_id, "notes": ()}
    if not apply:
        return row
    try:
        made = admin.ask("POST", "clients", body=one.body, headers=STRICT)
    except CtlProblem as problem:
        return {**row, "outcome": "refused", "notes": (str(problem), *one.notes)}
    return {
        **row,
        "outcome": "registered",
        "client_id": made["client_id"],
        "client_secret": one.body["client_secret"] if one.is_new_secret else None,
    }


def _usual_method(body: dict[str, Any]) -> str:
    """The method of a client that names none, by what it has."""
    if body.keys() & {"jwks_uri", "jwks"}:
        return "private_key_jwt"
    return "kerberos_client_auth" if body.keys() & {"kerberos_principal", "kerberos_principal_pattern"} else "client_secret_basic"


def body_of(
    *,
    more: tuple[str, ...],
    clear: tuple[str, ...],
    secret_file: str | None,
    generate_secret: bool,
    certificate: Path | None,
    principal: str | None,
    **simple: str | tuple[str, ...] | None,
) -> dict[str, Any]:
    """The body of POST or PUT: only what was given."""
    body: dict[str, Any] = {name: list(value) if name in LISTS else value for name, value in simple.items() if value not in (None, ())}
    if secret_file and generate_secret:
        raise CtlProblem("give --secret-file or --generate-secret, not both", code=2)
    if secret_file:
        body["client_secret"] = secret_of(secret_file)
    if generate_secret:
        body["client_secret"] = secrets.token_urlsafe(32)
    if principal:
        body["kerberos_principal_pattern" if "*" in principal else "kerberos_principal"] = principal
    if certificate:
        try:
            body["tls_client_certificate"] = certificate.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise CtlProblem(f"{certificate}: {error}", code=2) from None
    return {**body, **members_of(more), **dict.fromkeys(clear)}


def send(admin: Admin, method: str, *path: str, body: dict[str, Any], more: tuple[str, ...], clear: tuple[str, ...], **_: object) -> Any:
    """Create or change a client, all of it or nothing. What the server says of a field is said of the option that named it."""
    try:
        return admin.ask(method, *path, body=body, headers=STRICT)
    except CtlProblem as problem:
        asked = [("--set", text.partition("=")[0]) for text in more] + [("--clear", name) for name in clear]
        said = [f"{option} {name}: {problem.fields[name]}" for option, name in asked if name in problem.fields]
        raise (CtlProblem("; ".join(said), code=2) if said else problem) from None
