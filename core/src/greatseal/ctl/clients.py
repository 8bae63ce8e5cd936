"""``greatseal ctl clients``."""

import difflib
import json
import secrets
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import click

from greatseal.ctl.base import YES, Admin, command, confirm, ctl, secret_of
from greatseal.ctl.client import CtlProblem

F = TypeVar("F", bound=Callable[..., Any])

LISTS = frozenset({"redirect_uris", "scopes", "grant_types"})
"""Options that may be given again."""
NEVER_SHOWN = frozenset({"client_secret", "tls_client_certificate"})
"""Fields that no client in an answer has."""
NEVER_SET = frozenset({"client_id", "has_secret", "tls_client_certificate_sha256", "source", "created_at", "updated_at"})
"""What a client in an answer has besides its fields."""


@ctl.group()
def clients() -> None:
    """OAuth clients."""


def fields(fn: F) -> F:
    """The options that set fields, the same for create and update."""
    options = [
        click.option("--name", "client_name", help="The name that people see."),
        click.option("--redirect-uri", "redirect_uris", multiple=True, help="An allowed redirect URI; may be given again."),
        click.option("--scope", "scopes", multiple=True, help="A scope that it may ask for; may be given again."),
        click.option("--grant-type", "grant_types", multiple=True, help="A grant that it may use; may be given again."),
        click.option("--method", "token_endpoint_auth_method", help="How it proves itself, for example client_secret_basic or none."),
        click.option("--secret-file", metavar="FILE", help="Its secret, from the first line of a file; - is standard input."),
        click.option("--generate-secret", is_flag=True, help="Make a random secret and show it once."),
        click.option("--jwks-uri", help="Where its keys are."),
        click.option("--certificate", type=click.Path(path_type=Path, dir_okay=False), help="Its TLS certificate, PEM."),
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
    admin.output.rows(admin.ask("GET", "clients"), columns, "no clients")


@command(clients, "show")
@click.argument("client_id")
def show_client(admin: Admin, client_id: str) -> None:
    """Show one client."""
    admin.output.record(admin.ask("GET", "clients", client_id))


@command(clients, "create")
@fields
def create_client(admin: Admin, /, **options: Any) -> None:
    """Register a client. Methods with a secret get a random one unless --secret-file is given."""
    body = body_of(**options)
    if str(body.get("token_endpoint_auth_method")).startswith("client_secret_"):
        body.setdefault("client_secret", secrets.token_urlsafe(32))
    made = admin.ask("POST", "clients", body=body)
    admin.output.record(made)
    if unknown := unknown_fields(made, options["more"], options["clear"]):
        raise CtlProblem(f"{unknown}; the client {made['client_id']} was made without it", code=2)


@command(clients, "update")
@click.argument("client_id")
@fields
def update_client(admin: Admin, /, client_id: str, **options: Any) -> None:
    """Change a client; what is not named stays as it is."""
    body = body_of(**options)
    if not body:
        raise CtlProblem("there is nothing to change; name a field, see --help", code=2)
    if options["more"] or options["clear"]:
        before = admin.ask("GET", "clients", client_id)
        if unknown := unknown_fields(before, options["more"], options["clear"]):
            raise CtlProblem(unknown, code=2)
    changed = admin.ask("PUT", "clients", client_id, body=body)
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


def body_of(
    *,
    more: tuple[str, ...],
    clear: tuple[str, ...],
    secret_file: str | None,
    generate_secret: bool,
    certificate: Path | None,
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
    if certificate:
        try:
            body["tls_client_certificate"] = certificate.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise CtlProblem(f"{certificate}: {error}", code=2) from None
    for text in more:
        name, equals, value = text.partition("=")
        try:
            body[name] = json.loads(value) if equals else None
        except ValueError:
            equals = ""
        if not equals:
            raise CtlProblem(f"--set {text}: expected FIELD=JSON", code=2)
    return {**body, **dict.fromkeys(clear)}


def unknown_fields(client: Collection[str], more: tuple[str, ...], clear: tuple[str, ...]) -> str:
    """What is wrong with the names of --set and --clear, "" for nothing; ``client`` is one as the server shows it, with every field.

    The server ignores what it does not know (RFC 7591 s2), so that a misspelt name would change nothing, in silence.
    """
    known = NEVER_SHOWN.union(client) - NEVER_SET
    asked = [("--set", text.partition("=")[0]) for text in more] + [("--clear", name) for name in clear]
    return "; ".join(f"{option} {name}: {_unknown(name, known)}" for option, name in asked if name not in known)


def _unknown(name: str, known: Collection[str]) -> str:
    if name in NEVER_SET:
        return "this field cannot be set"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "`greatseal ctl --json clients show` lists all fields"
    return f"the server does not know this field; {hint}"
