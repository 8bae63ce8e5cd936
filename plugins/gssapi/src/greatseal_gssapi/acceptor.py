"""The acceptor (service NEGOTIATE): Negotiate in HTTP (RFC 4559) over SPNEGO (RFC 4178)."""

import binascii
import weakref
from base64 import b64encode
from collections.abc import Sequence

from greatseal.api.http import Call
from greatseal.api.identity import Continue, Headers
from greatseal.api.kerberos import Absent, Accepted, NegotiateRefused, NotConfigured, Ready, Unusable
from greatseal.api.problems import PayloadTooLarge, Unavailable
from greatseal.host import Host
from greatseal.principals import parse
from greatseal_gssapi.binding import end_point
from greatseal_gssapi.credential import AcceptorCredential
from greatseal_gssapi.exchange import Leg, accept
from greatseal_gssapi.settings import GssapiSettings

POOL = "gssapi"
HALF_OPEN_SECONDS = 60.0
"""How long the next leg of an exchange may take."""
MOST_HALF_OPEN = 1000
"""Exchanges of several legs at a time, on all connections: hardly any client needs one."""
ANSWER = 0xA1
"""The first byte of a token that goes on with an exchange (RFC 4178 s4.2: NegTokenResp); every other begins one."""
REFUSED = "the Kerberos token does not authenticate"


class HalfOpen:
    """An exchange that waits for its next leg, kept alive by its connection alone."""

    __slots__ = ("__weakref__", "context", "until")

    def __init__(self, context: object, until: float) -> None:
        self.context = context
        self.until = until


class Acceptor:
    """See :class:`greatseal.api.kerberos.Negotiator`. Without a credential nothing is configured."""

    def __init__(self, host: Host, settings: GssapiSettings, credential: AcceptorCredential | None) -> None:
        self._host = host
        self._longest = settings.max_token_bytes
        self._credential = credential
        self._half_open: weakref.WeakSet[HalfOpen] = weakref.WeakSet()
        self._legs = host.metrics.counter("greatseal_gssapi_legs_total", "Legs of Negotiate exchanges.", ("outcome",))

    @property
    def state(self) -> Ready | NotConfigured | Unusable:
        if self._credential is None:
            return NotConfigured()
        held = self._credential.get()
        return held if isinstance(held, Unusable) else Ready()

    async def accept(self, call: Call) -> Accepted | Continue | Absent:
        values = call.header_values("Authorization")
        if not any(_scheme(value) == "negotiate" for value in values):
            return Absent()
        if isinstance(state := self.state, NotConfigured | Unusable):
            cause = state.reason if isinstance(state, Unusable) else "[gssapi] is not configured"
            raise Unavailable("Kerberos tickets cannot be accepted now", cause=cause)
        try:
            leg = await self._leg(call, self._token(values))
            return self._outcome(call, leg)
        except ValueError as error:
            self._legs.add(1, "refused")
            self._host.log.info("a Kerberos token was refused", reason=str(error), address=call.remote)
            raise NegotiateRefused(REFUSED, cause=str(error)) from None

    def _token(self, values: Sequence[str]) -> bytes:
        if len(values) > 1:
            raise ValueError("there are several Authorization headers")
        text = values[0].partition(" ")[2].strip()
        try:
            token = binascii.a2b_base64(text, strict_mode=True)
        except ValueError:  # binascii.Error, and what is not ASCII
            raise ValueError("the token is no base64") from None
        if len(token) > self._longest:
            raise PayloadTooLarge(f"a Kerberos token has at most {self._longest} bytes")
        if not token:  # the library would begin an exchange of its own
            raise ValueError("the token is empty")
        return token

    async def _leg(self, call: Call, token: bytes) -> Leg:
        waiting: HalfOpen | None = call.connection.state.pop(POOL, None)
        if waiting is not None:
            self._half_open.discard(waiting)
        context = None
        if token[0] == ANSWER:
            if waiting is None or self._host.clock.monotonic() >= waiting.until:
                raise ValueError("the token goes on with an exchange that does not wait on this connection")
            context = waiting.context
        certificate = None if call.connection.trusted_proxy else call.connection.server_certificate
        binding = None if certificate is None else end_point(certificate)
        return await self._host.blocking.run(POOL, self._take, token, binding, context)

    def _take(self, token: bytes, binding: bytes | None, context: object) -> Leg:
        held = self._credential.get() if self._credential else None
        if held is None or isinstance(held, Unusable):
            raise Unavailable("Kerberos tickets cannot be accepted now", cause=held.reason if held else "")
        leg = accept(held, token, binding, context)
        # The flag of the exchange tells it only where the client asked to be anonymous; by PKINIT (RFC 8062) its ticket is.
        if leg.principal is not None and parse(leg.principal).is_anonymous:  # ValueError for a name that no text of ours can say
            raise ValueError("the ticket is anonymous")
        return leg

    def _outcome(self, call: Call, leg: Leg) -> Accepted | Continue:
        if leg.principal is not None:
            self._legs.add(1, "accepted")
            return Accepted(principal=leg.principal, indicators=leg.indicators, headers=_answer(leg.token))
        self._legs.add(1, "continued")
        if call.connection.trusted_proxy:  # its connection carries the calls of many: the client has to begin with Kerberos itself
            return Continue(headers=_answer(b""))
        now = self._host.clock.monotonic()
        if len(self._half_open) >= MOST_HALF_OPEN:
            self._forget(now)
        if len(self._half_open) >= MOST_HALF_OPEN:
            raise Unavailable("too many exchanges wait for their next token; try again", cause=f"{MOST_HALF_OPEN} half-open exchanges")
        waiting = HalfOpen(leg.context, now + HALF_OPEN_SECONDS)
        self._half_open.add(waiting)
        call.connection.state[POOL] = waiting
        return Continue(headers=_answer(leg.token))

    def _forget(self, now: float) -> None:
        """Let go of exchanges that waited too long, though their connections are there."""
        for one in [one for one in self._half_open if now >= one.until]:
            one.context = None
            self._half_open.discard(one)


def _scheme(value: str) -> str:
    return value.partition(" ")[0].lower()


def _answer(token: bytes) -> Headers:
    return (("WWW-Authenticate", f"Negotiate {b64encode(token).decode()}".rstrip()),)
