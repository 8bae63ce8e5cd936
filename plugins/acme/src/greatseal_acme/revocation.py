"""Revocation by those who may (RFC 8555 s7.6): the account that ordered, whoever holds all its names, whoever holds its key."""

import msgspec
from cryptography import x509
from sqlalchemy import select

from greatseal import faults
from greatseal.api.acme import Identifier, Unauthorized
from greatseal.api.issuance import Certificate, IdentifierType, Issuance
from greatseal.api.problems import BadRequest, NotFound, Problem
from greatseal.api.store import Refuse, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.compact import b64url_decode
from greatseal_acme import tables as t
from greatseal_acme.accounts import BY_ID as ACCOUNT_BY_ID
from greatseal_acme.protocol.identifiers import identifiers_of
from greatseal_acme.protocol.jws import AccountCaller, AcmeCaller

KEY_COMPROMISE, CESSATION_OF_OPERATION = 1, 5
REASONS = {
    0: "unspecified",
    KEY_COMPROMISE: "keyCompromise",
    3: "affiliationChanged",
    4: "superseded",
    CESSATION_OF_OPERATION: "cessationOfOperation",
}
"""What a subscriber may say (RFC 5280 s5.3.1). That a privilege was withdrawn, the CA says itself; nothing is on hold here."""

_UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    OverflowError,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What the library raises for no certificate, extensions that cannot be read or are there twice, and a serial below 0."""
HOLDS = (
    select(t.authorization.c.id)
    .where(
        t.authorization.c.account_id == param("account"),
        t.authorization.c.ca_id == param("ca_id"),
        t.authorization.c.identifier_type == param("type"),
        t.authorization.c.identifier_value == param("value"),
        t.authorization.c.wildcard == param("wildcard"),
        t.HELD,
        t.authorization.c.status == "valid",
        t.authorization.c.expires_at > param("now"),
    )
    .limit(1)
)


class AlreadyRevoked(Problem):
    """The certificate is revoked (RFC 8555 s7.6)."""

    status, error, type = 400, "already_revoked", "alreadyRevoked"


class BadRevocationReason(Problem):
    """The reason is none that a subscriber may give (RFC 8555 s7.6)."""

    status, error, type = 400, "bad_revocation_reason", "badRevocationReason"


class RevokeCert(msgspec.Struct, frozen=True):
    """The payload of revokeCert."""

    certificate: str
    reason: int | None = None


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """What the transaction needs. ``account_id`` is None for a request that a key signed, which ``spki_sha256`` names."""

    der: bytes
    ca_id: str
    reason: int | None
    account_id: str | None
    spki_sha256: str


class Revocations:
    """Revoking certificates."""

    def __init__(self, host: Host, issuance: Issuance) -> None:
        self._host = host
        self._issuance = issuance

    async def revoke(self, caller: AcmeCaller, asked: RevokeCert, ca_id: str) -> None:
        """Return when relying parties can know it.

        Raises NotFound for a certificate that is not of the CA, Unauthorized, BadRevocationReason, AlreadyRevoked.
        """
        if asked.reason is not None and asked.reason not in REASONS:
            known = ", ".join(f"{number} ({word})" for number, word in REASONS.items())
            raise BadRevocationReason(f"the reason {asked.reason} is none of {known}")
        wanted = Revocation(
            der=_der_of(asked.certificate),
            ca_id=ca_id,
            reason=asked.reason,
            account_id=caller.view.id if isinstance(caller, AccountCaller) else None,
            spki_sha256=spki_sha256(caller.key),
        )
        revoked = await self._host.db.write(self._revoke, wanted)
        faults.point("acme.revoke.recorded")
        await self._issuance.publish([revoked])

    def _revoke(self, tx: Tx, wanted: Revocation) -> Certificate:
        found = self._issuance.identical(tx, wanted.ca_id, wanted.der)
        if found is None:
            raise Refuse(unknown())
        by, reason = self._proven(tx, found, wanted)
        if found.status == "revoked" and (reason != KEY_COMPROMISE or found.reason == KEY_COMPROMISE):
            raise Refuse(AlreadyRevoked("the certificate is revoked"))
        return self._issuance.revoke(tx, found.id, reason, by=by)

    def _proven(self, tx: Tx, found: Certificate, wanted: Revocation) -> tuple[str, int | None]:
        """Who revokes, for the audit log, and the reason that counts. Raises Refuse(Unauthorized)."""
        if wanted.account_id is None:
            if wanted.spki_sha256 != found.spki_sha256.hex():
                raise Refuse(Unauthorized("the key of the request is not that of the certificate"))
            return "holder of the key", KEY_COMPROMISE
        account = tx.one(ACCOUNT_BY_ID, id=wanted.account_id)
        if account is None or account.status != "valid":
            raise Refuse(Unauthorized("the account is not valid any more"))
        if wanted.account_id == found.account_id:
            return wanted.account_id, wanted.reason
        if not self._holds_all(tx, wanted.account_id, found):
            raise Refuse(Unauthorized("the account did not order the certificate, and holds no valid authorizations for all of its names"))
        return wanted.account_id, CESSATION_OF_OPERATION

    def _holds_all(self, tx: Tx, account_id: str, found: Certificate) -> bool:
        assert found.der is not None  # it was compared with what was sent
        identifiers = identifiers_of(found.der, self._host.components(IdentifierType))
        return bool(identifiers) and all(_holds(tx, account_id, found.ca_id, one) for one in identifiers)


def unknown() -> NotFound:
    """The answer about a certificate that is not here."""
    return NotFound("this CA did not issue the certificate")


def _holds(tx: Tx, account_id: str, ca_id: str, identifier: Identifier | None) -> bool:
    if identifier is None:
        return False
    wanted = {"type": identifier.type, "value": identifier.base, "wildcard": int(identifier.wildcard)}
    return tx.one(HOLDS, account=account_id, ca_id=ca_id, now=tx.now, **wanted) is not None


def _der_of(text: str) -> bytes:
    """The certificate that was sent. Raises BadRequest for what is none that can be read."""
    try:
        der = b64url_decode(text)
    except ValueError as error:
        raise BadRequest(f"certificate: expected its DER in base64url, found what is {error}") from None
    try:
        certificate = x509.load_der_x509_certificate(der)
        readable = certificate.serial_number >= 0 and certificate.extensions is not None
    except _UNREADABLE:
        readable = False
    if not readable:
        raise BadRequest("certificate: what was sent is no certificate in DER")
    return der
