"""The group ``greatseal ctl`` and the commands of the session; all others are of plugins."""

from contextlib import suppress
from pathlib import Path

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
@click.option("--ca-file", type=click.Path(path_type=Path, dir_okay=False), help="PEM certificates to trust instead of the system's.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.pass_context
def ctl(context: click.Context, server: str | None, ca_file: Path | None, as_json: bool) -> None:
    """Administer a running identity provider: sign in once, then look and change.

    The session is kept in $GREATSEAL_SESSION, else in ~/.config/greatseal/session.json, readable by you alone.
    """
    context.obj = Admin(server, ca_file)
    context.obj.output.json = as_json


# ---- The session


@command(ctl, "login")
@click.argument("username", required=False)
@click.option("--password-file", metavar="FILE", help="Read the password from the first line of a file; - is standard input.")
def login(admin: Admin, username: str | None, password_file: str | None) -> None:
    """Sign in with name and password; the password is asked for."""
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
    cookie = "=".join(pair)
    try:
        admin.file.write(StoredSession(server=server.url, cookie=cookie, username=username))
    except CtlProblem:
        # A session that nobody holds would live on there until it expires.
        with suppress(CtlProblem):
            Server(server.url, cookie=cookie, ca_file=admin.ca_file).ask("POST", "api", "auth", "logout")
        raise
    admin.output.done(f"signed in to {server.url} as {printable(answer.value['sub'])}", answer.value)


@command(ctl, "logout")
def logout(admin: Admin) -> None:
    """End the session, here and on the server."""
    try:
        admin.server().ask("POST", "api", "auth", "logout")
    finally:
        admin.file.remove()
    admin.output.done("signed out")


@command(ctl, "whoami")
def whoami(admin: Admin) -> None:
    """Who is signed in, and what they may do."""
    admin.output.record(admin.server().ask("GET", "api", "auth", "me").value)
