"""Issuer for X.509 and for Merkle tree certificates, each with what a kill at five points leaves and what settling makes of it."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from cryptography import x509
from sqlalchemy import Executable

from greatseal.api.issuance import Draft, Issuance, IssuanceRequest, Issued, Issuer, Prepared, SerialTaken
from greatseal.api.log import LogHead, LogWriter
from greatseal.api.problems import Unavailable
from greatseal.api.store import Refuse, Tx
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

    INSERT: Executable

    def __init__(self, host: Host) -> None:
        self.host = host

    async def compose(self, request: IssuanceRequest, names: Sequence[x509.GeneralName]) -> Draft:
        serial = b"\x01" + secrets.token_bytes(15)
        tbs = self.to_be_signed(request, names, serial)
        await self.host.blocking.run("lint", self.lint, tbs)
        return Draft(
            id=self.host.handles.new_id(),
            request=request,
            issue_as=self.issue_as,
            serial=serial,
            tbs=tbs,
            not_before=self.host.clock.now(),
            not_after=self.host.clock.now() + request.profile.validity_days * 86_400_000_000 - 1_000_000,
        )

    def prepare(self, tx: Tx, draft: Draft) -> Prepared:
        signer = self.host.keys.ring(f"ca:{draft.request.ca_id}:issuing").active
        if signer is None:
            raise Refuse(Unavailable("the CA has no active key"))
        if not tx.count(self.INSERT, id=draft.id, serial=draft.serial, tbs=draft.tbs, kid=signer.info.kid):
            raise Refuse(SerialTaken())
        return Prepared(
            id=draft.id,
            issue_as=draft.issue_as,
            ca_id=draft.request.ca_id,
            kid=signer.info.kid,
            serial=draft.serial,
            tbs=draft.tbs,
        )

    async def issue(self, prepared: Prepared) -> Issued:
        for signer in self.host.keys.ring(f"ca:{prepared.ca_id}:issuing").all():
            if signer.info.kid == prepared.kid and prepared.serial is not None:
                signature = await signer.sign(prepared.tbs)
                return Issued(
                    der=prepared.tbs + signature,
                    chain=(),
                    media_type="application/pem-certificate-chain",
                    serial=prepared.serial,
                )
        raise Unavailable(f"the key {prepared.kid} cannot be used now")

    async def settle(self, prepared: Prepared) -> Issued | None:
        signers = {signer.info.kid: signer for signer in self.host.keys.ring(f"ca:{prepared.ca_id}:issuing").all()}
        signer = signers.get(prepared.kid)
        return await self.issue(prepared) if signer is not None and signer.deterministic else None

    def to_be_signed(self, request: IssuanceRequest, names: Sequence[x509.GeneralName], serial: bytes) -> bytes:
        return serial + b"".join(identifier.value.encode() for identifier in request.identifiers) + repr(names).encode()

    def lint(self, tbs: bytes) -> None:
        x509.load_der_x509_certificate(tbs)


class MtcIssuer(Issuer):
    """Logs the entry; the index makes the serial, the proof and the CA's cosignature make the signature value."""

    issue_as = "mtc"

    QUEUE: Executable
    INDEX: Executable
    INDEX_OF: Executable
    FORGET: Executable

    def __init__(self, host: Host, log: LogWriter, log_number: int) -> None:
        self.host = host
        self.log = log
        self.log_number = log_number

    async def compose(self, request: IssuanceRequest, names: Sequence[x509.GeneralName]) -> Draft:
        return Draft(
            id=self.host.handles.new_id(),
            request=request,
            issue_as=self.issue_as,
            serial=None,
            tbs=request.csr.spki,
            not_before=self.host.clock.now(),
            not_after=self.host.clock.now() + request.profile.validity_days * 86_400_000_000 - 1_000_000,
        )

    def prepare(self, tx: Tx, draft: Draft) -> Prepared:
        tx.run(self.QUEUE, cert_id=draft.id, entry=draft.tbs)
        return Prepared(
            id=draft.id,
            issue_as=draft.issue_as,
            ca_id=draft.request.ca_id,
            kid=f"mtc:{self.log_number}",
            serial=None,
            tbs=draft.tbs,
        )

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
        return Issued(
            der=prepared.tbs + signature,
            chain=(),
            media_type="application/pkix-cert",
            serial=serial.to_bytes((serial.bit_length() + 7) // 8),
        )

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


async def after_a_crash(host: Host, issuance: Issuance, prepared: Prepared) -> None:
    """What who reserved does at the next start; Unavailable goes up, and the job tries again."""
    issued = await issuance.settle(prepared)
    if issued is None:
        await host.db.write(issuance.abandon, prepared)
    else:
        await host.db.write(issuance.record, prepared, issued)
