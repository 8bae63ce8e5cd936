"""Alternates of certificates: a form that comes later, and chains of a CA that others signed too.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Mapping, Sequence

from greatseal.api.alternates import Alternate, Alternates, NotYet
from greatseal.api.issuance import Certificate
from greatseal.api.problems import NotFound


class LandmarkRelative(Alternates):
    """A certificate of a Merkle tree that rests on a landmark, from the first landmark on that covers its entry."""

    name = "landmark"
    relation = "acme-optional-alternate"

    def __init__(self, indices: Mapping[str, int], landmarks: Mapping[int, tuple[bytes, bytes]], interval: int) -> None:
        self.indices = indices
        self.landmarks = landmarks
        self.interval = interval

    async def offered(self, certificate: Certificate) -> Sequence[str]:
        return [self.name] if certificate.id in self.indices else []

    async def alternate(self, certificate: Certificate, key: str) -> Alternate | NotYet:
        if certificate.id not in self.indices:
            raise NotFound("it is in the log no more")
        size = min((one for one in self.landmarks if one > self.indices[certificate.id]), default=None)
        if size is None:
            return NotYet(seconds=self.interval)
        der, properties = self.landmarks[size]
        return Alternate(der=der, media_type="application/pkix-cert", properties=properties)


class OtherChains(Alternates):
    """Chains to roots that cross-signed the CA (RFC 8555 s7.4.2), by the CA."""

    name = "chain"
    relation = "alternate"

    def __init__(self, chains: Mapping[str, Sequence[tuple[bytes, ...]]]) -> None:
        self.chains = chains

    async def offered(self, certificate: Certificate) -> Sequence[str]:
        return [f"chain.{number}" for number, _ in enumerate(self.chains.get(certificate.ca_id, ()), 1)]

    async def alternate(self, certificate: Certificate, key: str) -> Alternate | NotYet:
        assert certificate.der is not None
        return Alternate(der=certificate.der, chain=self.chains[certificate.ca_id][int(key.removeprefix("chain.")) - 1])
