"""Who may change an expired password, kept in a cookie that lives for five minutes (ruling R83)."""

import msgspec

from greatseal.api.http import Call
from greatseal.api.identity import ExpiredTicket
from greatseal.api.problems import Problem
from greatseal.host import Host
from greatseal.http.cookies import clear_cookie, cookie_of, set_cookie
from greatseal.jose.compact import b64url_decode, b64url_encode

NAME = "greatseal_change"
SECONDS = 300


class _Sealed(msgspec.Struct, frozen=True, kw_only=True):
    until: int
    ticket: ExpiredTicket


class Tickets:
    """Sealed under the cluster key: nobody but this service can make one, and nobody can read it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._secure = host.issuer.startswith("https:")

    def set(self, ticket: ExpiredTicket) -> tuple[str, str]:
        """The header that gives it to the browser."""
        content = msgspec.json.encode(_Sealed(until=self._host.clock.now() + SECONDS * 1_000_000, ticket=ticket))
        sealed = self._host.keys.seal(content, table="idp_ticket", row="", field="cookie")
        return set_cookie(NAME, b64url_encode(sealed), max_age=SECONDS, secure=self._secure)

    def of(self, call: Call) -> ExpiredTicket | None:
        """The ticket that the call brings; None when there is none, it is too old, or not ours."""
        value = cookie_of(call.headers.get("Cookie", ""), NAME, secure=self._secure)
        if value is None:
            return None
        try:
            content = self._host.keys.open(b64url_decode(value), table="idp_ticket", row="", field="cookie")
        except (ValueError, Problem):
            return None
        sealed = msgspec.json.decode(content, type=_Sealed)
        return sealed.ticket if self._host.clock.now() < sealed.until else None

    def cleared(self, call: Call) -> tuple[tuple[str, str], ...]:
        """The header that takes it away, where the call brought one."""
        brought = cookie_of(call.headers.get("Cookie", ""), NAME, secure=self._secure) is not None
        return (clear_cookie(NAME, secure=self._secure),) if brought else ()
