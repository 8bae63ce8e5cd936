"""The group ``greatseal ctl`` and the commands of the session; all others are of plugins."""

import base64
import hmac
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from greatseal.ctl.base import Admin, command, secret_of
from greatseal.ctl.client import COOKIE, CtlProblem, Server, StoredSession
from greatseal.ctl.tables import printable

__all__ = ["ctl"]

_FROM_URL = str.maketrans("-_", "+/")


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

    People sign in to the identity provider with a password, operators of the CA to its admin listener with a certificate, an EAB key or a
    Kerberos ticket.

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
@click.option("--eab-kid", metavar="KID", help="As an operator of the CA: the id of an EAB key.")
@click.option("--hmac-key-file", metavar="FILE", help="Read its secret, in base64url, from the first line of a file; - is standard input.")
@click.option("--negotiate", is_flag=True, help="As an operator of the CA: the Kerberos ticket of this machine (kinit).")
@click.option("--base-url", metavar="URL", help="The base_url of the service, where its host is not that of the admin listener.")
def login(
    admin: Admin,
    /,
    *,
    username: str | None,
    password_file: str | None,
    cert: Path | None,
    key: Path | None,
    eab_kid: str | None,
    hmac_key_file: str | None,
    negotiate: bool,
    base_url: str | None,
) -> None:
    """Sign in with name and password, or as an operator of the CA with a certificate, an EAB key or a Kerberos ticket.

    A password or key that is in no file is asked for.
    """
    if negotiate:
        if (username, password_file, cert, eab_kid) != (None, None, None, None):
            raise CtlProblem("--negotiate is a sign-in of its own: leave out name, --password-file, --cert and --eab-kid", code=2)
        _keep(admin, *_by_ticket(admin))
    elif eab_kid is not None:
        if username is not None or password_file is not None:
            raise CtlProblem("an EAB key is no password: leave out the name, or --eab-kid", code=2)
        _keep(admin, *_by_eab_key(admin, eab_kid, hmac_key_file, base_url))
    elif hmac_key_file is not None or base_url is not None:
        raise CtlProblem("--hmac-key-file and --base-url are for an EAB key; name it with --eab-kid", code=2)
    elif cert is not None and username is None and password_file is None:
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
    answer = _with_code(server, {"username": username, "password": password})
    pair = next(((name, value) for name, value in answer.cookies.items() if name.endswith(COOKIE)), None)
    if pair is None:
        raise CtlProblem(f"{server.url} gave no session")
    return StoredSession(server=server.url, cookie="=".join(pair), username=str(username)), answer.value["sub"], answer.value


def _with_code(server: Server, credentials: dict[str, str]) -> Any:
    """The answer to a sign-in; a one-time code is asked for where one is needed."""
    try:
        return server.ask("POST", "api", "auth", "login", body=credentials)
    except CtlProblem as problem:
        said = problem.answer if isinstance(problem.answer, dict) else {}
        if said.get("error") != "factor_required" or "PasswordAndCode" not in said.get("credentials", ()):
            raise
    code = click.prompt("One-time code", err=True)
    return server.ask("POST", "api", "auth", "otp", body={**credentials, "otp_code": str(code)})


def _by_certificate(admin: Admin, cert: Path, key: Path | None) -> tuple[StoredSession, str, Any]:
    server = admin.anonymous((cert, key))
    if not server.url.startswith("https:"):
        raise CtlProblem(f"{server.url}: a certificate is shown in TLS alone; give the https:// URL of the admin listener", code=2)
    return _operator(admin, server, server.ask("POST", "admin", "session").value)


def _by_ticket(admin: Admin) -> tuple[StoredSession, str, Any]:
    """The service proves itself too, before its session is kept."""
    from greatseal.ctl.tickets import Exchange

    server = admin.anonymous()
    host = urlsplit(server.url).hostname
    if host is None or not server.is_private:
        raise CtlProblem(f"{server.url}: a session is begun with a ticket over https:// alone, for the host in the URL", code=2)
    exchange = Exchange(host)
    answer = server.ask("POST", "admin", "session", headers={"Authorization": exchange.begin()})
    exchange.finish(answer.challenge)
    return _operator(admin, server, answer.value)


def _by_eab_key(admin: Admin, kid: str, hmac_key_file: str | None, base_url: str | None) -> tuple[StoredSession, str, Any]:
    """The key stays here; the HMAC is over the address of the service, so that nobody else can pass it on there."""
    server = admin.anonymous()
    if not server.is_private:
        raise CtlProblem(f"{server.url}: a session is not begun over plain http; use https://", code=2)
    secret = secret_of(hmac_key_file) if hmac_key_file else click.prompt("HMAC key", hide_input=True, err=True)
    try:
        text = str(secret).strip().rstrip("=").translate(_FROM_URL)
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise CtlProblem("the HMAC key is not base64url", code=2) from None
    challenge = server.ask("GET", "admin", "session", "eab").value
    url = f"{base_url.rstrip('/')}/admin/session/eab" if base_url else _own_url(server, str(challenge["url"]))
    signed = "\n".join(("greatseal operator sign-in", url, kid, str(challenge["challenge"]))).encode()
    mac = base64.urlsafe_b64encode(hmac.digest(key, signed, "sha256"))
    proof = {"kid": kid, "challenge": challenge["challenge"], "mac": mac.decode().rstrip("=")}
    return _operator(admin, server, server.ask("POST", "admin", "session", "eab", body=proof).value)


def _own_url(server: Server, told: str) -> str:
    """The address that the service says it has, where its host is the one that was asked. Whoever else says so might pass the HMAC on."""
    asked, host = urlsplit(server.url).hostname, urlsplit(told).hostname
    if host is None or host != asked:
        named = printable(told.removesuffix("/admin/session/eab"))
        raise CtlProblem(f"{server.url} says that its base_url is {named}, which is another host; if that is so, give --base-url", code=2)
    return told


def _operator(admin: Admin, server: Server, began: Any) -> tuple[StoredSession, str, Any]:
    token = str(began["session_token"])
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
