"""Revocation: what is recorded of it, which key goes with it, and what the lists are to say (RFC 5280 s5.3)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from sqlalchemy import or_, select, update

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.keys import BlockedKeys
from greatseal.api.problems import BadRequest, Conflict, NotFound
from greatseal.api.store import Refuse, Row, Tx
from greatseal.db.tables import insert_new, param
from greatseal_ca.tables import certificate, crl, revocation

Reason = Literal["unspecified", "keyCompromise", "affiliationChanged", "superseded", "cessationOfOperation", "privilegeWithdrawn"]
"""The words of :data:`REASONS`."""
REASONS: Mapping[str, int] = MappingProxyType(
    {
        "unspecified": 0,
        "keyCompromise": 1,
        "affiliationChanged": 3,
        "superseded": 4,
        "cessationOfOperation": 5,
        "privilegeWithdrawn": 9,
    }
)
"""Why the certificate of an end entity may be revoked (RFC 5280 s5.3.1). Nothing is on hold here, and unspecified is to give no reason."""
KEY_COMPROMISE = REASONS["keyCompromise"]
REVOKED = "ca_revoked"
"""The kind of change that tells of one more revoked certificate: its id is :func:`told`."""

_FIND = select(certificate.c.status, certificate.c.reason).where(certificate.c.id == param("id"))
_REVOKE = (
    update(certificate)
    .where(certificate.c.id == param("the_id"), certificate.c.status == "issued")
    .values(status="revoked", revoked_at=param("revoked_at"), reason=param("reason"))
    .returning(*certificate.c)
)
_WORSEN = (
    update(certificate)
    .where(
        certificate.c.id == param("the_id"),
        certificate.c.status == "revoked",
        or_(certificate.c.reason.is_(None), certificate.c.reason != KEY_COMPROMISE),
    )
    .values(reason=KEY_COMPROMISE)
    .returning(*certificate.c)
)
_COMPROMISED = (
    select(certificate.c.id)
    .where(certificate.c.spki_sha256 == param("spki"), certificate.c.status == "revoked", certificate.c.reason == KEY_COMPROMISE)
    .limit(1)
)
_ENTER = insert_new(revocation)
_ENTER_REASON = (
    update(revocation)
    .where(revocation.c.ca_id == param("the_ca"), revocation.c.shard == param("the_shard"), revocation.c.serial == param("the_serial"))
    .values(reason=param("reason"))
)
_AHEAD = update(crl).where(crl.c.ca_id == param("the_ca"), crl.c.shard == param("the_shard")).values(revision=crl.c.revision + 1)


def revoke(tx: Tx, blocked: BlockedKeys, id: str, reason: int | None, by: str) -> Row:
    """From issued to revoked, or from another reason to keyCompromise; the key of a compromised one is blocked in the same transaction.

    Raises Refuse with NotFound, Conflict or BadRequest.
    """
    if reason is not None and reason not in REASONS.values():
        named = ", ".join(f"{number} ({word})" for word, number in REASONS.items())
        raise Refuse(BadRequest(f"the reason {reason} is none of {named}"))
    reason = reason or None  # "unspecified" is said by giving none (RFC 5280 s5.3.1)
    row = tx.one(_REVOKE, the_id=id, revoked_at=tx.now, reason=reason)
    if row is None and reason == KEY_COMPROMISE:
        row = tx.one(_WORSEN, the_id=id)
    if row is None:
        raise Refuse(_refused(tx, id, reason))
    if reason == KEY_COMPROMISE:
        blocked.block(tx, bytes(row.spki_sha256).hex(), reason="keyCompromise", by=by)
    enter(tx, row)
    why = "" if reason is None else f", reason {reason}"
    detail = f"serial {row.serial} of CA {row.ca_id}, certificate {row.id}{why}"
    tx.audit(AuditEvent(event_type="cert.revoke", service="ca", principal=by, sub=row.account_id, detail=detail))
    faults.point("ca.revoke.recorded")
    return row


def enter(tx: Tx, row: Row) -> None:
    """Have the list of a certificate that is revoked, or counts as such, say so."""
    if row.crl_shard is not None:
        entry = {"revoked_at": row.revoked_at, "reason": row.reason, "not_after": row.not_after}
        if not tx.count(_ENTER, ca_id=row.ca_id, shard=row.crl_shard, serial=row.serial, **entry):
            tx.run(_ENTER_REASON, the_ca=row.ca_id, the_shard=row.crl_shard, the_serial=row.serial, reason=row.reason)
        tx.run(_AHEAD, the_ca=row.ca_id, the_shard=row.crl_shard)
    tx.changed(REVOKED, told(row.ca_id, row.serial))


def told(ca_id: str, serial: str | None) -> str:
    """How a certificate is named in a change of the kind :data:`REVOKED`."""
    return f"{ca_id}/{serial}"


def is_compromised(tx: Tx, spki_sha256: str) -> bool:
    """Whether a certificate for that key was revoked for keyCompromise: it is never certified again, whether it is blocked or not."""
    return tx.one(_COMPROMISED, spki=bytes.fromhex(spki_sha256)) is not None


def _refused(tx: Tx, id: str, reason: int | None) -> NotFound | Conflict:
    found = tx.one(_FIND, id=id)
    if found is None:
        return NotFound("there is no such certificate")
    again = "; a second revocation can only give the reason keyCompromise" if found.status == "revoked" and reason != KEY_COMPROMISE else ""
    return Conflict(f"the certificate is {found.status}{again}")
