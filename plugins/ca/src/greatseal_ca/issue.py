"""The issuer of ordinary certificates, and the service that protocols in front of the CA use."""

from collections.abc import Mapping, Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from greatseal import faults
from greatseal.api.acme import Identifier, RejectedIdentifier
from greatseal.api.issuance import (
    Certificate,
    CertificateRequest,
    Draft,
    IssuanceObserver,
    IssuanceRequest,
    Issued,
    Issuer,
    Prepared,
    Profile,
    SanInjector,
)
from greatseal.api.problems import Internal, NotFound, Unavailable
from greatseal.api.store import Refuse, Tx
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal_ca.authorities import Authorities
from greatseal_ca.build import assemble, draw_serial, hash_named_in
from greatseal_ca.csr import match, read_csr
from greatseal_ca.finalize import refused_key
from greatseal_ca.inventory import Inventory
from greatseal_ca.names import alternative_names, general_name
from greatseal_ca.profiles import Profiles

MEDIA_TYPE = "application/pem-certificate-chain"


class X509Issuer(Issuer):
    """Signs with the issuing key of the CA what was composed under a throw-away key and recorded."""

    issue_as = "x509"

    def __init__(self, host: Host, authorities: Authorities) -> None:
        self._host = host
        self._authorities = authorities
        self.draw_serial = draw_serial

    async def compose(self, request: IssuanceRequest, names: Sequence[x509.GeneralName]) -> Draft:
        issuing = self._authorities.of(request.ca_id)
        serial = self.draw_serial()
        tbs, begin, end = issuing.compose(request, names, serial, self._host.clock.now())
        return Draft(
            id=self._host.handles.new_id(),
            request=request,
            issue_as=self.issue_as,
            serial=serial,
            tbs=tbs,
            not_before=begin,
            not_after=end,
        )

    def prepare(self, tx: Tx, draft: Draft) -> Prepared:
        del tx  # the inventory's record is all that signing needs
        return Prepared(
            id=draft.id,
            issue_as=self.issue_as,
            ca_id=draft.request.ca_id,
            kid=self._authorities.of(draft.request.ca_id).signer.info.kid,
            serial=draft.serial,
            tbs=draft.tbs,
        )

    async def issue(self, prepared: Prepared) -> Issued:
        issuing = self._authorities.of(prepared.ca_id)
        if issuing.signer.info.kid != prepared.kid or prepared.serial is None:
            raise Unavailable("the CA cannot sign now", cause=f"CA {prepared.ca_id} has not the key {prepared.kid}")
        faults.point("ca.issue.signing")
        signature = await issuing.signer.sign(prepared.tbs, hash_alg=hash_named_in(prepared.tbs))
        faults.point("ca.issue.signed")
        der = assemble(prepared.tbs, signature)
        try:
            x509.load_der_x509_certificate(der).verify_directly_issued_by(issuing.certificate)
        except (InvalidSignature, ValueError, TypeError) as error:
            raise Internal(cause=f"the signature of key {prepared.kid} under certificate {prepared.id} is wrong: {error}") from None
        return Issued(der=der, chain=issuing.delivered, media_type=MEDIA_TYPE, serial=prepared.serial)

    async def settle(self, prepared: Prepared) -> Issued | None:
        """Signing again gives the same certificate where the key repeats itself; otherwise one may exist that nobody knows."""
        if prepared.ca_id not in self._authorities.ids:  # the CA was taken out of the configuration
            return None
        signer = self._authorities.of(prepared.ca_id).signer
        return await self.issue(prepared) if signer.deterministic and signer.info.kid == prepared.kid else None


class CertificateAuthority:
    """The service ISSUANCE (:class:`greatseal.api.issuance.Issuance`)."""

    def __init__(self, host: Host, profiles: Profiles, authorities: Authorities, inventory: Inventory) -> None:
        self._host = host
        self._profiles = profiles
        self._authorities = authorities
        self._inventory = inventory

    def profiles(self, ca_id: str | None = None) -> Mapping[str, Profile]:
        return self._profiles.of(self._ca(ca_id))

    def profile(self, requested: str | None, ca_id: str | None = None) -> Profile:
        return self._profiles.choose(requested, self._ca(ca_id))

    def check_validity(self, profile: Profile, not_before: int | None, not_after: int | None) -> None:
        window = self._authorities.of(profile.ca_id).window
        window.check(profile.validity_days, not_before, not_after, self._host.clock.now())

    def check_identifier(self, profile: Profile, identifier: Identifier) -> None:
        self._check_name(profile.ca_id, general_name(identifier))

    def read_csr(self, der: bytes) -> CertificateRequest:
        return read_csr(der)

    def match(self, csr: CertificateRequest, identifiers: Sequence[Identifier]) -> None:
        match(csr, identifiers)

    async def compose(self, request: IssuanceRequest) -> Draft:
        injected = [name for injector in self._host.components(SanInjector).values() for name in injector.names(request)]
        names = alternative_names(request.identifiers, injected)
        for name in names:
            self._check_name(request.ca_id, name)
        return await self._issuer(request.profile.issue_as).compose(request, names)

    def reserve(self, tx: Tx, draft: Draft) -> Prepared:
        if blocked := self._host.blocked_keys.find_in(tx, spki_sha256(draft.request.csr.public_key)):
            raise Refuse(refused_key(blocked))
        prepared = self._issuer(draft.issue_as).prepare(tx, draft)
        self._inventory.reserve(tx, draft, prepared)
        return prepared

    async def issue(self, prepared: Prepared) -> Issued:
        return await self._issuer(prepared.issue_as).issue(prepared)

    def record(self, tx: Tx, prepared: Prepared, issued: Issued) -> Certificate:
        certificate = self._inventory.record(tx, prepared, issued)
        for observer in self._host.components(IssuanceObserver).values():
            observer.issued(tx, certificate)
        return certificate

    def abandon(self, tx: Tx, prepared: Prepared) -> None:
        if self._inventory.give_up(tx, prepared):
            self._issuer(prepared.issue_as).abandoned(tx, prepared)

    def reserved(self, tx: Tx, id: str) -> Prepared | None:
        return self._inventory.reserved(tx, id)

    async def settle(self, prepared: Prepared) -> Issued | None:
        return await self._issuer(prepared.issue_as).settle(prepared)

    async def certificate(self, id: str) -> Certificate | None:
        return await self._host.db.read(self._inventory.find, id)

    def _check_name(self, ca_id: str, name: x509.GeneralName) -> None:
        if reason := self._authorities.of(ca_id).constraints.refusal(name):
            raise RejectedIdentifier(f"a certificate for this name would not verify: {reason}")

    def _ca(self, ca_id: str | None) -> str:
        known = self._authorities.ids
        if ca_id is not None and ca_id not in known:
            raise NotFound("there is no such CA")
        return ca_id or self._authorities.default_id

    def _issuer(self, issue_as: str) -> Issuer:
        issuer = self._host.components(Issuer).get(issue_as)
        if issuer is None:  # verified at the start for every profile; an old reservation may ask for one that is gone
            raise Unavailable("the certificate cannot be issued now", cause=f"no enabled plugin issues {issue_as!r}")
        return issuer
