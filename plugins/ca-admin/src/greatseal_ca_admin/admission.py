"""What every way to sign in has in common: the limit of an address, the lockout, the session, the audit log."""

import msgspec

from greatseal.api.audit import AuditEvent
from greatseal.api.http import Call, Reply
from greatseal.api.moments import seconds
from greatseal.api.problems import RateLimited, Unauthenticated
from greatseal.api.store import Refused, Tx
from greatseal.host import Host
from greatseal.net.addresses import source_of
from greatseal_ca_admin.lockout import Lockout
from greatseal_ca_admin.operators import load
from greatseal_ca_admin.sessions import Locked, Proof, Sessions
from greatseal_ca_admin.settings import AdminSettings

WINDOW = 300.0


class Began(msgspec.Struct, frozen=True):
    """A session that was made; ``used_at`` is microseconds."""

    token: str
    role: str
    used_at: int


class Admission:
    """Of one service."""

    def __init__(self, host: Host, sessions: Sessions, lockout: Lockout) -> None:
        self._host = host
        self._sessions = sessions
        self._lockout = lockout
        self._rate = host.settings(AdminSettings).auth_rate_limit

    def count(self, call: Call) -> None:
        """One more try of an address. Raises RateLimited."""
        wait = self._host.limits.hit("ca-admin", source_of(call.remote), self._rate, WINDOW)
        if wait is not None:
            raise RateLimited("too many sign-ins from this address; wait", headers={"Retry-After": str(wait)})

    def admit(self, tx: Tx, id: str | None, proof: Proof, fault: str | None, *, shown: str, refusal: str) -> Began | Refused:
        """Begin a session of that operator, which stands for the proof, unless there is a fault.

        ``shown`` is for the log; a stranger hears ``refusal`` alone.
        """
        operator = None if id is None else load(tx, id)
        if operator is None:
            return _refused(tx, None, f"{shown}: no operator has it", refusal)
        if self._lockout.is_locked(tx, operator.id):
            _refused(tx, operator.name, "the operator is locked", refusal)
            return Refused(Locked("too many sign-ins failed; wait, or ask an administrator to unlock you"))
        if fault is not None or not operator.active:
            self._lockout.failed(tx, operator.id, operator.name)
            return _refused(tx, operator.name, fault or "the operator is not active", refusal)
        self._lockout.succeeded(tx, operator.id)
        tx.audit(AuditEvent(event_type="admin.login", service="ca", sub=operator.name, detail=f"as {operator.role}, by {shown}"))
        return Began(self._sessions.begin(tx, operator.id, proof), operator.role, tx.now)

    def reply(self, began: Began | Refused) -> Reply:
        """The session to its operator. Raises what refused it."""
        if isinstance(began, Refused):
            raise began.problem
        expires_at = seconds(self._sessions.expires_at(began.used_at))
        shown = {"session_token": began.token, "role": began.role, "expires_at": expires_at}
        return Reply.json(shown, headers={"X-Session-Token": began.token})


def refused(refusal: str) -> Unauthenticated:
    """Nobody was proved."""
    return Unauthenticated(refusal, headers={"WWW-Authenticate": "Bearer"})


def _refused(tx: Tx, name: str | None, why: str, refusal: str) -> Refused:
    tx.audit(AuditEvent(event_type="admin.login", service="ca", outcome="failure", sub=name, detail=why))
    return Refused(refused(refusal))
