"""/admin/session: an operator signs in with the certificate of the connection, looks who they are, and signs out."""

from collections.abc import Sequence
from hashlib import sha256

import msgspec
from cryptography import x509

from greatseal.api.audit import AuditEvent
from greatseal.api.http import OPERATOR_ROLES, Call, Handler, Operator, Reply, Route
from greatseal.api.issuance import Issuance
from greatseal.api.moments import SECOND, seconds
from greatseal.api.problems import Problem, RateLimited, Unauthenticated
from greatseal.api.store import Refused, Tx
from greatseal.host import Host
from greatseal.jose.acceptance import accept_public_key, spki_sha256
from greatseal.net.addresses import source_of
from greatseal_ca_admin import tables as t
from greatseal_ca_admin.lockout import Lockout
from greatseal_ca_admin.operators import by_fingerprint, load
from greatseal_ca_admin.scheme import SESSION, SignedIn
from greatseal_ca_admin.sessions import Locked, Sessions
from greatseal_ca_admin.settings import AdminSettings

WINDOW = 300.0
PROVES = Handler("there is no session yet: the certificate of the connection proves the operator")
_REFUSED = "no active operator has this certificate, or it is not valid now"


class Began(msgspec.Struct, frozen=True):
    """A session that was made; ``used_at`` is microseconds."""

    token: str
    role: str
    used_at: int


class SignIn:
    """The routes of the session."""

    def __init__(self, host: Host, sessions: Sessions, lockout: Lockout, issuance: Issuance | None, ca_ids: Sequence[str]) -> None:
        self._host = host
        self._sessions = sessions
        self._lockout = lockout
        self._issuance = issuance
        self._ca_ids = ca_ids
        self._rate = host.settings(AdminSettings).auth_rate_limit

    def routes(self) -> list[Route]:
        """All of them."""
        anybody = Operator(OPERATOR_ROLES)
        return [
            Route("POST", SESSION, self.begin, "acme-admin", PROVES, "admin", summary="Sign in with a client certificate"),
            Route("GET", SESSION, self.show, "acme-admin", anybody, "admin", summary="Who is signed in"),
            Route("DELETE", SESSION, self.end, "acme-admin", anybody, "admin", summary="Sign out"),
        ]

    async def begin(self, call: Call) -> Reply:
        """Whatever is wrong with the certificate, a stranger hears the same."""
        wait = self._host.limits.hit("ca-admin", source_of(call.remote), self._rate, WINDOW)
        if wait is not None:
            raise RateLimited("too many sign-ins from this address; wait", headers={"Retry-After": str(wait)})
        certificate = call.connection.certificate
        if certificate is None:
            raise Unauthenticated(
                "no certificate was shown; an operator signs in over TLS with a client certificate that this listener trusts",
                headers={"WWW-Authenticate": "Bearer"},
            )
        fault = await self._fault(certificate)
        began = await self._host.db.write(self._begin, sha256(certificate).hexdigest(), fault)
        if isinstance(began, Refused):
            raise began.problem
        expires_at = seconds(self._sessions.expires_at(began.used_at))
        shown = {"session_token": began.token, "role": began.role, "expires_at": expires_at}
        return Reply.json(shown, headers={"X-Session-Token": began.token})

    async def show(self, call: Call) -> Reply:
        caller = call.caller_as(SignedIn)
        expires_at = seconds(self._sessions.expires_at(max(caller.used_at, self._host.clock.now())))
        return Reply.json({"name": caller.subject, "role": caller.role, "ca_id": caller.ca_id, "expires_at": expires_at})

    async def end(self, call: Call) -> Reply:
        await self._host.db.write(_end, call.caller_as(SignedIn))
        return Reply.empty()

    def _begin(self, tx: Tx, fingerprint: str, fault: str | None) -> Began | Refused:
        id = by_fingerprint(tx, fingerprint)
        operator = None if id is None else load(tx, id)
        if operator is None:
            return _refused(tx, None, f"certificate {fingerprint}: no operator has it")
        if self._lockout.is_locked(tx, operator.id):
            _refused(tx, operator.name, "the operator is locked")
            return Refused(Locked("too many sign-ins failed; wait, or ask an administrator to unlock you"))
        if fault is not None or not operator.active:
            self._lockout.failed(tx, operator.id, operator.name)
            return _refused(tx, operator.name, fault or "the operator is not active")
        self._lockout.succeeded(tx, operator.id)
        tx.audit(AuditEvent(event_type="admin.login", service="ca", sub=operator.name, detail=f"as {operator.role}, by certificate"))
        return Began(self._sessions.begin(tx, operator.id), operator.role, tx.now)

    async def _fault(self, der: bytes) -> str | None:
        """Why the certificate proves nobody, whoever has it. The listener looked at the issuer."""
        try:
            certificate = x509.load_der_x509_certificate(der)
            key = accept_public_key(certificate.public_key())
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


def _refused(tx: Tx, name: str | None, why: str) -> Refused:
    tx.audit(AuditEvent(event_type="admin.login", service="ca", outcome="failure", sub=name, detail=why))
    problem: Problem = Unauthenticated(_REFUSED, headers={"WWW-Authenticate": "Bearer"})
    return Refused(problem)


def _end(tx: Tx, caller: SignedIn) -> None:
    if tx.remove(t.SESSION, caller.digest):
        tx.audit(AuditEvent(event_type="admin.logout", service="ca", sub=caller.subject))
