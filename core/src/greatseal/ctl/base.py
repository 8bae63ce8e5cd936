"""For commands of ``greatseal ctl``, the hook ``ctl``: the admin API with the session of whoever is signed in, and its output.

.. code-block:: python

    @command(None, "weather")
    @click.argument("place")
    def weather(admin: Admin, place: str) -> None:
        \"\"\"Show the weather.\"\"\"
        admin.output.record(admin.ask("GET", "weather", place))     # GET /api/admin/weather/<place>
"""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import click

from greatseal.ctl.client import CtlProblem, Server, SessionFile
from greatseal.ctl.tables import Output, printable

__all__ = ["LIMIT", "WHEN", "YES", "Admin", "CtlProblem", "command", "confirm", "members_of", "operator_command", "secret_of", "timestamp"]

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
            raise CtlProblem(f"not signed in to {self.url}; sign in with: greatseal ctl --server {self.url} login")
        return Server(self.url, cookie=stored.cookie, token=stored.token, ca_file=self.ca_file)

    def anonymous(self, certificate: tuple[Path, Path | None] | None = None) -> Server:
        """The server without a session; ``certificate`` is what the client shows."""
        return Server(self.url, ca_file=self.ca_file, certificate=certificate)

    @property
    def is_operator(self) -> bool:
        """Whether the session is that of an operator of the CA: they ask below /admin/, everybody else below /api/admin/."""
        stored = self.file.read()
        return stored is not None and stored.server == self.url and bool(stored.token)

    def ask(
        self,
        method: str,
        *path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The value of an admin request."""
        return self.server().ask(method, *self._area, *path, body=body, query=query, headers=headers).value

    def listed(self, path: str, limit: int | None = None, **query: object) -> Iterator[Any]:
        """The things of a list, at most ``limit``, read page by page while they are taken."""
        wanted = {**query, "limit": min(PAGE, limit or PAGE)}
        return islice(chain.from_iterable(self.server().pages(*self._area, *path.split("/"), query=wanted)), limit)

    def counted(self, path: str, member: str, limit: int, **query: object) -> Iterator[Any]:
        """As :meth:`listed`, of a list that has its things in ``member`` and takes ``limit`` and ``offset``."""

        def everything() -> Iterator[Any]:
            for page in count():
                wanted = {**query, "limit": min(PAGE, limit), "offset": page * min(PAGE, limit)}
                found = self.ask("GET", path, query=wanted)[member]
                yield from found
                if len(found) < min(PAGE, limit):
                    return

        return islice(everything(), limit)

    @property
    def _area(self) -> tuple[str, ...]:
        return ("admin",) if self.is_operator else ("api", "admin")


def command(
    group: click.Group | None, name: str, *, leading_dash: bool = False
) -> Callable[[Callable[Concatenate[Admin, P], None]], click.Command]:
    """Make a command, of ``group`` where it is not None, that takes the Admin first, knows --json, and says a CtlProblem in one line.

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

        made = click.command(name, context_settings={"ignore_unknown_options": leading_dash})(JSON(run))
        if group is not None:
            group.add_command(made)
        return made

    return register


def operator_command(
    group: click.Group | None, name: str, *, leading_dash: bool = False
) -> Callable[[Callable[Concatenate[Admin, P], None]], click.Command]:
    """As :func:`command`, for operators of the CA alone."""

    def register(fn: Callable[Concatenate[Admin, P], None]) -> click.Command:
        @wraps(fn)
        def run(admin: Admin, /, *args: P.args, **kwargs: P.kwargs) -> None:
            if not admin.is_operator:
                raise CtlProblem(
                    f"this is for operators of the CA, and nobody is signed in to {admin.url} as one; "
                    "use: greatseal ctl --server https://<admin listener> login --cert FILE --key FILE, or --eab-kid KID"
                )
            fn(admin, *args, **kwargs)

        return command(group, name, leading_dash=leading_dash)(run)

    return register


def _choose_json(context: click.Context, _option: click.Parameter, chosen: bool) -> None:
    admin = context.find_object(Admin)
    if chosen and admin is not None:
        admin.output.json = True


JSON = click.option("--json", is_flag=True, expose_value=False, callback=_choose_json, help="Print JSON for programs.")
YES = click.option("--yes", is_flag=True, help="Do not ask before it is done.")
LIMIT = click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
WHEN = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])
"""A moment in UTC."""


def timestamp(when: datetime | None) -> int | None:
    """The Unix timestamp of a :data:`WHEN`."""
    return None if when is None else int(when.replace(tzinfo=UTC).timestamp())


def confirm(question: str, yes: bool) -> None:
    """Ask a person at a terminal; a program has to know what it does."""
    if not yes and sys.stdin.isatty() and not click.confirm(question):
        raise CtlProblem("nothing was changed")


def members_of(pairs: Sequence[str]) -> dict[str, Any]:
    """The members that options ``--set FIELD=JSON`` name."""
    members: dict[str, Any] = {}
    for text in pairs:
        name, equals, value = text.partition("=")
        try:
            members[name] = json.loads(value) if equals else None
        except ValueError:
            equals = ""
        if not equals:
            example = f"{name or 'FIELD'}={json.dumps(value or 'text')}"
            raise CtlProblem(f"--set {text}: expected FIELD=JSON, for example --set {shlex.quote(example)}", code=2)
    return members


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
