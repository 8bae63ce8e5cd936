"""Who calls a route of the admin listener: an operator with a session."""

from greatseal.api.http import AuthScheme, Call, Operator, OperatorCaller
from greatseal.api.problems import Forbidden, Unauthenticated
from greatseal.host import Cache, Host
from greatseal_ca_admin import tables as t
from greatseal_ca_admin.operators import RA, StoredOperator, load
from greatseal_ca_admin.proofs import Proofs
from greatseal_ca_admin.sessions import Sessions, end_session

SESSION = "/admin/session"


class SignedIn(OperatorCaller, frozen=True, kw_only=True):
    """An operator, and the session by which they call."""

    operator_id: str
    digest: str
    used_at: int


class Operators(AuthScheme):
    """``Authorization: Bearer`` with the token of a session."""

    rule = Operator

    def __init__(self, host: Host, sessions: Sessions, proofs: Proofs) -> None:
        self._host = host
        self._proofs = proofs
        self._sessions = sessions
        self._operators: Cache[StoredOperator] = host.changes.cache(t.OPERATOR.name, load)

    async def authenticate(self, call: Call) -> SignedIn:
        scheme, _, token = call.headers.get("Authorization", "").partition(" ")
        session = await self._sessions.of(token.strip()) if scheme.lower() == "bearer" else None
        operator = None if session is None else await self._operators.get(session.operator_id)
        if session is None or operator is None or not operator.active:
            raise Unauthenticated("this needs the session of an operator; sign in first", headers={"WWW-Authenticate": "Bearer"})
        if (fault := await self._proofs.fault(session.proof)) is not None:
            await self._host.db.write(end_session, session.digest, operator.name, fault)
            raise Unauthenticated(f"the session has ended: {fault}; sign in again", headers={"WWW-Authenticate": "Bearer"})
        rule = call.route.auth
        assert isinstance(rule, Operator)
        if operator.role not in rule.roles:
            raise Forbidden(f"the role {operator.role} may not do this")
        if operator.role == RA and operator.ca_id is None and call.route.path != SESSION:
            raise Forbidden("this ca_ra acts for no CA; an administrator has to name one")
        return SignedIn(
            subject=operator.name,
            role=operator.role,
            ca_id=operator.ca_id,
            operator_id=operator.id,
            digest=session.digest,
            used_at=session.used_at,
        )
