"""The log as an observer of ordinary issuance: each certificate waits for it from the transaction that stored it on."""

from collections.abc import Collection

from greatseal import der
from greatseal.api.issuance import Certificate, IssuanceObserver
from greatseal.api.store import Tx
from greatseal_mtc.logs import Logs
from greatseal_mtc.recording import MTC, add_waiting
from greatseal_mtc.revoked import add_revoked

X509 = "x509"
"""The ``issue_as`` of what is logged. Certificates of CAs are not: an entry in the log would make them CAs below the log too."""


class MtcLog(IssuanceObserver):
    """Has certificates of CAs with a log appended to it."""

    def __init__(self, logs: Logs, ca_ids: Collection[str]) -> None:
        self._logs = logs
        self._ca_ids = frozenset(ca_ids)

    def issued(self, tx: Tx, certificate: Certificate) -> None:
        if certificate.ca_id in self._ca_ids and certificate.issue_as == X509 and certificate.der is not None:
            add_waiting(tx, certificate.id, certificate.ca_id, X509, der.children(certificate.der)[0])
            tx.after_commit(lambda: self._logs.wake(certificate.ca_id))

    def revoked(self, tx: Tx, certificate: Certificate, reason: int | None) -> None:  # noqa: ARG002  ranges have no reasons
        if certificate.ca_id in self._ca_ids and certificate.issue_as in {X509, MTC}:
            add_revoked(tx, certificate.id, certificate.ca_id, certificate.not_after)
