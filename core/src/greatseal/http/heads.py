"""Which request heads are refused (RFC 9112), and how: what the parser does not understand, and what it lets pass."""

import re
from functools import lru_cache

from aiohttp import HttpVersion10, HttpVersion11, hdrs
from aiohttp.http import HttpProcessingError, RawRequestMessage
from aiohttp.http_exceptions import LineTooLong

from greatseal.api.problems import BadRequest, Internal, Problem
from greatseal.http.limits import HttpLimits

# RFC 3986 s3.2: host and port; the host may be empty.
_AUTHORITY = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?")
_OTHER_VERSION = "Bad status line:\n  Invalid HTTP version:"


class HeadersTooLarge(Problem):
    """RFC 6585 s5."""

    status, error, type = 431, "headers_too_large", "malformed"


class VersionNotSupported(Problem):
    """RFC 9110 s15.6.6."""

    status, error, type = 505, "http_version_not_supported", "malformed"


class CodingNotImplemented(Problem):
    """RFC 9112 s6.1."""

    status, error, type = 501, "not_implemented", "malformed"


class HeadRefused(HttpProcessingError):
    """A request head that is not answered."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(code=problem.status, message=problem.detail)
        self.problem = problem


def fault_of(message: RawRequestMessage) -> Problem | None:
    """Why a head that could be read is not answered; None for one that may be."""
    if message.version != HttpVersion11:
        if message.version != HttpVersion10:
            return _other_version()
        if hdrs.TRANSFER_ENCODING in message.headers:
            return BadRequest("an HTTP/1.0 request has no Transfer-Encoding")  # RFC 9112 s6.1
    elif message.chunked and message.headers[hdrs.TRANSFER_ENCODING].lower() != "chunked":
        return CodingNotImplemented("the only transfer coding here is chunked")
    host = message.headers.get(hdrs.HOST)
    return None if host is None or _is_authority(host) else BadRequest("the Host header names no host")  # s3.2


def too_large(limits: HttpLimits) -> Problem:
    """The header lines together are."""
    return HeadersTooLarge(f"the request head is over {limits.head_bytes} bytes")


def head_size(message: RawRequestMessage) -> int:
    """Bytes of the header lines."""
    return sum(len(name) + len(value) + 4 for name, value in message.raw_headers)


def problem_of(error: BaseException | None, limits: HttpLimits) -> Problem:
    """The answer to bytes that are no request. What they were is not in it."""
    match error:
        case HeadRefused(problem=problem):
            return problem
        case LineTooLong(args=(_, limit, *_)) if limit == limits.line_bytes:
            return BadRequest(f"the URL is over {limits.line_bytes} bytes")
        case HttpProcessingError(message=str(text)) if isinstance(error, LineTooLong) or text.startswith("Too many headers"):
            return HeadersTooLarge(f"a header is over {limits.head_bytes} bytes, or there are more than {limits.header_count}")
        case HttpProcessingError(message=str(text)) if text.startswith(_OTHER_VERSION):
            return _other_version()
        case HttpProcessingError():
            return BadRequest("this is not an HTTP/1.1 request")
    return Internal("an unexpected fault")


def _other_version() -> Problem:
    return VersionNotSupported("the versions of HTTP here are 1.1 and 1.0")


@lru_cache(256)
def _is_authority(host: str) -> bool:
    return _AUTHORITY.fullmatch(host) is not None
