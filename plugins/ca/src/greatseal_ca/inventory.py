"""The inventory: every certificate from before it is signed (security invariants I1, I2, I9)."""

import base64
import hashlib
from collections.abc import Iterable, Sequence

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import case, func, select, update

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.inventory import CertificateQuery
from greatseal.api.issuance import Certificate, Draft, Issued, Prepared, SerialTaken
from greatseal.api.keys import BlockedKeys
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse, Row, Tx, scan
from greatseal.db.tables import insert_new, param
from greatseal.der import elements
from greatseal_ca import revocation
from greatseal_ca.listing import Ending, ending, page_of_rows
from greatseal_ca.names import words_of
from greatseal_ca.tables import certificate, chain, name
from greatseal_ca.validity import moment_of

_KEEP = insert_new(
    certificate,
    *(certificate.c[name] for name in (
        "id", "status", "ca_id", "issue_as", "kid", "profile", "serial", "account_id", "order_id", "spki_sha256", "not_before", "not_after",
        "created_at", "tbs", "crl_shard",
    )),
)  # fmt: skip
_KEEP_CHAIN = insert_new(chain)
_NAME = insert_new(name)
_CHAIN = select(chain.c.certificates).where(chain.c.id == param("id"))
_FIND = select(certificate).where(certificate.c.id == param("id"))
_ISSUED_BY = select(certificate.c.ca_id, certificate.c.issue_as).where(certificate.c.id == param("id"))
_SIGNING = _FIND.where(certificate.c.status == "signing")
_ISSUE = (
    update(certificate)
    .where(certificate.c.id == param("the_id"), certificate.c.status == "signing")
    .values(
        status="issued",
        serial=param("serial"),
        issued_at=param("issued_at"),
        tbs=None,
        der=param("der"),
        chain_id=param("chain_id"),
        media_type=param("media_type"),
    )
    .returning(*certificate.c)
)
_LIVE = (
    update(certificate)
    .where(certificate.c.id == param("the_id"), certificate.c.status == "signing")
    .values(not_before=param("not_before"), not_after=param("not_after"))
)
_GIVE_UP = (
    update(certificate)
    .where(certificate.c.id == param("the_id"), certificate.c.status == "signing")
    .values(status="unknown", revoked_at=param("revoked_at"))
    .returning(*certificate.c)
)

_BY_SERIAL = select(certificate).where(
    certificate.c.serial == param("serial"), certificate.c.ca_id == param("ca_id"), certificate.c.issue_as == param("issue_as")
)
_GOOD = (certificate.c.status == "issued") & (certificate.c.not_after > param("now"))
_TOTALS = select(
    func.count().label("total"),
    func.count(case((_GOOD, 1))).label("active"),
    func.count(case((certificate.c.status == "revoked", 1))).label("revoked"),
)
_OF_SERIAL = select(certificate).where(certificate.c.serial == param("serial"))


class Inventory:
    """The records of certificates. ``known`` are chains that were kept at the start, so that no issuance writes them again."""

    def __init__(self, blocked: BlockedKeys) -> None:
        self._blocked = blocked
        self._known: dict[tuple[bytes, ...], str] = {}
        self._by_id: dict[str | None, tuple[bytes, ...]] = {None: ()}

    def knows(self, certificates: tuple[bytes, ...]) -> None:
        """The chain is in the database."""
        id = chain_id(certificates)
        self._known[certificates] = id
        self._by_id[id] = certificates

    def reserve(self, tx: Tx, draft: Draft) -> Prepared:
        """Record a draft as signing. Raises ``Refuse(SerialTaken())`` when its serial exists."""
        request = draft.request
        added = tx.count(
            _KEEP,
            id=draft.id,
            status="signing",
            ca_id=request.ca_id,
            issue_as=draft.issue_as,
            kid=draft.kid,
            profile=request.profile.id,
            serial=_hex(draft.serial),
            account_id=request.account.id if request.account else None,
            order_id=request.order_id,
            spki_sha256=bytes.fromhex(request.csr.spki_sha256),
            not_before=draft.not_before,
            not_after=draft.not_after,
            created_at=tx.now,
            tbs=draft.tbs,
            crl_shard=draft.crl_shard,
        )
        if not added:
            raise Refuse(SerialTaken("the drawn serial number exists"))
        keep_names(tx, draft.id, [one.value for one in request.identifiers] or request.csr.common_names)
        faults.point("ca.reserve.recorded")
        return Prepared(id=draft.id, issue_as=draft.issue_as, ca_id=request.ca_id, kid=draft.kid, serial=draft.serial, tbs=draft.tbs)

    def record(self, tx: Tx, prepared: Prepared, issued: Issued) -> Certificate:
        """Store the certificate. Raises ``Refuse(Conflict)`` when somebody decided about the reservation before."""
        if prepared.tbs not in issued.der:  # an issuer may have given another lifetime
            begin, end = lifetime(issued.der)
            tx.run(_LIVE, the_id=prepared.id, not_before=begin, not_after=end)
        row = tx.one(
            _ISSUE,
            the_id=prepared.id,
            serial=_hex(issued.serial),
            issued_at=tx.now,
            der=issued.der,
            chain_id=self._known.get(issued.chain) or keep_chain(tx, issued.chain),
            media_type=issued.media_type,
        )
        if row is None:
            raise Refuse(Conflict("the reservation is not signing any more"))
        tx.audit(
            AuditEvent(
                event_type="cert.issue",
                service="ca",
                principal=row.account_id,
                detail=f"serial {row.serial} of CA {row.ca_id} under profile {row.profile}, certificate {row.id}",
            )
        )
        faults.point("ca.record.stored")
        return _certificate(row, issued.chain)

    def give_up(self, tx: Tx, prepared: Prepared) -> bool:
        """From signing to unknown; False when it was not signing."""
        row = tx.one(_GIVE_UP, the_id=prepared.id, revoked_at=tx.now)
        if row is None:
            return False
        tx.audit(
            AuditEvent(
                event_type="cert.unknown",
                service="ca",
                outcome="failure",
                detail=f"serial {row.serial} of CA {prepared.ca_id}: whether it was signed is not known; it counts as revoked",
            )
        )
        revocation.enter(tx, row)
        return True

    def reserved(self, tx: Tx, id: str) -> Prepared | None:
        """The reservation of that id, as long as it is signing."""
        row = tx.one(_SIGNING, id=id)
        if row is None:
            return None
        return Prepared(id=row.id, issue_as=row.issue_as, ca_id=row.ca_id, kid=row.kid, serial=_bytes(row.serial), tbs=bytes(row.tbs))

    def find(self, tx: Tx, id: str) -> Certificate | None:
        """The record of that id."""
        row = tx.one(_FIND, id=id)
        return None if row is None else self._read(tx, row)

    def issued_by(self, tx: Tx, id: str) -> tuple[str, str] | None:
        """The CA and the ``issue_as`` of the record of that id."""
        row = tx.one(_ISSUED_BY, id=id)
        return None if row is None else (row.ca_id, row.issue_as)

    def find_serial(self, tx: Tx, ca_id: str, serial: bytes, issue_as: str) -> Certificate | None:
        """The record of that serial of a CA and issuer."""
        row = tx.one(_BY_SERIAL, serial=serial.hex(), ca_id=ca_id, issue_as=issue_as)
        return None if row is None else self._read(tx, row)

    def find_named(self, tx: Tx, key_identifier: bytes, serial: bytes) -> Certificate | None:
        """The record of that serial whose certificate says that a key of that identifier signed it."""
        rows = tx.all(_OF_SERIAL, serial=serial.hex())
        found = next((row for row in rows if row.der is not None and _authority_of(bytes(row.der)) == key_identifier), None)
        return None if found is None else self._read(tx, found)

    def find_identical(self, tx: Tx, ca_id: str, der: bytes) -> Certificate | None:
        """The record of that very certificate. Raises ValueError for what is no certificate."""
        number = x509.load_der_x509_certificate(der).serial_number
        rows = tx.all(_OF_SERIAL, serial=number.to_bytes((number.bit_length() + 7) // 8).hex())
        found = next((row for row in rows if row.ca_id == ca_id and row.der is not None and bytes(row.der) == der), None)
        return None if found is None else self._read(tx, found)

    @scan
    def totals(self, tx: Tx) -> dict[str, int]:
        """How many there are, how many are good now, how many were revoked."""
        row = tx.one(_TOTALS, now=tx.now)
        assert row is not None
        return {"total": row.total, "active": row.active, "revoked": row.revoked}

    @scan
    def listed(self, tx: Tx, query: CertificateQuery) -> tuple[list[Certificate], str | None]:
        """As :func:`greatseal_ca.listing.page_of_rows`."""
        rows, following = page_of_rows(tx, query)
        return [self._read(tx, row) for row in rows], following

    @scan
    def ending(self, tx: Tx, query: Ending) -> tuple[list[Certificate], str | None]:
        """As :func:`greatseal_ca.listing.ending`."""
        rows, following = ending(tx, query)
        return [self._read(tx, row) for row in rows], following

    def revoke(self, tx: Tx, id: str, reason: int | None, by: str) -> Certificate:
        """As :func:`greatseal_ca.revocation.revoke`; the record as it is from now on."""
        return self._read(tx, revocation.revoke(tx, self._blocked, id, reason, by))

    def _read(self, tx: Tx, row: Row) -> Certificate:
        certificates = self._by_id.get(row.chain_id)
        return _certificate(row, _stored_chain(tx, row.chain_id) if certificates is None else certificates)


def keep_chain(tx: Tx, certificates: Sequence[bytes]) -> str | None:
    """Store a chain, unless it is there; its id."""
    if not certificates:
        return None
    id = chain_id(certificates)
    tx.run(_KEEP_CHAIN, id=id, certificates=b"".join(certificates))
    return id


def keep_names(tx: Tx, certificate_id: str, names: Iterable[str]) -> None:
    """Have a certificate found by its names."""
    for word in words_of(names):
        tx.run(_NAME, name=word, certificate_id=certificate_id)


def chain_id(certificates: Sequence[bytes]) -> str:
    """The id under which a chain is kept."""
    return hashlib.sha256(b"".join(certificates)).hexdigest()


def labelled(label: str, der: bytes) -> str:
    """What is no ordinary certificate in PEM, under a label of its own (RFC 7468)."""
    text = base64.b64encode(der).decode()
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def as_pem(certificates: Sequence[bytes]) -> str:
    """Certificates in PEM, one after the other."""
    return "".join(x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM).decode() for der in certificates)


def lifetime(der: bytes) -> tuple[int, int]:
    """The notBefore and notAfter of a certificate."""
    certificate = x509.load_der_x509_certificate(der)
    return moment_of(certificate.not_valid_before_utc), moment_of(certificate.not_valid_after_utc)


def _authority_of(der: bytes) -> bytes | None:
    extensions = x509.load_der_x509_certificate(der).extensions
    try:
        return extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    except x509.ExtensionNotFound:
        return None


def _stored_chain(tx: Tx, id: str) -> tuple[bytes, ...]:
    row = tx.one(_CHAIN, id=id)
    assert row is not None, "a certificate is recorded with its chain"
    return tuple(elements(bytes(row.certificates)))


def _certificate(row: Row, certificates: tuple[bytes, ...]) -> Certificate:
    return Certificate(
        id=row.id,
        status=row.status,
        ca_id=row.ca_id,
        profile=row.profile,
        serial=_bytes(row.serial),
        account_id=row.account_id,
        order_id=row.order_id,
        spki_sha256=bytes(row.spki_sha256),
        not_before=row.not_before,
        not_after=row.not_after,
        der=row.der if row.der is None else bytes(row.der),
        chain=certificates,
        media_type=row.media_type or "",
        revoked_at=row.revoked_at,
        reason=row.reason,
        crl_shard=row.crl_shard,
        issue_as=row.issue_as,
    )


def _hex(serial: bytes | None) -> str | None:
    return serial.hex() if serial else None


def _bytes(serial: str | None) -> bytes | None:
    return bytes.fromhex(serial) if serial else None
