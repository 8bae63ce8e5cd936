"""A call without a service, for unit tests of what reads one."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from multidict import CIMultiDict

from greatseal.api.http import Caller, Parameters, Route

__all__ = ["FakeCall", "FakeConnection"]

T = TypeVar("T")
C = TypeVar("C", bound=Caller)


class FakeConnection:
    """A TCP connection; a test sets what it carries."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.trusted_proxy = False
        self.certificate: bytes | None = None
        self.server_certificate: bytes | None = None


class FakeCall:
    """One request as a test says it (:class:`greatseal.api.http.Call`). Its body is ``content``; a test sets the ``caller``.

    ``promised`` are the headers that go out with whatever reply follows.
    """

    def __init__(
        self,
        method: str = "GET",
        url: str = "https://issuer.example/resource",
        *,
        headers: Iterable[tuple[str, str]] = (),
        content: bytes = b"",
        remote: str = "192.0.2.1",
        route: Route | None = None,
    ) -> None:
        self.method = method
        self.url = url
        self.headers = CIMultiDict(headers)
        self.content = content
        self.remote = remote
        self.connection = FakeConnection()
        self.path: Mapping[str, str] = {}
        self.promised: tuple[tuple[str, str], ...] = ()
        self.query = Parameters.parse(urlsplit(url).query.encode())
        self._route = route
        self._caller: Caller | None = None

    @property
    def has_body(self) -> bool:
        return bool(self.content)

    @property
    def route(self) -> Route:
        if self._route is None:
            raise LookupError("the FakeCall was given no route")
        return self._route

    @property
    def caller(self) -> Caller:
        if self._caller is None:
            raise LookupError("nobody was authenticated")
        return self._caller

    @caller.setter
    def caller(self, caller: Caller) -> None:
        self._caller = caller

    def header_values(self, name: str) -> tuple[str, ...]:
        return tuple(self.headers.getall(name, ()))

    def caller_as(self, kind: type[C]) -> C:
        caller = self.caller
        if not isinstance(caller, kind):
            raise TypeError(f"the caller is a {type(caller).__name__}, no {kind.__name__}")
        return caller

    async def raw(self) -> bytes:
        return self.content

    async def body(self, kind: type[T]) -> T:
        return msgspec.json.decode(self.content, type=kind)

    def also(self, *headers: tuple[str, str]) -> None:
        self.promised = (*self.promised, *headers)

    def replace_body(self, content: bytes) -> None:
        self.content = content
