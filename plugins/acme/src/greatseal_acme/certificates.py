"""Downloads of certificates (RFC 8555 s7.4.2): the leaf first, then its issuers."""

import base64
from collections.abc import Iterable

from greatseal.api.acme import AccountView
from greatseal.api.http import Reply
from greatseal.api.issuance import Certificate, Issuance
from greatseal.api.problems import NotFound
from greatseal_acme.protocol.objects import not_found
from greatseal_acme.protocol.urls import is_id

PEM_CHAIN = "application/pem-certificate-chain"
DER = "application/pkix-cert"


class Certificates:
    """Certificates that came from orders."""

    def __init__(self, issuance: Issuance) -> None:
        self._issuance = issuance

    async def of_account(self, id: str, account: AccountView, ca_id: str) -> Reply:
        """For the account that ordered it alone."""
        certificate = await self._find(id, ca_id)
        if certificate is None or certificate.account_id != account.id:
            raise not_found()
        return download(certificate)

    async def of_anybody(self, id: str, ca_id: str) -> Reply:
        """For whoever has the URL."""
        certificate = await self._find(id, ca_id)
        if certificate is None:
            raise NotFound("there is no certificate at this URL")
        return download(certificate)

    async def _find(self, id: str, ca_id: str) -> Certificate | None:
        found = await self._issuance.certificate(id) if is_id(id) else None
        if found is None or found.ca_id != ca_id:
            return None
        return found if found.order_id is not None and found.der is not None else None


def download(certificate: Certificate) -> Reply:
    """PEM with the chain; DER where the certificate is of a kind without PEM (CA-116)."""
    assert certificate.der is not None
    if certificate.media_type == DER:
        return Reply(body=certificate.der, content_type=DER)
    return Reply(body=pem_of([certificate.der, *certificate.chain]), content_type=PEM_CHAIN)


def pem_of(chain: Iterable[bytes]) -> bytes:
    """The strict form of RFC 7468: lines of 64 characters, nothing between the certificates."""
    return b"".join(b"-----BEGIN CERTIFICATE-----\n" + _lines(der) + b"-----END CERTIFICATE-----\n" for der in chain)


def _lines(der: bytes) -> bytes:
    text = base64.b64encode(der)
    return b"".join(text[at : at + 64] + b"\n" for at in range(0, len(text), 64))
