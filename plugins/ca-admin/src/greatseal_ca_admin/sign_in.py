"""/admin/session: an operator signs in with the certificate of the connection, looks who they are, and signs out."""

from collections.abc import Sequence
from hashlib import sha256

from greatseal.api.audit import AuditEvent
from greatseal.api.http import OPERATOR_ROLES, Call, Handler, Reply, Route, operator_route
from greatseal.api.issuance import Issuance
from greatseal.api.moments import SECOND, seconds
from greatseal.api.store import Refused, Tx
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal_ca_admin import tables as t
from greatseal_ca_admin.admission import Admission, Began, refused
from greatseal_ca_admin.certificates import in_der
from greatseal_ca_admin.operators import by_fingerprint
from greatseal_ca_admin.scheme import SESSION, SignedIn
from greatseal_ca_admin.sessions import Sessions

PROVES = Handler("there is no session yet: the certificate of the connection proves the operator")
_REFUSED = "no active operator has this certificate, or it is not valid now"


class SignIn:
    """The routes of the session."""

    def __init__(self, host: Host, sessions: Sessions, admission: Admission, issuance: Issuance | None, ca_ids: Sequence[str]) -> None:
        self._host = host
        self._sessions = sessions
        self._admission = admission
        self._issuance = issuance
        self._ca_ids = ca_ids

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("POST", SESSION, self.begin, "acme-admin", PROVES, "admin", summary="Sign in with a client certificate"),
            operator_route("GET", SESSION, self.show, OPERATOR_ROLES, "Who is signed in"),
            operator_route("DELETE", SESSION, self.end, OPERATOR_ROLES, "Sign out"),
        ]

    async def begin(self, call: Call) -> Reply:
        """Whatever is wrong with the certificate, a stranger hears the same."""
        self._admission.count(call)
        certificate = call.connection.certificate
        if certificate is None:
            raise refused("no certificate was shown; an operator signs in over TLS with a client certificate that this listener trusts")
        fault = await self._fault(certificate)
        began = await self._host.db.write(self._begin, sha256(certificate).hexdigest(), fault)
        return self._admission.reply(began)

    async def show(self, call: Call) -> Reply:
        caller = call.caller_as(SignedIn)
        expires_at = seconds(self._sessions.expires_at(max(caller.used_at, self._host.clock.now())))
        return Reply.json({"name": caller.subject, "role": caller.role, "ca_id": caller.ca_id, "expires_at": expires_at})

    async def end(self, call: Call) -> Reply:
        await self._host.db.write(_end, call.caller_as(SignedIn))
        return Reply.empty()

    def _begin(self, tx: Tx, fingerprint: str, fault: str | None) -> Began | Refused:
        shown = f"certificate {fingerprint}"
        return self._admission.admit(tx, by_fingerprint(tx, fingerprint), fault, shown=shown, refusal=_REFUSED)

    async def _fault(self, der: bytes) -> str | None:
        """Why the certificate proves nobody, whoever has it. The listener looked at the issuer."""
        try:
            certificate, key = in_der(der)
        except ValueError as error:
            return f"the certificate is not accepted: {error}"
        now = self._host.clock.now()
        begin, end = (int(moment.timestamp()) * SECOND for moment in (certificate.not_valid_before_utc, certificate.not_valid_after_utc))
        if not begin <= now < end + SECOND:
            return "the certificate is not valid at this time"
        if await self._host.blocked_keys.find(spki_sha256(key)):
            return "the key of the certificate is blocked"
        if self._issuance is not None and await self._host.db.read(self._is_revoked, certificate.serial_number, der):
            return "the certificate was revoked"
        return None

    def _is_revoked(self, tx: Tx, number: int, der: bytes) -> bool:
        """Of a certificate of this service."""
        assert self._issuance is not None
        serial = number.to_bytes((number.bit_length() + 7) // 8)
        found = (self._issuance.find(tx, ca_id, serial) for ca_id in self._ca_ids)
        return any(one is not None and one.der == der and one.status != "issued" for one in found)


def _end(tx: Tx, caller: SignedIn) -> None:
    if tx.remove(t.SESSION, caller.digest):
        tx.audit(AuditEvent(event_type="admin.logout", service="ca", sub=caller.subject))
