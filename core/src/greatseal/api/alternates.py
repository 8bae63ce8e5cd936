"""Other certificates beside the one that an order gave: another chain, a form that comes into being later, and what belongs to each.

The plugin acme reads them: it links them from the certificate, serves them below its URL, to whom it serves the certificate, and puts the
properties of a certificate before it where a client takes them.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec

from greatseal.api.components import Component
from greatseal.api.issuance import Certificate

__all__ = ["Alternate", "Alternates", "NotYet"]


class Alternate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate to download. ``chain`` holds its issuers in order, without the leaf.

    ``media_type`` is ``application/pem-certificate-chain``, or ``application/pkix-cert`` for a kind of certificate without chain.
    ``properties`` is the content of the PEM block CERTIFICATE PROPERTIES (draft-ietf-tls-trust-anchor-ids), None where there are none.
    """

    der: bytes
    chain: tuple[bytes, ...] = ()
    media_type: str = "application/pem-certificate-chain"
    properties: bytes | None = None


class NotYet(msgspec.Struct, frozen=True, kw_only=True):
    """It will be there later; ask again after ``seconds``."""

    seconds: int


class Alternates(Component):
    """Brings one kind of other certificates. ``name`` is lower-case words with hyphens, without a dot.

    An alternate stands at ``<URL of the certificate>/<its key>``. A key is ``name``, or ``name``, a dot and what tells several apart, as
    ``chain.2``: letters, digits, hyphens and dots.
    """

    relation: ClassVar[Literal["alternate", "acme-optional-alternate"]]
    """Of the links. ``alternate`` (RFC 8555 s7.4.2): the same certificate with another chain, there at once. ``acme-optional-alternate``
    (draft-ietf-plants-merkle-tree-certs s9): a certificate that a client may use besides, and may have to wait for."""

    @abstractmethod
    async def offered(self, certificate: Certificate) -> Sequence[str]:
        """The keys of those that ``certificate`` has or will have: the same at every call while they can be had, and none for a certificate
        of no concern. Asked at each download of a certificate, so cheap; what it raises is logged, and the certificate goes out without
        its links."""

    @abstractmethod
    async def alternate(self, certificate: Certificate, key: str) -> Alternate | NotYet:
        """The one of a key that :meth:`offered` just gave. Raises NotFound when it can be had no more."""

    async def properties(self, certificate: Certificate) -> bytes | None:
        """Those of ``certificate`` itself, as :attr:`Alternate.properties`; asked only for a client that takes them. Raises as
        :meth:`offered`."""
        return None
