"""Who may change an expired password, kept in a cookie that lives for five minutes (ruling R83)."""

import msgspec

from greatseal.api.http import Call
from greatseal.api.identity import ExpiredTicket
from greatseal.host import Host
from greatseal.http.cookies import clear_cookie, cookie_of, set_cookie
from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal_idp.sealing import Envelopes

NAME = "greatseal_change"
SECONDS = 300
KIND = "ct"
"""The kind of the handles in the cookie."""


class _Sealed(msgspec.Struct, frozen=True, kw_only=True):
    until: int
    ticket: ExpiredTicket


class Tickets:
    """Sealed: nobody but this service can make one, and nobody can read it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._envelopes = Envelopes(host, "expired password ticket")
        self._secure = host.issuer.startswith("https:")

    async def set(self, ticket: ExpiredTicket) -> tuple[str, str]:
        """The header that gives it to the browser."""
        content = msgspec.json.encode(_Sealed(until=self._host.clock.now() + SECONDS * 1_000_000, ticket=ticket))
        value = f"{KIND}_{self._host.node_id}_{b64url_encode(await self._envelopes.seal(content))}"
        return set_cookie(NAME, value, max_age=SECONDS, secure=self._secure)

    async def of(self, call: Call) -> ExpiredTicket | None:
        """The ticket that the call brings; None when there is none, it is too old, or not ours."""
        value = cookie_of(call.headers.get("Cookie", ""), NAME, secure=self._secure)
        node = None if value is None else self._host.handles.node_of(value, KIND)
        if value is None or node is None:
            return None
        try:
            content = await self._envelopes.open(b64url_decode(value[len(KIND) + len(node) + 2 :]), node=node)
        except ValueError:
            return None
        if content is None:
            return None
        sealed = msgspec.json.decode(content, type=_Sealed)
        return sealed.ticket if 0 < sealed.until - self._host.clock.now() <= SECONDS * 1_000_000 else None

    def cleared(self, call: Call) -> tuple[tuple[str, str], ...]:
        """The header that takes it away, where the call brought one."""
        brought = cookie_of(call.headers.get("Cookie", ""), NAME, secure=self._secure) is not None
        return (clear_cookie(NAME, secure=self._secure),) if brought else ()
