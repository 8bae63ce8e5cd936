"""A stranger's alternates in one file: the chain without its issuers' last, and a certificate that comes when it is told to.

Certificates of one profile alone have them. What is later, broken, or has properties, a test says.
"""

from collections.abc import Sequence

from greatseal import hookimpl
from greatseal.api.alternates import Alternate, Alternates, NotYet
from greatseal.api.components import Component
from greatseal.api.issuance import Certificate
from greatseal.api.problems import NotFound

PROPERTIES = bytes.fromhex("0008 0000 0004 81fd5901")
"""A list of one property, the trust anchor ID 32473.1."""


class OtherChains(Alternates):
    """``chain.0`` is the leaf alone, ``chain.1`` the leaf twice: what is in a chain is of no matter here."""

    name = "chain"
    relation = "alternate"

    async def offered(self, certificate: Certificate) -> Sequence[str]:
        return ["chain.0", "chain.1"] if certificate.ca_id == "default" else []

    async def alternate(self, certificate: Certificate, key: str) -> Alternate | NotYet:
        assert certificate.der is not None
        return Alternate(der=certificate.der, chain=(certificate.der,) * int(key.removeprefix("chain.")))


class Later(Alternates):
    """``later`` waits until ``there``."""

    name = "later"
    relation = "acme-optional-alternate"

    def __init__(self) -> None:
        self.there: Alternate | None = None
        self.broken = self.gone = False

    async def offered(self, certificate: Certificate) -> Sequence[str]:
        if self.broken:
            raise KeyError(certificate.id)
        return [self.name] if certificate.ca_id == "default" else []

    async def alternate(self, certificate: Certificate, key: str) -> Alternate | NotYet:
        if self.gone:
            raise NotFound("it was given up")
        return self.there or NotYet(seconds=60)

    async def properties(self, certificate: Certificate) -> bytes | None:
        if self.broken:
            raise KeyError(certificate.id)
        return PROPERTIES if certificate.ca_id == "default" else None


class Plugin:
    @hookimpl
    def components(self) -> Sequence[Component]:
        return [OtherChains(), Later()]
