"""Issuers for X.509, Merkle tree certificates and another CA behind; for the first two what a kill at five points leaves.

Examples of the contract, checked by mypy: no plugin has this code.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID
from sqlalchemy import Executable

from greatseal import der
from greatseal.api.issuance import Bounds, Draft, Frame, Issuance, IssuanceRequest, Issued, Issuer, Prepared
from greatseal.api.log import LogHead, LogWriter
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.api.store import Tx
from greatseal.host import Host

Outcome = Literal["nothing", "same certificate", "unknown", "issued"]


class Kill(NamedTuple):
    """A process that died at ``point``: what the next start finds, and what becomes of the certificate.

    ``nothing``: no trace, the order is ready. ``same certificate``: settle gives the one that issue gave or would have given.
    ``unknown``: settle gives None, the record is abandoned and published as revoked. ``issued``: settle is not asked.
    """

    point: str
    found: str
    outcome: Outcome


X509_KILLS = (
    Kill("composed, before the reservation committed", "no record; the throw-away signature is gone with the process", "nothing"),
    Kill("reserved, before signing", "a record that is signing, with the to-be-signed bytes", "same certificate"),
    Kill(
        "signed by a deterministic key, before recording",
        "a record that is signing; signing again gives the same bytes",
        "same certificate",
    ),
    Kill("signed by another key, before recording", "a record that is signing; a signature may exist that nobody can repeat", "unknown"),
    Kill("recorded, before the reply", "a record that is issued, with the certificate", "issued"),
)

MTC_KILLS = (
    Kill("composed, before the reservation committed", "no record and no queued entry", "nothing"),
    Kill("reserved, before the log committed", "a record that is signing, its entry queued without an index", "same certificate"),
    Kill("logged, before the index was stored", "the log's batch names the record: the entry is found under its id", "same certificate"),
    Kill(
        "subtree signed, before recording",
        "an index, no certificate: the proof is read again, the subtree signed again",
        "same certificate",
    ),
    Kill("recorded, before the reply", "a record that is issued, with the standalone certificate", "issued"),
)

KILL_TABLES: Mapping[str, Sequence[Kill]] = {"x509": X509_KILLS, "mtc": MTC_KILLS}


class X509Issuer(Issuer):
    """Signs with the issuing key of the CA. The serial is drawn before anything is recorded."""

    issue_as = "x509"

    def __init__(self, host: Host, certificates: Mapping[str, x509.Certificate], algorithm: bytes) -> None:
        self.host = host
        self.certificates = certificates
        self.algorithm = algorithm

    def bounds(self, ca_id: str) -> Bounds:
        own = self.certificates[ca_id]
        return Bounds(begin=int(own.not_valid_before_utc.timestamp()) * 1_000_000, end=int(own.not_valid_after_utc.timestamp()) * 1_000_000)

    def frame(self, request: IssuanceRequest) -> Frame:
        signer = self.host.keys.ring(f"ca:{request.ca_id}:issuing").active
        if signer is None:
            raise Unavailable("the CA has no active key")
        return Frame(
            kid=signer.info.kid,
            issuer=self.certificates[request.ca_id].subject.public_bytes(),
            algorithm=self.algorithm,
            serial=b"\x41" + secrets.token_bytes(15),
        )

    async def issue(self, prepared: Prepared) -> Issued:
        for signer in self.host.keys.ring(f"ca:{prepared.ca_id}:issuing").all():
            if signer.info.kid == prepared.kid and prepared.serial is not None:
                signature = await signer.sign(prepared.tbs)
                return Issued(
                    der=der.sequence(prepared.tbs, self.algorithm, der.bit_string(signature)),
                    chain=(),
                    media_type="application/pem-certificate-chain",
                    serial=prepared.serial,
                )
        raise Unavailable(f"the key {prepared.kid} cannot be used now")

    async def settle(self, prepared: Prepared) -> Issued | None:
        signers = {signer.info.kid: signer for signer in self.host.keys.ring(f"ca:{prepared.ca_id}:issuing").all()}
        signer = signers.get(prepared.kid)
        return await self.issue(prepared) if signer is not None and signer.deterministic else None


class MtcIssuer(Issuer):
    """Logs the entry; the index makes the serial, the proof and the CA's cosignature make the signature value."""

    issue_as = "mtc"
    changes = frozenset({"serial"})

    QUEUE: Executable
    INDEX: Executable
    INDEX_OF: Executable
    FORGET: Executable
    # id-alg-mtcProof, parameters absent
    ALGORITHM = bytes.fromhex("300c060a2b0601040182da4b2f00")
    LOG_ID = x509.ObjectIdentifier("1.3.6.1.4.1.44363.47.1")

    def __init__(self, host: Host, log: LogWriter, log_number: int) -> None:
        self.host = host
        self.log = log
        self.log_number = log_number

    def bounds(self, ca_id: str) -> Bounds:
        return Bounds(begin=0, end=253_402_300_799_000_000)

    def frame(self, request: IssuanceRequest) -> Frame:
        name = x509.Name([x509.NameAttribute(self.LOG_ID, f"32473.1.0.{self.log_number}")])
        return Frame(kid=f"mtc:{self.log_number}", issuer=name.public_bytes(), algorithm=self.ALGORITHM, serial=None)

    def prepare(self, tx: Tx, draft: Draft) -> None:
        tx.run(self.QUEUE, cert_id=draft.id, entry=draft.tbs)

    async def issue(self, prepared: Prepared) -> Issued:
        index = await self.host.db.read(self.index_of, prepared.id)
        if index is None:
            index = await self.append(prepared)
            await self.host.db.write(self.store_index, prepared.id, index)
        signer = self.host.keys.ring(f"mtc:{prepared.ca_id}:cosigner").active
        if signer is None:
            raise Unavailable("the log has no active cosigner key")
        signature = await signer.sign(b"subtree/v1\n\0" + index.to_bytes(6))
        serial = (self.log_number << 48) | index
        number = serial.to_bytes((serial.bit_length() + 7) // 8)
        version, _, *rest = der.children(prepared.tbs)
        tbs = der.sequence(version, bytes((0x02, len(number))) + number, *rest)
        whole = der.sequence(tbs, self.ALGORITHM, der.bit_string(signature))
        return Issued(der=whole, chain=(), media_type="application/pkix-cert", serial=number)

    async def settle(self, prepared: Prepared) -> Issued | None:
        return await self.issue(prepared)

    def abandoned(self, tx: Tx, prepared: Prepared) -> None:
        tx.run(self.FORGET, cert_id=prepared.id)

    def index_of(self, tx: Tx, cert_id: str) -> int | None:
        row = tx.one(self.INDEX_OF, cert_id=cert_id)
        return None if row is None else row.log_index

    def store_index(self, tx: Tx, cert_id: str, index: int) -> None:
        tx.run(self.INDEX, cert_id=cert_id, log_index=index)

    async def append(self, prepared: Prepared) -> int:
        """The batch object carries the record's id beside the entry, so that a promised index is found again."""
        before = await self.log.head()
        size = 0 if before is None else before.size
        after = LogHead(size=size + 1, root=b"", edge=prepared.tbs)
        await self.log.commit(before, after, {f"batch/{size}-{size + 1}": prepared.id.encode() + prepared.tbs})
        return size


class Pki:
    """Another CA, reached over the network: it knows its enrolments by the id that we gave."""

    async def find(self, id: str) -> bytes | None:
        raise NotImplementedError

    async def enrol(self, id: str, csr: bytes) -> bytes:
        raise NotImplementedError


class RegistrationAuthority(Issuer):
    """In front of a CA that gives subject, lifetime and extensions as it likes."""

    issue_as = "ra"
    changes = frozenset({"serial", "issuer", "algorithm", "validity", "subject", "extensions"})

    KEEP: Executable
    CSR: Executable

    def __init__(self, host: Host, pki: Pki, certificate: x509.Certificate) -> None:
        self.host = host
        self.pki = pki
        self.certificate = certificate

    def bounds(self, ca_id: str) -> Bounds:
        return Bounds(begin=0, end=int(self.certificate.not_valid_after_utc.timestamp()) * 1_000_000)

    def frame(self, request: IssuanceRequest) -> Frame:
        if request.not_before is not None or request.not_after is not None:
            raise BadRequest("the other CA chooses the dates; leave notBefore and notAfter out")
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Other CA")])
        return Frame(kid="other", issuer=name.public_bytes(), algorithm=bytes.fromhex("300a06082a8648ce3d040302"), serial=None)

    def prepare(self, tx: Tx, draft: Draft) -> None:
        tx.run(self.KEEP, cert_id=draft.id, csr=draft.request.csr.der)

    async def issue(self, prepared: Prepared) -> Issued:
        """An answer that got lost is asked for by the id of the record, so there is never a second enrolment."""
        found = await self.pki.find(prepared.id) or await self.pki.enrol(prepared.id, await self.host.db.read(self.csr_of, prepared.id))
        number = x509.load_der_x509_certificate(found).serial_number
        serial = number.to_bytes((number.bit_length() + 7) // 8)
        return Issued(der=found, chain=(), media_type="application/pem-certificate-chain", serial=serial)

    async def settle(self, prepared: Prepared) -> Issued | None:
        return await self.issue(prepared)

    def csr_of(self, tx: Tx, cert_id: str) -> bytes:
        row = tx.one(self.CSR, cert_id=cert_id)
        assert row is not None
        return bytes(row.csr)


async def after_a_crash(host: Host, issuance: Issuance, prepared: Prepared) -> None:
    """What who reserved does at the next start; Unavailable goes up, and the job tries again."""
    issued = await issuance.settle(prepared)
    if issued is None:
        await host.db.write(issuance.abandon, prepared)
    else:
        await host.db.write(issuance.record, prepared, issued)
