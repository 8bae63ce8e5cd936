"""Who may register a client: whoever has the registration token, and services of the own realm."""

import hmac
from hashlib import sha256
from urllib.parse import urlsplit

from greatseal.api.declarations import Secret
from greatseal.api.http import Call
from greatseal.api.identity import Login, SessionView
from greatseal.api.problems import NotFound, RateLimited
from greatseal.api.tokens import InvalidToken
from greatseal.host import Host
from greatseal.http.csrf import refuse_foreign
from greatseal.net.addresses import source_of
from greatseal.principals import principal_of

HOUR = 3600.0
GUESSES, GUESSES_WINDOW = 20, 300.0
"""Wrong tokens from one address in so many seconds; then every token of it waits."""
BY_TOKEN = "registration token"  # noqa: S105  who it was, not the token
"""The subject in the audit log of whoever had it."""


class Access:
    """The two paths of /register; either suffices."""

    def __init__(self, host: Host, login: Login, token: Secret | None, *, rate_limit: int) -> None:
        self._host = host
        self._login = login
        self._token = None if token is None else sha256(token.value.encode()).digest()
        self._rate_limit = rate_limit
        self._own = frozenset(f"{url.scheme}://{url.netloc}" for url in (urlsplit(host.issuer), urlsplit(host.base_url)))

    async def admit(self, call: Call) -> str:
        """Who registers, for the audit log. Raises NotFound, InvalidToken, ForeignOrigin, RateLimited."""
        session = await self._login.session(call)
        if session is not None and is_service(session, self._host.realm):
            refuse_foreign(
                origin=call.headers.get("Origin"),
                fetch_site=call.headers.get("Sec-Fetch-Site"),
                own_origins=self._own,
                content_type="application/json",  # the route takes no other
            )
            who = session.subject
        elif self._token is None:
            raise NotFound("there is nothing under this URL")
        else:
            self._require_token(call, self._token)
            who = BY_TOKEN
        self._count(call, "registration", self._rate_limit, HOUR)
        return who

    def _require_token(self, call: Call, expected: bytes) -> None:
        sent = bearer_of(call)
        if sent is not None and hmac.compare_digest(sha256(sent.encode()).digest(), expected):
            return
        self._count(call, "registration-token", GUESSES, GUESSES_WINDOW)
        raise InvalidToken("expected the registration token as Authorization: Bearer (RFC 7591 s3)")

    def _count(self, call: Call, bucket: str, limit: int, window: float) -> None:
        wait = self._host.limits.hit(bucket, source_of(call.remote), limit, window)
        if wait is not None:
            raise RateLimited("too many registrations from this address", headers={"Retry-After": str(wait)})


def is_service(session: SessionView, realm: str) -> bool:
    """Whether the session is of a service principal of this realm."""
    named = principal_of(session.subject)
    return named is not None and named.realm == realm and named.is_service


def bearer_of(call: Call) -> str | None:
    """The token of a header Authorization (RFC 6750 s2.1), None without one."""
    scheme, _, token = call.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.isascii() else None
