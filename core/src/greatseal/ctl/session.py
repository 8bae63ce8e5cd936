"""The group ``greatseal ctl`` and the commands of the session; all others are of plugins."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from greatseal.ctl.base import Admin, command, secret_of
from greatseal.ctl.client import COOKIE, CtlProblem, Server, StoredSession
from greatseal.ctl.tables import printable

__all__ = ["ctl"]


class _Commands(click.Group):
    """The commands of the session, for which no plugin is imported, and those of every installed plugin."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from greatseal.kernel.commands import plugin_commands

        return super().get_command(ctx, cmd_name) or plugin_commands(ctx, "ctl", super().list_commands(ctx)).get(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        from greatseal.kernel.commands import plugin_commands

        own = super().list_commands(ctx)
        return sorted({*own, *plugin_commands(ctx, "ctl", own)})


@click.group(cls=_Commands)
@click.option("--server", envvar="GREATSEAL_SERVER", metavar="URL", help="The issuer's URL, or unix:/path; else the one signed in to.")
@click.option(
    "--ca-file",
    envvar="GREATSEAL_CA_FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="PEM certificates to trust instead of the system's.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.pass_context
def ctl(context: click.Context, server: str | None, ca_file: Path | None, as_json: bool) -> None:
    """Administer a running service: sign in once, then look and change.

    People sign in to the identity provider with a password, operators of the CA to its admin listener with a certificate.

    The session is kept in $GREATSEAL_SESSION, else in ~/.config/greatseal/session.json, readable by you alone.
    """
    context.obj = Admin(server, ca_file)
    context.obj.output.json = as_json


# ---- The session


FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@command(ctl, "login")
@click.argument("username", required=False)
@click.option("--password-file", metavar="FILE", help="Read the password from the first line of a file; - is standard input.")
@click.option("--cert", envvar="GREATSEAL_CERT", type=FILE, help="As an operator of the CA: a PEM certificate.")
@click.option("--key", envvar="GREATSEAL_KEY", type=FILE, help="The PEM key of the certificate.")
def login(admin: Admin, username: str | None, password_file: str | None, cert: Path | None, key: Path | None) -> None:
    """Sign in with name and password, which is asked for, or with the certificate of an operator of the CA."""
    if cert is not None and username is None and password_file is None:
        _keep(admin, *_by_certificate(admin, cert, key))
    else:
        _keep(admin, *_by_password(admin, username, password_file))


def _by_password(admin: Admin, username: str | None, password_file: str | None) -> tuple[StoredSession, str, Any]:
    server = admin.anonymous()
    if not server.is_private:
        raise CtlProblem(f"{server.url}: a password is not sent over plain http; use https://", code=2)
    if username is None:
        username = click.prompt("Username", err=True)
    password = secret_of(password_file) if password_file else click.prompt("Password", hide_input=True, err=True)
    answer = server.ask("POST", "api", "auth", "login", body={"username": username, "password": password})
    pair = next(((name, value) for name, value in answer.cookies.items() if name.endswith(COOKIE)), None)
    if pair is None:
        raise CtlProblem(f"{server.url} gave no session")
    return StoredSession(server=server.url, cookie="=".join(pair), username=str(username)), answer.value["sub"], answer.value


def _by_certificate(admin: Admin, cert: Path, key: Path | None) -> tuple[StoredSession, str, Any]:
    server = admin.anonymous((cert, key))
    if not server.url.startswith("https:"):
        raise CtlProblem(f"{server.url}: a certificate is shown in TLS alone; give the https:// URL of the admin listener", code=2)
    token = str(server.ask("POST", "admin", "session").value["session_token"])
    who = Server(server.url, token=token, ca_file=admin.ca_file).ask("GET", "admin", "session").value
    return StoredSession(server=server.url, cookie="", username=who["name"], token=token), who["name"], who


def _keep(admin: Admin, session: StoredSession, who: str, shown: Any) -> None:
    try:
        admin.file.write(session)
    except CtlProblem:
        # A session that nobody holds would live on there until it expires.
        with suppress(CtlProblem):
            _end(Server(session.server, cookie=session.cookie, token=session.token, ca_file=admin.ca_file), is_operator=bool(session.token))
        raise
    admin.output.done(f"signed in to {session.server} as {printable(who)}", shown)


def _end(server: Server, *, is_operator: bool) -> None:
    if is_operator:
        server.ask("DELETE", "admin", "session")
    else:
        server.ask("POST", "api", "auth", "logout")


@command(ctl, "logout")
def logout(admin: Admin) -> None:
    """End the session, here and on the server."""
    try:
        _end(admin.server(), is_operator=admin.is_operator)
    finally:
        admin.file.remove()
    admin.output.done("signed out")


@command(ctl, "whoami")
def whoami(admin: Admin) -> None:
    """Who is signed in, and what they may do."""
    path = ("admin", "session") if admin.is_operator else ("api", "auth", "me")
    admin.output.record(admin.server().ask("GET", *path).value)
