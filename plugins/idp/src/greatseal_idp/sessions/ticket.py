"""What one page of a sign-in tells the next: who may change an expired password, and who may get a second factor."""

from typing import Generic, TypeVar

import msgspec

from greatseal.api.http import Call
from greatseal.api.identity import Enrolling, ExpiredTicket
from greatseal.host import Host
from greatseal.http.cookies import clear_cookie, cookie_of, set_cookie

S = TypeVar("S", bound=msgspec.Struct)


class Tickets(Generic[S]):
    """In a cookie, sealed: nobody but this service can make one, and nobody can read it. ``kind`` is that of the handles in it."""

    def __init__(self, host: Host, type: type[S], *, name: str, kind: str, seconds: int) -> None:
        self._host = host
        self._secure = host.issuer.startswith("https:")
        self._type = type
        self._name = name
        self._kind = kind
        self._seconds = seconds

    async def set(self, ticket: S) -> tuple[str, str]:
        """The header that gives it to the browser."""
        value = await self._host.envelopes.seal(self._kind, ticket, seconds=self._seconds)
        return set_cookie(self._name, value, max_age=self._seconds, secure=self._secure)

    async def of(self, call: Call) -> S | None:
        """The ticket that the call brings; None when there is none, it is too old, or not ours."""
        value = cookie_of(call.headers.get("Cookie", ""), self._name, secure=self._secure)
        return None if value is None else await self._host.envelopes.open(self._kind, value, self._type)

    def cleared(self, call: Call) -> tuple[tuple[str, str], ...]:
        """The header that takes it away, where the call brought one."""
        brought = cookie_of(call.headers.get("Cookie", ""), self._name, secure=self._secure) is not None
        return (clear_cookie(self._name, secure=self._secure),) if brought else ()


def change_tickets(host: Host) -> Tickets[ExpiredTicket]:
    """For the page of an expired password: five minutes."""
    return Tickets(host, ExpiredTicket, name="greatseal_change", kind="ct", seconds=300)


def enrol_tickets(host: Host) -> Tickets[Enrolling]:
    """For the page of a first second factor: a quarter of an hour, in which an app is installed."""
    return Tickets(host, Enrolling, name="greatseal_enrol", kind="et", seconds=900)
