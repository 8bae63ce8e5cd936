"""The group ``greatseal ctl``, what its commands share, and the commands of the session."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import wraps
from itertools import chain, islice
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import click

from greatseal.ctl.client import COOKIE, LOGIN, CtlProblem, Server, SessionFile, StoredSession
from greatseal.ctl.tables import Output, printable

P = ParamSpec("P")
DEFAULT_SERVER = "http://localhost:8080"
PAGE = 1000
"""Things that are asked for at once; a server may give fewer."""


class Admin:
    """What a command works with: the server with the session, and the output."""

    def __init__(self, server: str | None, ca_file: Path | None) -> None:
        self.output = Output()
        self.file = SessionFile.default()
        self._chosen = server
        self.ca_file = ca_file

    @property
    def url(self) -> str:
        """--server or $GREATSEAL_SERVER, else the one that is signed in to, else that of `make run`."""
        if self._chosen is not None:
            return self._chosen.rstrip("/")
        stored = self.file.read()
        return stored.server if stored else DEFAULT_SERVER

    def server(self) -> Server:
        """The server with the session; the cookie goes to the server that gave it alone."""
        stored = self.file.read()
        if stored is None or stored.server != self.url:
            raise CtlProblem(f"not signed in to {self.url}; {LOGIN}")
        return Server(self.url, cookie=stored.cookie, ca_file=self.ca_file)

    def anonymous(self) -> Server:
        """The server without a session."""
        return Server(self.url, ca_file=self.ca_file)

    def ask(self, method: str, *path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        """The value of an admin request."""
        return self.server().ask(method, "api", "admin", *path, body=body, headers=headers).value

    def listed(self, path: str, limit: int | None = None, **query: object) -> Iterator[Any]:
        """The things of a list, at most ``limit``, read page by page while they are taken."""
        wanted = {**query, "limit": min(PAGE, limit or PAGE)}
        return islice(chain.from_iterable(self.server().pages("api", "admin", path, query=wanted)), limit)


def command(
    group: click.Group, name: str, *, leading_dash: bool = False
) -> Callable[[Callable[Concatenate[Admin, P], None]], click.Command]:
    """Register a command of ``group`` that takes the Admin first, knows --json, and ends with one line for each problem.

    ``leading_dash``: its argument may begin with ``-``, as one kid in 64 does.
    """

    def register(fn: Callable[Concatenate[Admin, P], None]) -> click.Command:
        @wraps(fn)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            admin = click.get_current_context().find_object(Admin)
            assert admin is not None  # the group made it
            try:
                fn(admin, *args, **kwargs)
            except CtlProblem as problem:
                click.echo(f"greatseal: {printable(str(problem))}", err=True)
                sys.exit(problem.code)

        return group.command(name, context_settings={"ignore_unknown_options": leading_dash})(JSON(run))

    return register


def _choose_json(context: click.Context, _option: click.Parameter, chosen: bool) -> None:
    admin = context.find_object(Admin)
    if chosen and admin is not None:
        admin.output.json = True


JSON = click.option("--json", is_flag=True, expose_value=False, callback=_choose_json, help="Print JSON for programs.")
YES = click.option("--yes", is_flag=True, help="Do not ask before it is done.")


def confirm(question: str, yes: bool) -> None:
    """Ask a person at a terminal; a program has to know what it does."""
    if not yes and sys.stdin.isatty() and not click.confirm(question):
        raise CtlProblem("nothing was changed")


@click.group()
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


def secret_of(file: str) -> str:
    """The first line of a file, of standard input for ``-``."""
    try:
        text = sys.stdin.readline() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CtlProblem(f"{file}: {error}", code=2) from None
    secret = text.partition("\n")[0].rstrip("\r")
    if not secret:
        raise CtlProblem(f"{file}: the first line is empty", code=2)
    return secret
