"""Reading a request body: bounded in size, however it is declared or compressed, and in time."""

from collections.abc import Collection

from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from greatseal.api.problems import BadRequest, PayloadTooLarge, RequestTimeout, UnsupportedMediaType


class BodyTimeout(Exception):
    """Set on a payload whose sender was too slow."""


def is_large(request: web.BaseRequest, limit: int) -> bool:
    """Whether the declared length is over ``limit``."""
    length = request.content_length
    return length is not None and length > limit


def media_type(request: web.BaseRequest) -> str:
    """The Content-Type in lower case without parameters; empty when there is none."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


async def read_body(request: web.Request, limit: int, content_types: Collection[str]) -> bytes:
    """The body, inflated. Raises UnsupportedMediaType, PayloadTooLarge, RequestTimeout, or BadRequest where its framing is broken."""
    if not request.body_exists:
        return b""
    fits = not content_types or media_type(request) in content_types
    if not fits and request.content_length:
        raise _unsupported(content_types)
    complete = request.content.is_eof()
    if not complete and is_large(request, limit):
        raise PayloadTooLarge(f"the body is over {limit} bytes")
    try:
        body = request.content.read_nowait() if complete else await _read(request, limit)
        if len(body) > limit:
            raise PayloadTooLarge(f"the body is over {limit} bytes")
    except BodyTimeout:
        raise RequestTimeout("the body did not arrive in time") from None
    except RequestPayloadError as error:
        raise BadRequest("the body ends early, or its chunks or its Content-Encoding are broken", cause=type(error).__name__) from None
    except ConnectionError:
        raise BadRequest("the connection ended inside the body") from None
    if body and not fits:
        raise _unsupported(content_types)
    return body


async def _read(request: web.Request, limit: int) -> bytes:
    payload = request.content
    if not payload.is_eof() and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = b""
    while True:
        chunk = payload.read_nowait(-1) if payload.is_eof() else await payload.readany()
        body += chunk
        if len(body) > limit:
            raise PayloadTooLarge(f"the body is over {limit} bytes")
        if not chunk or payload.at_eof():
            return body


def _unsupported(content_types: Collection[str]) -> UnsupportedMediaType:
    expected = " or ".join(sorted(content_types))
    return UnsupportedMediaType(f"the Content-Type must be {expected}", headers={"Accept": ", ".join(sorted(content_types))})
