"""A call without a service, for unit tests of what reads one."""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeVar
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


class FakeCall:
    """One request as a test says it (:class:`greatseal.api.http.Call`). It has no route, and its body is ``content``."""

    def __init__(
        self,
        method: str = "GET",
        url: str = "https://issuer.example/resource",
        *,
        headers: Iterable[tuple[str, str]] = (),
        content: bytes = b"",
        remote: str = "192.0.2.1",
    ) -> None:
        self.method = method
        self.url = url
        self.headers = CIMultiDict(headers)
        self.content = content
        self.remote = remote
        self.connection = FakeConnection()
        self.path: Mapping[str, str] = {}
        self.query = Parameters.parse(urlsplit(url).query.encode())

    @property
    def has_body(self) -> bool:
        return bool(self.content)

    @property
    def route(self) -> Route:
        raise LookupError("a FakeCall is on no route")

    @property
    def caller(self) -> Caller:
        raise LookupError("nobody was authenticated")

    @property
    def http(self) -> NoReturn:
        raise LookupError("a FakeCall came over no wire")

    def header_values(self, name: str) -> tuple[str, ...]:
        return tuple(self.headers.getall(name, ()))

    def caller_as(self, kind: type[C]) -> C:
        raise LookupError(f"nobody was authenticated, let alone a {kind.__name__}")

    async def raw(self) -> bytes:
        return self.content

    async def body(self, kind: type[T]) -> T:
        return msgspec.json.decode(self.content, type=kind)

    def replace_body(self, content: bytes) -> None:
        self.content = content
