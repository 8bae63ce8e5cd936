"""The end of an account: by an operator, or by its holder (:mod:`greatseal_acme.accounts`)."""

from sqlalchemy import update

from greatseal.api.acme import Unauthorized
from greatseal.api.audit import AuditEvent
from greatseal.api.problems import Conflict, NotFound
from greatseal.api.store import Refuse, Tx, scan
from greatseal.db.tables import param
from greatseal_acme import tables as t
from greatseal_acme.accounts import BY_ID
from greatseal_acme.protocol.objects import encode, problem_document

END_ORDERS = (
    update(t.order)
    .where(t.order.c.account_id == param("account"), t.OPEN, t.order.c.status != "processing")
    .values(status="invalid", error=param("error"))
)
"""One that is processing has its certificate recorded, and comes to its end."""
END_AUTHORIZATIONS = update(t.authorization).where(t.authorization.c.account_id == param("account"), t.HELD).values(status="revoked")


def deactivate(tx: Tx, id: str, by: str) -> None:
    """As its holder can. Raises Refuse: NotFound, and Conflict for a revoked account; one that is deactivated stays so."""
    status = _status(tx, id)
    if status == "revoked":
        raise Refuse(Conflict("the account is revoked, and stays so"))
    if status == "valid":
        tx.put(t.ACCOUNT, id, status="deactivated")
        tx.audit(AuditEvent(event_type="account.deactivate", service="ca", sub=id, principal=by))


@scan
def revoke(tx: Tx, id: str, by: str) -> None:
    """For good, with its orders and authorizations. Raises Refuse with NotFound; what is revoked stays so."""
    if _status(tx, id) == "revoked":
        return
    tx.put(t.ACCOUNT, id, status="revoked")
    tx.run(END_ORDERS, account=id, error=encode(problem_document(Unauthorized("the account was revoked"))))
    tx.run(END_AUTHORIZATIONS, account=id)
    tx.audit(AuditEvent(event_type="account.revoke", service="ca", sub=id, principal=by))


def unknown() -> NotFound:
    """The answer about an account that does not exist."""
    return NotFound("there is no such account")


def _status(tx: Tx, id: str) -> str:
    row = tx.one(BY_ID, id=id)
    if row is None:
        raise Refuse(unknown())
    return str(row.status)
