"""GET /acme/eab: the credentials of whoever a Kerberos ticket, or a trusted proxy, proves."""

from greatseal.api.declarations import CheckResult
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.identity import Continue
from greatseal.api.kerberos import Absent, Accepted, NegotiateRefused, Negotiator, NotConfigured, Ready, Unusable
from greatseal.api.problems import BadRequest, Forbidden, NotFound, PayloadTooLarge, Unauthenticated, Unavailable
from greatseal.api.services import NEGOTIATE
from greatseal.attempts import TicketLimits
from greatseal.host import Host
from greatseal.principals import parse
from greatseal_eab.keys import EabKeys
from greatseal_eab.settings import EabProxy

PATH = "/acme/eab"
ALG = "HS256"
"""What the derived key is for."""
CHALLENGE = {"WWW-Authenticate": "Negotiate"}
_PROVES = Handler("a Kerberos ticket proves the caller, or the header of a trusted proxy")


class EabOfPrincipals:
    """Answers are decided in the order 404, 503, 429, 401, 403, 409. ``header`` is what a trusted proxy names the principal in."""

    def __init__(self, host: Host, keys: EabKeys, negotiator: Negotiator | None, header: str | None, limits: TicketLimits) -> None:
        self._host = host
        self._keys = keys
        self._negotiator = negotiator
        self._header = header
        self._limits = limits

    def routes(self) -> list[Route]:
        return [Route("GET", PATH, self.obtain, "acme", _PROVES, summary="EAB credentials of the principal of a Kerberos ticket")]

    async def obtain(self, call: Call) -> Reply:
        """200 with the principal, and its credentials where they are derived; 401 for the next leg of an exchange of several."""
        found = await self._asker(call)
        if isinstance(found, Continue):
            return Reply.empty(401).with_headers(*found.headers)
        shown = {"principal": found}
        if self._keys.derives:
            made = await self._host.db.write(self._keys.obtain, self._keys.principal(found))
            shown |= {"kid": made.kid, "hmac_key": made.hmac_key, "alg": ALG}
        return Reply.json(shown, headers={"Cache-Control": "no-store"})

    async def _asker(self, call: Call) -> str | Continue:
        """The principal. Raises what refuses it."""
        if self._header is not None:
            return self._named(call, self._header)
        if self._negotiator is None or isinstance(self._negotiator.state, NotConfigured):
            raise NotFound("there is nothing under this URL")
        if isinstance(self._negotiator.state, Unusable):
            raise Unavailable("Kerberos tickets cannot be accepted now")
        try:
            found = await self._limits.accept(self._negotiator, call)
        except PayloadTooLarge as problem:
            raise BadRequest(problem.detail) from None
        except NegotiateRefused as refused:
            raise Forbidden("the Kerberos ticket does not authenticate", cause=refused.cause or refused.detail) from None
        match found:
            case Accepted(principal=principal, headers=headers):
                call.also(*headers)
                return _checked(principal)
            case Absent():
                raise Unauthenticated("this needs a Kerberos ticket", headers=CHALLENGE)
            case Continue():
                return found

    def _named(self, call: Call, header: str) -> str:
        """Whom the proxy saw. What anybody else sends in the header counts as nothing."""
        if not call.connection.trusted_proxy:
            cause = f"{call.remote} is no proxy of [server] trusted_proxies, and sent {header}" if call.header_values(header) else ""
            raise Unauthenticated(
                "this needs a Kerberos ticket, which the proxy in front of the service takes", cause=cause, headers=CHALLENGE
            )
        match call.header_values(header):
            case ():
                raise Unauthenticated("this needs a Kerberos ticket", headers=CHALLENGE)
            case (principal,):
                self._limits.count(_checked(principal))
                return principal
            case several:
                raise Forbidden("the proxy names nobody alone", cause=f"{header} came {len(several)} times; the proxy has to replace it")


def _checked(principal: str) -> str:
    try:
        found = parse(principal)
    except ValueError as error:
        raise Forbidden("no principal was proven", cause=f"the principal {error}; expected name@REALM") from None
    if found.is_anonymous:
        raise Forbidden("no principal was proven", cause=f"{principal} is nobody: the ticket that the proxy took is anonymous")
    return principal


def health(host: Host, *, derives: bool) -> CheckResult:
    """Who gets credentials at /acme/eab."""
    given = "their credentials" if derives else "their names alone, for want of [server] eab_master_secret"
    if (header := host.settings(EabProxy).identity_header) is not None:
        return CheckResult(ok=True, detail=f"{PATH} gives principals that a trusted proxy names in {header} {given}")
    negotiator = host.optional_service(NEGOTIATE)
    match NotConfigured() if negotiator is None else negotiator.state:
        case Ready():
            return CheckResult(ok=True, detail=f"{PATH} gives holders of Kerberos tickets {given}")
        case Unusable(reason=reason):
            return CheckResult(ok=False, detail=f"{PATH} answers 503: no Kerberos ticket can be accepted", cause=reason)
        case NotConfigured():
            return CheckResult(ok=True, detail=f"{PATH} is off: neither [gssapi] nor [eab] identity_header is there")
