"""The inventory of certificates, and what others add to what operators see of it."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import msgspec

from greatseal.api.components import Component
from greatseal.api.issuance import Certificate

__all__ = ["CertificateDetails", "CertificateQuery"]


class CertificateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Inventory records, newest first by the second in their ids: at most ``limit`` with an id below ``before``.

    A filter that is None lets all through. Moments are microseconds: made from ``since`` and before ``until``, ending from ``ends_since``
    and before ``ends_until``. ``spki_sha256`` is the SHA-256 of the key, ``name`` is one of the names of the certificate,
    or behind a dot a domain of two to five labels that one of them is below.
    """

    limit: int = 100
    before: str | None = None
    ca_id: str | None = None
    account_id: str | None = None
    status: str | None = None
    profile: str | None = None
    serial: bytes | None = None
    spki_sha256: bytes | None = None
    name: str | None = None
    since: int | None = None
    until: int | None = None
    ends_since: int | None = None
    ends_until: int | None = None


class CertificateDetails(Component):
    """What another plugin keeps about certificates: members that operators see beside those of the inventory."""

    @abstractmethod
    async def members(self, certificates: Sequence[Certificate], *, whole: bool) -> Mapping[str, Mapping[str, object]]:
        """By the ids of certificates, those of whom something is known. Values are fit for JSON; ``whole`` also gives what is long."""
