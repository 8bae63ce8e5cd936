"""A running service with ca and mtc, and the steps that a protocol in front of it takes."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal.api.acme import AccountView, Identifier
from greatseal.api.issuance import Certificate, Draft, IssuanceRequest, Prepared
from greatseal.api.services import ISSUANCE
from greatseal.testing.service import Service
from greatseal_mtc.logs import CaLog
from greatseal_mtc.recording import Entry, find
from greatseal_mtc.verify import Trust

ACCOUNT = AccountView(id="account-1", url="https://ca.example/acme/account/account-1", status="valid", thumbprint="x" * 43)
ANCHOR = "32473.1"
_KEY = ec.generate_private_key(ec.SECP256R1())


def csr_of(*names: str, key: Any = None) -> bytes:
    """A request for DNS names."""
    san = x509.SubjectAlternativeName([x509.DNSName(one) for one in names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).add_extension(san, critical=False)
    return builder.sign(key or _KEY, hashes.SHA256()).public_bytes(Encoding.DER)


class Desk(msgspec.Struct, frozen=True):
    """A service whose default CA has a log."""

    service: Service

    @property
    def issuance(self) -> Any:
        return self.service.kernel.service(ISSUANCE)

    @property
    def db(self) -> Any:
        return self.service.kernel.store

    @property
    def parts(self) -> Any:
        host = self.service.host("mtc")
        return self.service.kernel.hooks.instances["mtc"].parts(host)

    def log(self, ca_id: str = "default") -> CaLog:
        found: CaLog = self.parts.logs.open_logs[ca_id]
        return found

    async def draft(self, *names: str, profile: str | None = None, ca_id: str | None = None, key: Any = None) -> Draft:
        chosen = self.issuance.profile(profile, ca_id)
        identifiers = tuple(Identifier("dns", name) for name in names)
        csr = self.issuance.read_csr(csr_of(*names, key=key))
        request = IssuanceRequest(profile=chosen, ca_id=chosen.ca_id, identifiers=identifiers, csr=csr, account=ACCOUNT)
        draft: Draft = await self.issuance.compose(request)
        return draft

    async def prepare(self, *names: str, **more: Any) -> Prepared:
        prepared: Prepared = await self.db.write(self.issuance.reserve, await self.draft(*names, **more))
        return prepared

    async def certify(self, *names: str, **more: Any) -> Certificate:
        prepared = await self.prepare(*names, **more)
        certificate: Certificate = await self.db.write(self.issuance.record, prepared, await self.issuance.issue(prepared))
        return certificate

    async def revoke(self, certificate: Certificate) -> None:
        def run(tx: Any) -> Certificate:
            revoked: Certificate = self.issuance.revoke(tx, certificate.id, None, by="a test")
            return revoked

        await self.issuance.publish([await self.db.write(run)])

    def rows(self, statement: Any) -> Any:
        return self.db.read(lambda tx: tx.all(statement))

    async def entry(self, id: str) -> Entry | None:
        found: Entry | None = await self.db.read(find, id)
        return found

    async def logged(self, id: str) -> Entry:
        """The entry of a certificate when it has its index."""
        found = await self.entry(id)
        assert found is not None
        if found.index is None and found.tbs is not None:
            await self.log(found.ca_id).append(id, found.tbs)  # the same one that is on its way, perhaps
            found = await self.entry(id)
        assert found is not None
        return found

    def trust(self, ca_id: str = "default", **more: Any) -> Trust:
        """A relying party that trusts the CA."""
        log = self.log(ca_id)
        return Trust(
            dialect=log.settings.of_dialect,
            hash=log.log.hash,
            ca=log.anchor,
            cosigners={log.anchor: log.keys.cosigner_public},
            required=frozenset({log.anchor}),
            **more,
        )


@pytest.fixture
def open_desk(start_service: Callable[..., Awaitable[Service]]) -> Callable[..., Awaitable[Desk]]:
    """``await open_desk(mtc={...}, profiles={...})``."""

    async def start(*features: str, mtc: dict[str, Any] | None = None, **sections: Any) -> Desk:
        return Desk(await start_service("ca", "mtc", *features, mtc={"trust_anchor_id": ANCHOR, **(mtc or {})}, **sections))

    return start


@pytest.fixture
def at() -> type[Desk]:
    """``at(service)``: the desk of a service that a test runs itself."""
    return Desk
