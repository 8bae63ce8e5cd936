"""``issue_as = "mtc"``: the certificate is appended to the log, and its standalone certificate is made at once (draft ...-05 s6.3)."""

from typing import ClassVar

from cryptography import x509

from greatseal import der, faults
from greatseal.api.acme import BadCsr
from greatseal.api.issuance import Bounds, Change, Draft, Frame, IssuanceRequest, Issued, Issuer, Prepared
from greatseal.api.moments import SECOND
from greatseal.api.problems import Internal, Unavailable
from greatseal.api.store import Refuse, Tx
from greatseal.host import Host
from greatseal_mtc.logs import LATEST, CaLog, Logs
from greatseal_mtc.merkle import cover, evaluate
from greatseal_mtc.recording import MTC, find
from greatseal_mtc.revoked import add_revoked
from greatseal_mtc.wire import Proof, certificate_of, serial_of

DER = "application/pkix-cert"


class MtcIssuer(Issuer):
    """The serial number is the place in the log; the signature is the proof of it, and the CA's over the subtree of its batch."""

    issue_as = MTC
    changes: ClassVar[frozenset[Change]] = frozenset({"serial"})
    pem_label = "STANDALONE MTC CERTIFICATE"

    def __init__(self, host: Host, logs: Logs) -> None:
        self._host = host
        self._logs = logs

    def bounds(self, ca_id: str) -> Bounds:
        """The CA has no certificate that ends."""
        self._logs.of(ca_id)
        return Bounds(begin=0, end=LATEST)

    def frame(self, request: IssuanceRequest) -> Frame:
        log = self._logs.of(request.ca_id)
        if request.csr.spki in {log.keys.operator.info.spki, log.keys.cosigner.info.spki}:
            raise BadCsr("the key of the CSR is that of the log; make another one")
        dialect = log.settings.of_dialect
        return Frame(kid=log.keys.cosigner.info.kid, issuer=dialect.issuer(log.anchor), algorithm=dialect.algorithm, serial=None)

    def prepare(self, tx: Tx, draft: Draft) -> None:  # noqa: ARG002  the record is all that is needed
        """A certificate that the log would not take is not begun."""
        try:
            self._logs.of(draft.request.ca_id).entry_of(draft.tbs)
        except ValueError as error:
            raise Refuse(BadCsr(f"{error}; ask for fewer names")) from None

    async def issue(self, prepared: Prepared) -> Issued:
        log = self._logs.of(prepared.ca_id)
        found = await self._host.db.read(find, prepared.id)
        if found is None or found.index is None or found.batch is None:
            appended = await log.append(prepared.id, prepared.tbs)
            index, batch = appended.index, (appended.start, appended.end)
        elif found.log_number != log.number:
            raise Unavailable(
                "the certificate cannot be issued now", cause=f"it is in log {found.log_number}, which is not written any more"
            )
        else:
            index, batch = found.index, found.batch
        faults.point("mtc.issue.logged")
        return await _issued(log, prepared, index, batch)

    async def settle(self, prepared: Prepared) -> Issued | None:
        """The index was given once and for all, or is given now. What lies in a log that was given up is not known any more."""
        log = self._logs.of(prepared.ca_id)
        found = await self._host.db.read(find, prepared.id)
        if found is not None and found.index is not None and found.log_number != log.number:
            return None
        return await self.issue(prepared)

    def abandoned(self, tx: Tx, prepared: Prepared) -> None:
        """It may be in the log, or come to be: then its index is told as revoked."""
        add_revoked(tx, prepared.id, prepared.ca_id, end_of(prepared.tbs))


def end_of(tbs: bytes) -> int:
    """The notAfter of a TBSCertificate, in microseconds."""
    whole = x509.load_der_x509_certificate(der.signed(tbs, der.children(tbs)[2], b""))
    return int(whole.not_valid_after_utc.timestamp()) * SECOND


async def _issued(log: CaLog, prepared: Prepared, index: int, batch: tuple[int, int]) -> Issued:
    start, end = next(one for one in cover(*batch) if one[0] <= index < one[1])
    signed = await log.signer.sign(start, end)
    path = await log.log.inclusion(index, start, end)
    leaf = log.log.hash.leaf(log.entry_of(prepared.tbs))
    if evaluate(log.log.hash, start, end, index, leaf=leaf, proof=path) != signed.root:
        raise Internal(cause=f"the entry {index} of log {log.log.name} is not that of certificate {prepared.id}")
    proof = Proof(start=start, end=end, path=tuple(path), signatures=(signed.signature,))
    number = serial_of(log.number, index)
    certificate = certificate_of(log.settings.of_dialect, log.anchor, prepared.tbs, number, proof)
    faults.point("mtc.issue.signed")
    return Issued(der=certificate, chain=(), media_type=DER, serial=number.to_bytes((number.bit_length() + 7) // 8))
