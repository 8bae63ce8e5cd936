"""The rows of CAs: issuing certificates one after the other, and the request for the next."""

from collections.abc import Sequence
from hashlib import sha256

import msgspec
from cryptography import x509
from sqlalchemy import delete, func, select

from greatseal.api.audit import AuditEvent
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse, Row, Tx
from greatseal.db.tables import insert_new, param
from greatseal.der import elements
from greatseal_ca.chains import spki_of
from greatseal_ca.inventory import keep_chain, keep_names
from greatseal_ca.names import names_of
from greatseal_ca.tables import authority, certificate, chain, first, request, subordinate
from greatseal_ca.validity import moment_of

PEM_CHAIN = "application/pem-certificate-chain"
OF_ROOT = 0
"""The number of the revocation list of a root that is here: it tells of CA certificates."""
FIRST = 1
"""The generation of the first certificate of a role."""

_OF_ROLE = (
    select(authority.c.generation, authority.c.kid, authority.c.der, authority.c.created_at, chain.c.certificates)
    .select_from(authority.outerjoin(chain, chain.c.id == authority.c.chain_id))
    .where(authority.c.ca_id == param("ca_id"), authority.c.role == param("role"))
    .order_by(authority.c.generation.desc())
)
_LAST = select(func.max(authority.c.generation).label("last")).where(authority.c.ca_id == param("ca_id"), authority.c.role == param("role"))
_KEEP = insert_new(authority)
_BEGIN = insert_new(first)
_ASK = insert_new(request)
_ASKED = select(request).where(request.c.ca_id == param("ca_id"))
_ANSWERED = delete(request).where(request.c.ca_id == param("the_ca"), request.c.kid == param("the_kid"))
_SIGNS = insert_new(subordinate)
_SUBORDINATES = select(subordinate.c.certificate_id).where(subordinate.c.ca_id == param("ca_id")).order_by(subordinate.c.certificate_id)
_CROSS_SIGNED = (
    select(subordinate.c.certificate_id)
    .where(subordinate.c.kind == "cross", subordinate.c.certificate_id < param("last"))
    .order_by(subordinate.c.certificate_id.desc())
    .limit(param("limit"))
)
_CROSS = (
    select(certificate.c.ca_id, certificate.c.spki_sha256, certificate.c.der)
    .select_from(subordinate.join(certificate, certificate.c.id == subordinate.c.certificate_id))
    .where(subordinate.c.kind == "cross", certificate.c.status == "issued", certificate.c.not_after > param("now"))
    .order_by(certificate.c.id)
)
_ADOPT = insert_new(
    certificate,
    *(certificate.c[name] for name in (
        "id", "status", "ca_id", "issue_as", "kid", "profile", "serial", "spki_sha256", "not_before", "not_after", "created_at",
        "issued_at", "der", "chain_id", "media_type", "crl_shard",
    )),
)  # fmt: skip


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate of a CA; ``above`` are those above it, root last, empty where that is the first root of the CA itself."""

    number: int
    kid: str
    der: bytes
    created_at: int
    above: tuple[bytes, ...]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The request for the next issuing certificate; ``elsewhere`` tells that its root is not here."""

    ca_id: str
    kid: str
    elsewhere: bool
    csr: bytes
    created_at: int


def generations(tx: Tx, ca_id: str, role: str) -> list[Generation]:
    """The certificates of one role of a CA, newest first."""
    return [_generation(row) for row in tx.all(_OF_ROLE, ca_id=ca_id, role=role)]


def begin_first(tx: Tx, ca_id: str, role: str, kid: str, tbs: bytes) -> None:
    """Record what a start is about to sign with the root of that key."""
    tx.run(_BEGIN, digest=sha256(tbs).digest(), ca_id=ca_id, role=role, kid=kid, tbs=tbs, created_at=tx.now)


def keep_first(tx: Tx, ca_id: str, role: str, kid: str, der: bytes) -> tuple[str, bytes]:
    """Key and certificate of the first generation from now on: ours, or the one that was there."""
    if tx.count(_KEEP, ca_id=ca_id, role=role, generation=FIRST, kid=kid, der=der, created_at=tx.now, chain_id=None):
        tx.audit(AuditEvent(event_type="ca.created", service="ca", detail=f"{role} certificate of CA {ca_id}, key {kid}"))
    *_, oldest = generations(tx, ca_id, role)
    return oldest.kid, oldest.der


def asked(tx: Tx, ca_id: str) -> Asked | None:
    """What the next issuing certificate is asked for with."""
    row = tx.one(_ASKED, ca_id=ca_id)
    if row is None:
        return None
    return Asked(ca_id=row.ca_id, kid=row.kid, elsewhere=bool(row.elsewhere), csr=bytes(row.csr), created_at=row.created_at)


def ask(tx: Tx, ca_id: str, kid: str, csr: bytes, *, elsewhere: bool) -> Asked:
    """Record a request. Raises ``Refuse(Conflict)`` when there is one."""
    if not tx.count(_ASK, ca_id=ca_id, kid=kid, elsewhere=int(elsewhere), csr=csr, created_at=tx.now):
        raise Refuse(Conflict("another request waits for its certificate"))
    return Asked(ca_id=ca_id, kid=kid, elsewhere=elsewhere, csr=csr, created_at=tx.now)


def forget(tx: Tx, question: Asked) -> bool:
    """Give a request up; False when it was answered or given up before."""
    return tx.count(_ANSWERED, the_ca=question.ca_id, the_kid=question.kid) == 1


def answer(tx: Tx, question: Asked, der: bytes, above: Sequence[bytes]) -> int:
    """The next generation of the CA's issuing certificate, under those above it. Raises ``Refuse(Conflict)`` for a request that is gone."""
    if not forget(tx, question):
        raise Refuse(Conflict("the request was answered or given up meanwhile"))
    row = tx.one(_LAST, ca_id=question.ca_id, role="issuing")
    number = (row.last if row and row.last else 0) + 1
    kept = keep_chain(tx, above)
    tx.run(
        _KEEP, ca_id=question.ca_id, role="issuing", generation=number, kid=question.kid, der=der, created_at=tx.now, chain_id=kept
    )  # fmt: skip
    detail = f"issuing certificate of CA {question.ca_id}, generation {number}, key {question.kid}"
    tx.audit(AuditEvent(event_type="ca.renewed", service="ca", detail=detail))
    return number


def adopt(tx: Tx, ca_id: str, serial: bytes, id: str) -> bool:
    """Put the issuing certificate that the first start made into the inventory, where those after it are, so that it can be revoked.

    False when the root here made none of that serial.
    """
    roots = generations(tx, ca_id, "root")
    for one in generations(tx, ca_id, "issuing"):
        made = x509.load_der_x509_certificate(one.der)
        if not roots or one.above or made.serial_number != int.from_bytes(serial):
            continue
        tx.run(
            _ADOPT,
            id=id,
            status="issued",
            ca_id=ca_id,
            issue_as="root",
            kid=roots[-1].kid,
            profile="issuing",
            serial=serial.hex(),
            spki_sha256=sha256(spki_of(made)).digest(),
            not_before=moment_of(made.not_valid_before_utc),
            not_after=moment_of(made.not_valid_after_utc),
            created_at=one.created_at,
            issued_at=one.created_at,
            der=one.der,
            chain_id=keep_chain(tx, [roots[-1].der]),
            media_type=PEM_CHAIN,
            crl_shard=OF_ROOT,
        )
        keep_names(tx, id, names_of(made))
        signs(tx, id, ca_id, "issuing")
        return True
    return False


def signs(tx: Tx, certificate_id: str, ca_id: str, kind: str) -> None:
    """The root of the CA signs this certificate of a CA."""
    tx.run(_SIGNS, certificate_id=certificate_id, ca_id=ca_id, kind=kind, created_at=tx.now)


def subordinates(tx: Tx, ca_id: str) -> list[str]:
    """The ids of the certificates of CAs that the root of the CA signs, or was about to."""
    return [row.certificate_id for row in tx.all(_SUBORDINATES, ca_id=ca_id)]


def cross_certificates(tx: Tx) -> list[tuple[str, bytes, bytes]]:
    """Those in force: the CA whose root signed it, the SHA-256 of the key that it is for, and the certificate."""
    return [(row.ca_id, bytes(row.spki_sha256), bytes(row.der)) for row in tx.all(_CROSS, now=tx.now)]


def cross_signed(tx: Tx, last: str, limit: int) -> list[str]:
    """The ids of cross-certificates, newest first, those below the id ``last``."""
    return [row.certificate_id for row in tx.all(_CROSS_SIGNED, last=last, limit=limit)]


def _generation(row: Row) -> Generation:
    above = tuple(elements(bytes(row.certificates))) if row.certificates is not None else ()
    return Generation(number=row.generation, kid=row.kid, der=bytes(row.der), created_at=row.created_at, above=above)
