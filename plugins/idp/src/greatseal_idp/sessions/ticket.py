"""Who may change an expired password, kept in a cookie that lives for five minutes."""

from greatseal.api.http import Call
from greatseal.api.identity import ExpiredTicket
from greatseal.host import Host
from greatseal.http.cookies import clear_cookie, cookie_of, set_cookie

NAME = "greatseal_change"
SECONDS = 300
KIND = "ct"
"""The kind of the handles in the cookie."""


class Tickets:
    """Sealed: nobody but this service can make one, and nobody can read it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._secure = host.issuer.startswith("https:")

    async def set(self, ticket: ExpiredTicket) -> tuple[str, str]:
        """The header that gives it to the browser."""
        value = await self._host.envelopes.seal(KIND, ticket, seconds=SECONDS)
        return set_cookie(NAME, value, max_age=SECONDS, secure=self._secure)

    async def of(self, call: Call) -> ExpiredTicket | None:
        """The ticket that the call brings; None when there is none, it is too old, or not ours."""
        value = cookie_of(call.headers.get("Cookie", ""), NAME, secure=self._secure)
        return None if value is None else await self._host.envelopes.open(KIND, value, ExpiredTicket)

    def cleared(self, call: Call) -> tuple[tuple[str, str], ...]:
        """The header that takes it away, where the call brought one."""
        brought = cookie_of(call.headers.get("Cookie", ""), NAME, secure=self._secure) is not None
        return (clear_cookie(NAME, secure=self._secure),) if brought else ()
