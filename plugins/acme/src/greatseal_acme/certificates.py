"""Downloads of certificates (RFC 8555 s7.4.2): the leaf first, then its issuers; and of the alternates that others bring."""

import base64
from collections.abc import Callable, Iterable, Sequence

from greatseal.api.acme import AccountView
from greatseal.api.alternates import Alternate, Alternates, NotYet
from greatseal.api.http import Call, Reply
from greatseal.api.issuance import Certificate, Issuance
from greatseal.api.problems import NotFound
from greatseal.api.services import ISSUANCE
from greatseal.host import Host
from greatseal_acme.protocol.objects import not_found
from greatseal_acme.protocol.urls import Urls, is_id

PEM_CHAIN = "application/pem-certificate-chain"
WITH_PROPERTIES = "application/pem-certificate-chain-with-properties"
DER = "application/pkix-cert"


class Certificates:
    """Certificates that came from orders, and their alternates."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._issuance: Issuance = host.service(ISSUANCE)

    async def of_account(self, call: Call, account: AccountView, urls: Urls) -> Reply:
        """For the account that ordered it alone."""
        certificate = await self._find(call.path["id"], urls.ca_id)
        if certificate is None or certificate.account_id != account.id:
            raise not_found()
        return await self._answer(call, certificate, urls, not_found)

    async def of_anybody(self, call: Call, urls: Urls) -> Reply:
        """For whoever has the URL."""
        certificate = await self._find(call.path["id"], urls.ca_id)
        if certificate is None:
            raise _nothing()
        return await self._answer(call, certificate, urls, _nothing)

    async def _find(self, id: str, ca_id: str) -> Certificate | None:
        found = await self._issuance.certificate(id) if is_id(id) else None
        if found is None or found.ca_id != ca_id:
            return None
        return found if found.order_id is not None and found.der is not None else None

    async def _answer(self, call: Call, certificate: Certificate, urls: Urls, missing: Callable[[], Exception]) -> Reply:
        """The certificate with links to its alternates, or the alternate that the path names."""
        with_properties = takes_properties(call.header_values("Accept"))
        key = call.path.get("alternate")
        if key is None:
            properties = await self._properties(certificate) if with_properties else None
            return downloaded(certificate, properties).with_headers(*await self._links(certificate, urls))
        found = await self._alternate(certificate, key)
        if found is None:
            raise missing()
        if isinstance(found, NotYet):
            return Reply(status=202, headers=(("Retry-After", str(found.seconds)),))
        return download(found, found.properties if with_properties else None)

    async def _links(self, certificate: Certificate, urls: Urls) -> list[tuple[str, str]]:
        url = urls.certificate(certificate.id)
        return [
            ("Link", f'<{url}/{key}>;rel="{one.relation}"')
            for one in self._host.components(Alternates).values()
            for key in await self._offered(one, certificate)
        ]

    async def _alternate(self, certificate: Certificate, key: str) -> Alternate | NotYet | None:
        one = self._host.components(Alternates).get(key.partition(".")[0])
        if one is None or key not in await self._offered(one, certificate):
            return None
        return await one.alternate(certificate, key)

    async def _offered(self, one: Alternates, certificate: Certificate) -> Sequence[str]:
        try:
            return await one.offered(certificate)
        except Exception:  # the certificate itself is there: nobody who brings more may take it away
            self._host.log.exception("alternates cannot be told", certificate=certificate.id, alternates=one.name)
            return ()

    async def _properties(self, certificate: Certificate) -> bytes | None:
        for one in self._host.components(Alternates).values():
            try:
                found = await one.properties(certificate)
            except Exception:  # as above
                self._host.log.exception("properties cannot be told", certificate=certificate.id, alternates=one.name)
                continue
            if found is not None:
                return found
        return None


def takes_properties(accept: Iterable[str]) -> bool:
    """Whether a client named the media type with properties in its Accept (RFC 9110 s12.5.1), and did not weigh it with 0.

    A wildcard is no word for it: the draft has it sent to who names it.
    """
    for one in ",".join(accept).split(","):
        media_type, *parameters = (part.strip().lower() for part in one.split(";"))
        if media_type == WITH_PROPERTIES:
            return not any(name == "q" and not value.strip("0.") for name, _, value in (part.partition("=") for part in parameters))
    return False


def downloaded(certificate: Certificate, properties: bytes | None = None) -> Reply:
    """A certificate of an order."""
    assert certificate.der is not None
    return download(Alternate(der=certificate.der, chain=certificate.chain, media_type=certificate.media_type), properties)


def download(found: Alternate, properties: bytes | None = None) -> Reply:
    """PEM with the chain, after its properties where those are given; DER where the certificate is of a kind without PEM (CA-116)."""
    if properties is not None:
        blocks = pem("CERTIFICATE PROPERTIES", properties) + pem_of([found.der, *found.chain])
        return Reply(body=blocks, content_type=WITH_PROPERTIES)
    if found.media_type == DER:
        return Reply(body=found.der, content_type=DER)
    return Reply(body=pem_of([found.der, *found.chain]), content_type=PEM_CHAIN)


def pem_of(chain: Iterable[bytes]) -> bytes:
    """The strict form of RFC 7468: lines of 64 characters, nothing between the certificates."""
    return b"".join(pem("CERTIFICATE", der) for der in chain)


def pem(label: str, content: bytes) -> bytes:
    """One block of RFC 7468."""
    text = base64.b64encode(content)
    lines = b"".join(text[at : at + 64] + b"\n" for at in range(0, len(text), 64))
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label.encode(), lines, label.encode())


def _nothing() -> NotFound:
    return NotFound("there is no certificate at this URL")
