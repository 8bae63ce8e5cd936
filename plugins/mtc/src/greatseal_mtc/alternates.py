"""The landmark-relative certificate beside that of an order (draft-ietf-plants-merkle-tree-certs-05 s9), and what belongs to each."""

from collections.abc import Sequence

from greatseal.api.alternates import Alternate, Alternates, NotYet
from greatseal.api.issuance import Certificate
from greatseal.api.problems import NotFound
from greatseal.host import Host
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.documents import DER
from greatseal_mtc.logs import Logs
from greatseal_mtc.properties import Inclusion, Properties
from greatseal_mtc.recording import MTC, Entry, find
from greatseal_mtc.routes import retry_after
from greatseal_mtc.stored_landmarks import covering

__all__ = ["LandmarkRelative"]


class LandmarkRelative(Alternates):
    """Of every certificate that is in a log, or waits for it."""

    name = "landmark"
    relation = "acme-optional-alternate"

    def __init__(self, host: Host, logs: Logs) -> None:
        self._host = host
        self._logs = logs

    async def offered(self, certificate: Certificate) -> Sequence[str]:
        found = await self._entry(certificate)
        return [] if found is None else [self.name]

    async def alternate(self, certificate: Certificate, key: str) -> Alternate | NotYet:  # noqa: ARG002  # there is one
        log, entry = self._logs.of(certificate.ca_id), await self._entry(certificate)
        if entry is None or certificate.der is None:
            raise NotFound("the certificate is in no log")
        if entry.index is None or entry.log_number is None:
            return NotYet(seconds=retry_after(log))
        found = await self._host.db.read(covering, log.ca_id, entry.log_number, entry.index)
        if found is None:
            if entry.log_number != log.number:
                raise NotFound("the log of the certificate gets no landmarks any more")
            return NotYet(seconds=retry_after(log))
        made = await log.landmarks.relative(entry, found) if entry.log_number == log.number else None
        if made is None:
            raise NotFound("the landmark of the certificate is not active any more")
        last = found.number + log.settings.max_active_landmarks - 1
        group = Inclusion(TrustAnchorId(f"{log.anchor.ascii}.2.{entry.log_number}"), found.number, last)
        properties = Properties(trust_anchor_id=log.anchor.landmark(entry.log_number, found.number), inclusions=(group,), negotiation=True)
        return Alternate(der=made, media_type=DER, properties=properties.encode())

    async def properties(self, certificate: Certificate) -> bytes | None:
        """Of a standalone certificate: the ID of its CA."""
        if certificate.issue_as != MTC or certificate.ca_id not in self._logs.open_logs:
            return None
        return Properties(trust_anchor_id=self._logs.of(certificate.ca_id).anchor, negotiation=True).encode()

    async def _entry(self, certificate: Certificate) -> Entry | None:
        return await self._host.db.read(find, certificate.id) if certificate.ca_id in self._logs.open_logs else None
