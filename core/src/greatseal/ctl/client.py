"""The admin API over HTTP: requests with the session of a person, and where that session is kept."""

import http.client
import ipaddress
import json
import os
import re
import secrets
import socket
import ssl
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec

COOKIE = "greatseal_session"
TIMEOUT = 30.0
LOGIN = "sign in with: greatseal ctl login"
PROBLEM = "urn:ietf:params:acme:error:"
_NEXT = re.compile(r'<[^>?]*\?([^>]*)>\s*;\s*rel="?next"?(?=[\s;,]|\Z)', re.IGNORECASE)


class CtlProblem(Exception):
    """What went wrong, in one line for the person. ``code`` is the exit code: 1 a failed operation, 2 bad usage.

    ``fields`` are what the server says about single fields, by name; ``answer`` is the JSON of its refusal.
    """

    def __init__(self, message: str, *, code: int = 1, fields: Mapping[str, str] | None = None, answer: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.answer = answer
        self.fields = fields or {}


class StoredSession(msgspec.Struct, frozen=True, omit_defaults=True):
    """A session on this machine: the server it belongs to, and its cookie as ``name=value``, or ``token`` for an operator of the CA."""

    server: str
    cookie: str
    username: str
    token: str = ""


class Answer(msgspec.Struct, frozen=True):
    """A response: ``value`` is its JSON, None for an empty one; ``next`` the query of the next page of a list (RFC 8288), "" for none.

    ``challenge`` is its WWW-Authenticate.
    """

    status: int
    value: Any
    cookies: Mapping[str, str]
    next: str
    challenge: str = ""


class SessionFile:
    """The session on disk, readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def default(cls) -> "SessionFile":
        """$GREATSEAL_SESSION, else greatseal/session.json in the user's configuration folder."""
        if chosen := os.environ.get("GREATSEAL_SESSION"):
            return cls(Path(chosen))
        return cls(Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "greatseal" / "session.json")

    def read(self) -> StoredSession | None:
        """The session, None when there is none. Raises CtlProblem for a file that is not to be trusted."""
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                    raise CtlProblem(f"{self.path} is open to others; run: chmod 600 {self.path}", code=2)
                return msgspec.json.decode(file.read(65_536), type=StoredSession)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise CtlProblem(f"{self.path} cannot be read as a session: {error}; remove it and {LOGIN}", code=2) from None

    def write(self, session: StoredSession) -> None:
        """Replace it."""
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(msgspec.json.encode(session))
            draft.replace(self.path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            raise CtlProblem(f"{self.path} cannot be written: {error.strerror}") from None

    def remove(self) -> None:
        """Forget it."""
        self.path.unlink(missing_ok=True)


class Server:
    """A service under its URL, ``https://...``, ``http://...``, or ``unix:/path`` for its socket. TLS trusts what the system trusts."""

    def __init__(
        self,
        url: str,
        *,
        cookie: str | None = None,
        token: str | None = None,
        ca_file: Path | None = None,
        certificate: tuple[Path, Path | None] | None = None,
    ) -> None:
        """``certificate`` is that of the client, a PEM file, and the file of its key where that is another one."""
        self.url = url.rstrip("/")
        self._cookie = cookie
        self._token = token
        self._certificate = certificate
        self._ca_file = ca_file
        self._parts = urlsplit(self.url)
        if self._parts.scheme not in {"https", "http", "unix"} or not (self._parts.hostname or self._parts.scheme == "unix"):
            raise CtlProblem(f"{url}: expected https://..., http://... or unix:/path", code=2)

    @property
    def is_private(self) -> bool:
        """Whether nobody on the way can read what is sent."""
        host = self._parts.hostname or ""
        with suppress(ValueError):
            return self._parts.scheme != "http" or ipaddress.ip_address(host).is_loopback
        return self._parts.scheme != "http" or host == "localhost" or host.endswith(".localhost")

    def pages(self, *path: str, query: Mapping[str, object]) -> Iterator[list[Any]]:
        """A list, page by page. Only the query of a link is followed: the session goes to no other place."""
        wanted: Mapping[str, object] = query
        while True:
            answer = self.ask("GET", *path, query=wanted)
            if not isinstance(answer.value, list):
                raise CtlProblem(f"{self.url}: the answer is no list; give the URL of the issuer with --server")
            yield answer.value
            following = dict(parse_qsl(answer.next))
            if not following:
                return
            if following == wanted:
                raise CtlProblem(f"{self.url}: the next page of the list is the same again")
            wanted = following

    def ask(
        self,
        method: str,
        *path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request; the segments of ``path`` are encoded. Raises CtlProblem for every refusal, with the server's words."""
        target = "".join(f"/{quote(segment, safe='')}" for segment in path)
        given = {name: value for name, value in (query or {}).items() if value is not None}
        if given:
            target += f"?{urlencode(given)}"
        sent = {"Accept": "application/json", **(headers or {})}
        if self._cookie:
            sent["Cookie"] = self._cookie
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            answer = self._exchange(method, target, None if body is None else json.dumps(body).encode(), sent)
        except (OSError, http.client.HTTPException) as error:
            raise CtlProblem(f"{self.url} cannot be reached: {str(error) or type(error).__name__}") from None
        if not 200 <= answer.status < 300 or (answer.value is None and answer.status != 204):
            raise CtlProblem(f"{self.url}: {refusal(answer)}", fields=refused_fields(answer), answer=answer.value)
        return answer

    def _exchange(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        connection = self._connection()
        try:
            prefix = "" if self._parts.scheme == "unix" else self._parts.path
            connection.request(method, prefix + target, body=body, headers=dict(headers))
            response = connection.getresponse()
            content = response.read()
            pairs = (line.partition(";")[0].partition("=") for line in response.headers.get_all("Set-Cookie", []))
            cookies = {name.strip(): value for name, _, value in pairs}
            following = _NEXT.search(", ".join(response.headers.get_all("Link", [])))
            return Answer(
                response.status, decoded(content), cookies, following[1] if following else "", response.headers.get("WWW-Authenticate", "")
            )
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "localhost", self._parts.port
        if self._parts.scheme == "unix":
            return UnixConnection(self._parts.path)
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        try:
            context = ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:
            raise CtlProblem(f"{self._ca_file}: no certificates can be read: {error.strerror}", code=2) from None
        if self._certificate is not None:
            try:
                context.load_cert_chain(*self._certificate)
            except OSError as error:
                files = " and ".join(str(file) for file in self._certificate if file)
                raise CtlProblem(f"{files}: no certificate with its key can be read: {error.strerror}", code=2) from None
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=context)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self._path)


def decoded(content: bytes) -> Any:
    """The JSON of a body; None for none, and for what is no JSON."""
    try:
        return json.loads(content)
    except ValueError:
        return None


def refused_fields(answer: Answer) -> dict[str, str]:
    """What the server says about single fields."""
    fields = answer.value.get("fields") if isinstance(answer.value, dict) else None
    return {str(name): str(said) for name, said in fields.items()} if isinstance(fields, dict) else {}


def refusal(answer: Answer) -> str:
    """What the server says, and the cure where it is known here."""
    if isinstance(answer.value, dict) and str(answer.value.get("type", "")).startswith(PROBLEM):  # RFC 7807, of the CA
        cure = f"; {LOGIN}" if answer.status in {401, 423} else ""
        return f"{answer.value.get('detail') or answer.value['type']}{cure}"
    if not isinstance(answer.value, dict) or "error" not in answer.value:
        return f"the answer is {answer.status} and none of the admin API; give the URL of the issuer with --server"
    error, description = str(answer.value["error"]), str(answer.value.get("error_description") or "")
    message = f"{description} ({error})" if description else error
    if error == "unauthenticated":
        return f"{message}; {LOGIN}"
    if error == "insufficient_user_authentication":
        return f"a stronger sign-in is needed ({error}), with a one-time code for example; {LOGIN}"
    if permission := answer.value.get("required_permission"):
        return f"{message}; it needs the permission {permission}"
    return message
