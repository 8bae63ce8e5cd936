"""What operators see of certificates: their place in the log, and their standalone certificate."""

import base64
from collections.abc import Mapping, Sequence

from greatseal.api.inventory import CertificateDetails
from greatseal.api.issuance import Certificate
from greatseal.host import Host
from greatseal_mtc.recording import MTC, Entry, find_all


class LogDetails(CertificateDetails):
    """``mtc_log_number`` and ``mtc_log_index``, and where one is looked at ``mtc_standalone_der`` in base64."""

    name = "mtc"

    def __init__(self, host: Host) -> None:
        self._host = host

    async def members(self, certificates: Sequence[Certificate], *, whole: bool) -> Mapping[str, Mapping[str, object]]:
        entries = await self._host.db.read(find_all, [one.id for one in certificates])
        return {one.id: _members(entries[one.id], one, whole=whole) for one in certificates if one.id in entries}


def standalone_of(entry: Entry, certificate: Certificate | None) -> bytes | None:
    """The standalone certificate of an entry: its own, or the one that was issued as such; None as long as there is none."""
    if entry.issue_as == MTC:
        return None if certificate is None else certificate.der
    return entry.standalone


def _members(entry: Entry, certificate: Certificate, *, whole: bool) -> dict[str, object]:
    members: dict[str, object] = {} if entry.index is None else {"mtc_log_number": entry.log_number, "mtc_log_index": entry.index}
    standalone = standalone_of(entry, certificate) if whole else None
    if standalone is not None:
        members["mtc_standalone_der"] = base64.b64encode(standalone).decode()
    return members
