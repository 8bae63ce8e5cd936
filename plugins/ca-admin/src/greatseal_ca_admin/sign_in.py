"""/admin/session: an operator signs in with a Kerberos ticket or the certificate of the connection, looks who they are, and signs out."""

from greatseal.api.http import OPERATOR_ROLES, Call, Handler, Reply, Route, operator_route
from greatseal.api.moments import seconds
from greatseal.api.problems import Unauthenticated
from greatseal.api.store import Refused, Tx
from greatseal.host import Host
from greatseal_ca_admin.admission import Admission, Began, refused
from greatseal_ca_admin.operators import by_fingerprint, fingerprint_of
from greatseal_ca_admin.proofs import Proofs
from greatseal_ca_admin.scheme import SESSION, SignedIn
from greatseal_ca_admin.sessions import Proof, Sessions, end_session
from greatseal_ca_admin.tickets import TicketSignIn

PROVES = Handler("there is no session yet: a Kerberos ticket or the certificate of the connection proves the operator")
ASKED = {"WWW-Authenticate": "Negotiate, Bearer"}
_REFUSED = "no active operator has this certificate, or it is not valid now"


class SignIn:
    """The routes of the session."""

    def __init__(self, host: Host, sessions: Sessions, admission: Admission, proofs: Proofs, tickets: TicketSignIn) -> None:
        self._host = host
        self._sessions = sessions
        self._admission = admission
        self._proofs = proofs
        self._tickets = tickets

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route(
                "POST", SESSION, self.begin, "acme-admin", PROVES, "admin", summary="Sign in with a Kerberos ticket or a client certificate"
            ),
            operator_route("GET", SESSION, self.show, OPERATOR_ROLES, "Who is signed in"),
            operator_route("DELETE", SESSION, self.end, OPERATOR_ROLES, "Sign out"),
        ]

    async def begin(self, call: Call) -> Reply:
        """Whatever is wrong with ticket or certificate, a stranger hears the same. A ticket is sent on purpose, so it counts first."""
        self._admission.count(call)
        if (reply := await self._tickets.begin(call)) is not None:
            return reply
        certificate = call.connection.certificate
        if certificate is None and self._tickets.offered:
            raise Unauthenticated(
                "sign in with a Kerberos ticket, or over TLS with a client certificate that this listener trusts", headers=ASKED
            )
        if certificate is None:
            raise refused("no certificate was shown; an operator signs in over TLS with a client certificate that this listener trusts")
        fault = await self._proofs.of_certificate(certificate)
        began = await self._host.db.write(self._begin, certificate, fault)
        return self._admission.reply(began)

    async def show(self, call: Call) -> Reply:
        caller = call.caller_as(SignedIn)
        expires_at = seconds(self._sessions.expires_at(max(caller.used_at, self._host.clock.now())))
        return Reply.json({"name": caller.subject, "role": caller.role, "ca_id": caller.ca_id, "expires_at": expires_at})

    async def end(self, call: Call) -> Reply:
        caller = call.caller_as(SignedIn)
        await self._host.db.write(end_session, caller.digest, caller.subject)
        return Reply.empty()

    def _begin(self, tx: Tx, certificate: bytes, fault: str | None) -> Began | Refused:
        fingerprint = fingerprint_of(certificate)
        shown, proof = f"certificate {fingerprint}", Proof(certificate=certificate)
        return self._admission.admit(tx, by_fingerprint(tx, fingerprint), proof, fault, shown=shown, refusal=_REFUSED)
