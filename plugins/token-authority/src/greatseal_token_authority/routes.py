"""POST /at/account/{id}/token: a token of this authority for whoever has a ticket. The id is a label of the caller's, and says nothing."""

import msgspec

from greatseal.api.audit import AuditEvent
from greatseal.api.directory import Directories
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.identity import Continue
from greatseal.api.kerberos import Absent, Accepted, NegotiateRefused, Negotiator, Ready
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, PayloadTooLarge, Unauthenticated, Unavailable
from greatseal.api.tokens import Tokens
from greatseal.attempts import TicketLimits
from greatseal.host import Host
from greatseal.jose.compact import b64url_encode
from greatseal.net import excerpt
from greatseal.principals import principal_of
from greatseal_token_authority.constraints import constraints, names_of

PATH = "/at/account/{id}/token"
TYPE = "JWTClaimConstraints"


class AskedAtc(msgspec.Struct, frozen=True):
    """``tkvalue`` is not looked at: what a token says is made of who asks. ``fingerprint`` and ``ca`` go into it as they are."""

    tktype: str
    tkvalue: str
    fingerprint: str
    ca: bool = False


class Asked(msgspec.Struct, frozen=True):
    """The body of the request."""

    atc: AskedAtc


class TokenEndpoint:
    """Answers are decided in the order 503, 429, 401, 403, 400."""

    def __init__(
        self, host: Host, tokens: Tokens, directories: Directories, negotiator: Negotiator | None, *, limits: TicketLimits, seconds: int
    ) -> None:
        self._host = host
        self._tokens = tokens
        self._directories = directories
        self._negotiator = negotiator
        self._limits = limits
        self._seconds = seconds

    @property
    def active(self) -> bool:
        """Whether tickets can be accepted now."""
        return self._ready() is not None

    def routes(self) -> list[Route]:
        proven = Handler("a Kerberos ticket proves the caller, and a service that cannot accept one says so first")
        return [Route("POST", PATH, self.issue, auth=proven, summary="Get an authority token for the principal of a ticket (RFC 9447).")]

    async def issue(self, call: Call) -> Reply:
        """200 with the token; 401 for the next leg of an exchange of several."""
        if (negotiator := self._ready()) is None:
            raise Unavailable("Kerberos tickets cannot be accepted now")
        try:
            found = await self._limits.accept(negotiator, call)
        except PayloadTooLarge as problem:
            raise BadRequest(problem.detail) from None
        match found:
            case Absent():
                raise Unauthenticated("this needs a Kerberos ticket", headers={"WWW-Authenticate": "Negotiate"})
            case Continue(headers=headers):
                return Reply.empty(401).with_headers(*headers)
            case Accepted(principal=principal, headers=headers):
                asked = (await call.body(Asked)).atc
                if asked.tktype != TYPE:
                    raise BadRequest(f"atc.tktype: expected {TYPE}")
                token = await self._token(principal, asked)
                return Reply.json({"token": token}).with_headers(("Cache-Control", "no-store"), *headers)

    def _ready(self) -> Negotiator | None:
        negotiator = self._negotiator
        return negotiator if negotiator is not None and isinstance(negotiator.state, Ready) else None

    async def _token(self, principal: str, asked: AskedAtc) -> str:
        """Raises DirectoryUnavailable: a token without the names of a host is none."""
        named, now = principal_of(principal), self._host.clock.now() // SECOND
        if named is None:
            raise NegotiateRefused("the token does not authenticate", cause=f"the ticket is of {principal}, which is no principal")
        host = named.host
        names = [] if host is None else names_of(host, await self._directories.managed_by(principal))
        jti = f"{self._host.node_id}/{self._host.handles.new_id()}"
        value = b64url_encode(constraints(principal, self._host.issuer, names))
        claims = {
            "iat": now,
            "exp": now + self._seconds,
            "jti": jti,
            "sub": principal,
            **({"dns": names} if names else {}),
            "atc": {"tktype": TYPE, "tkvalue": value, "fingerprint": asked.fingerprint, "ca": asked.ca},
        }
        token = await self._tokens.sign("JWT", claims)
        detail = f"jti={jti} fingerprint={excerpt(asked.fingerprint)} ca={str(asked.ca).lower()}"
        await self._host.audit_log(AuditEvent(event_type="authority_token", service="idp", sub=principal, detail=detail))
        return token
