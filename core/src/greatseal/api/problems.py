"""Refusals: values with two audiences, a public text for the caller and a private cause for the operator."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from greatseal.api.messages import Message, Text

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Problem(Exception):
    """A refusal that a caller may see.

    ``detail`` is public: it says what was found, what was expected and what to do. A Message is for people, and pages translate it; a
    ``str`` is for developers. ``cause`` is for the log alone.
    ``headers`` are added to the reply, ``members`` to its body. ``identifier`` and ``subproblems`` are those of RFC 8555 s6.7.1.
    The class decides status and code; the style of the route decides the shape (:mod:`greatseal.http.render`).
    """

    status: ClassVar[int] = 500
    error: ClassVar[str] = "server_error"
    """The code in an OAuth or api body."""
    type: ClassVar[str] = "serverInternal"
    """The token after ``urn:ietf:params:acme:error:`` in a problem document."""

    def __init__(
        self,
        detail: Text = "",
        *,
        cause: str = "",
        headers: Mapping[str, str] = _NOTHING,
        members: Mapping[str, Any] = _NOTHING,
        identifier: Mapping[str, str] | None = None,
        subproblems: "Sequence[Problem]" = (),
    ) -> None:
        self.message = detail
        self.detail = str(detail)
        super().__init__(self.detail)
        self.cause = cause
        self.headers = dict(headers)
        self.members = dict(members)
        self.identifier = identifier
        self.subproblems = tuple(subproblems)


class BadRequest(Problem):
    """The request cannot be understood or breaks a rule."""

    status, error, type = 400, "invalid_request", "malformed"


class Unauthenticated(Problem):
    """Nobody was proven to be the caller."""

    status, error, type = 401, "unauthenticated", "unauthorized"


class Forbidden(Problem):
    """The caller is known and may not do this."""

    status, error, type = 403, "forbidden", "unauthorized"


class NotFound(Problem):
    """There is no such thing, or the caller may not know that there is."""

    status, error, type = 404, "not_found", "malformed"


class MethodNotAllowed(Problem):
    """The path exists, the method does not; ``headers`` carries ``Allow``."""

    status, error, type = 405, "method_not_allowed", "malformed"


class RequestTimeout(Problem):
    """The request did not arrive in time."""

    status, error, type = 408, "request_timeout", "malformed"


class Conflict(Problem):
    """The state changed, or the thing exists."""

    status, error, type = 409, "conflict", "malformed"


class PayloadTooLarge(Problem):
    """The body is over the limit."""

    status, error, type = 413, "payload_too_large", "malformed"


class UnsupportedMediaType(Problem):
    """The Content-Type is not one that the route reads."""

    status, error, type = 415, "unsupported_media_type", "malformed"


class RateLimited(Problem):
    """Too many in the window; ``headers`` carries ``Retry-After``."""

    status, error, type = 429, "rate_limited", "rateLimited"


class Internal(Problem):
    """A fault of ours; the detail never tells more than an incident id."""

    status, error, type = 500, "server_error", "serverInternal"


class Unavailable(Problem):
    """A part that is needed cannot be reached now; trying again is right."""

    status, error, type = 503, "unavailable", "serverInternal"

    def __init__(self, detail: Text = "", *, cause: str = "", retry_after: int = 5, headers: Mapping[str, str] = _NOTHING) -> None:
        super().__init__(detail, cause=cause, headers={"Retry-After": str(retry_after), **headers})


class Uncertain(Unavailable):
    """The database went away while it committed: what was asked for may have been done."""


class Outbound(Problem):
    """A server that we asked did not answer as it should. The detail names it: fit for a caller who chose it, as in ACME."""

    def as_outage(self) -> Unavailable:
        """What everybody else sees of it."""
        return Unavailable(BACKEND_DOWN, cause=f"{type(self).__name__}: {self.detail}")


class IncorrectResponse(Outbound):
    """The answer of the server is not the one expected."""

    status, error, type = 400, "incorrect_response", "incorrectResponse"


class Unreachable(Outbound):
    """The server could not be reached, or not in time."""

    status, error, type = 400, "connection", "connection"


class DnsFailure(Outbound):
    """A DNS question got no usable answer."""

    status, error, type = 400, "dns", "dns"


class TlsFailure(Outbound):
    """The TLS handshake with the server failed."""

    status, error, type = 400, "tls", "tls"


BACKEND_DOWN = Message("a service that is needed for this cannot be reached now; try again soon")


class StartProblem(Exception):
    """The service cannot start. Each message is one line: what is wrong, where, and the cure. The exit code is 2."""

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages
