"""POST /admin/session with a Kerberos ticket in place of a certificate (RFC 4559)."""

from greatseal.api.http import Call, Reply
from greatseal.api.identity import Continue
from greatseal.api.kerberos import Absent, Accepted, NegotiateRefused, Negotiator, NotConfigured
from greatseal.api.problems import BadRequest, PayloadTooLarge
from greatseal.api.store import Refused, Tx
from greatseal.host import Host
from greatseal_ca_admin.admission import Admission, Began
from greatseal_ca_admin.operators import by_principal
from greatseal_ca_admin.sessions import Proof

REFUSED = "no active operator has this Kerberos principal, or the ticket does not authenticate"


class TicketSignIn:
    """Where tickets can be accepted."""

    def __init__(self, host: Host, admission: Admission, negotiator: Negotiator | None) -> None:
        self._host = host
        self._admission = admission
        self._negotiator = negotiator

    @property
    def offered(self) -> bool:
        """Whether `[gssapi]` is configured."""
        return self._negotiator is not None and not isinstance(self._negotiator.state, NotConfigured)

    async def begin(self, call: Call) -> Reply | None:
        """The session of whoever holds the ticket, or the next leg; None without a ticket. Raises Unauthenticated, Unavailable."""
        if self._negotiator is None or not self.offered:
            return None
        try:
            found = await self._negotiator.accept(call)
        except PayloadTooLarge as problem:
            raise BadRequest(problem.detail) from None
        except NegotiateRefused as refused:
            why = refused.cause or refused.detail or "no reason was given"
            return self._admission.reply(await self._host.db.write(self._refuse, f"a Kerberos ticket: {why}"))
        match found:
            case Absent():
                return None
            case Continue(headers=headers):
                return Reply.empty(401).with_headers(*headers)
            case Accepted(principal=principal, headers=headers):
                began = await self._host.db.write(self._begin, principal)
                return self._admission.reply(began).with_headers(*headers)

    def _begin(self, tx: Tx, principal: str) -> Began | Refused:
        shown, proof = f"Kerberos principal {principal}", Proof(gssapi_principal=principal)
        return self._admission.admit(tx, by_principal(tx, principal), proof, None, shown=shown, refusal=REFUSED)

    def _refuse(self, tx: Tx, shown: str) -> Began | Refused:
        return self._admission.admit(tx, None, Proof(), None, shown=shown, refusal=REFUSED)
