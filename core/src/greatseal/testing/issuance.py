"""ISSUANCE for unit tests, and what it is asked for."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from ipaddress import ip_address
from secrets import token_bytes

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal.api.acme import AccountView, BadCsr, Identifier, InvalidProfile, RejectedIdentifier, UnsupportedIdentifier
from greatseal.api.audit import AuditEvent
from greatseal.api.inventory import CertificateQuery
from greatseal.api.issuance import (
    Certificate,
    CertificateRequest,
    Draft,
    IssuanceObserver,
    IssuanceRequest,
    Issued,
    Prepared,
    Profile,
)
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Conflict, NotFound
from greatseal.api.store import Refuse, Tx
from greatseal.clock import FakeClock
from greatseal.host import Clock
from greatseal.jose.algorithms import PublicKey
from greatseal.jose.jwk import thumbprint_of
from greatseal.testing.kept import Kept

__all__ = ["PROFILE", "FakeIssuance", "csr_for", "issuance_for"]

DAY = 86_400 * SECOND
PROFILE = Profile(id="default", description="", issue_as="x509", ca_id="default", validity_days=1, eku=("serverAuth",))
REASONS = frozenset({0, 1, 3, 4, 5, 9})
"""CRLReasons of end entities (RFC 5280 s5.3.1)."""
KEY_COMPROMISE = 1
_SHA256 = hashes.SHA256()


def csr_for(*identifiers: Identifier, key: ec.EllipticCurvePrivateKey | None = None) -> CertificateRequest:
    """A request of a new key, or of ``key``, for identifiers of the types dns, ip and email."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if identifiers:
        builder = builder.add_extension(x509.SubjectAlternativeName(map(_general_name, identifiers)), critical=False)
    return _read(builder.sign(key, _SHA256))


def issuance_for(*identifiers: Identifier, account: AccountView | None = None, profile: Profile = PROFILE) -> IssuanceRequest:
    """What an authority is asked for, with a request of a new key; by default for ``a.example``."""
    wanted = identifiers or (Identifier("dns", "a.example"),)
    return IssuanceRequest(profile=profile, ca_id=profile.ca_id, identifiers=wanted, csr=csr_for(*wanted), account=account)


class FakeIssuance:
    """ISSUANCE (:class:`greatseal.api.issuance.Issuance`) with a key of its own, for identifiers of the types dns, ip and email.

    ``inventory`` has the records of committed transactions, by id. There is no lint and no log behind it. ``profile`` None gives the first
    one; ``refused`` are values that :meth:`check_identifier` rejects, ``published`` the revoked ones that :meth:`publish` was given.
    Observers are told as by the service; no key is blocked.
    """

    def __init__(self, *observers: IssuanceObserver, profiles: Sequence[Profile] = (PROFILE,), clock: Clock | None = None) -> None:
        self.observers = observers
        self.clock = clock or FakeClock()
        self.refused: frozenset[str] = frozenset()
        self.inventory: dict[str, Certificate] = {}
        self.published: list[Certificate] = []
        self._profiles = {profile.id: profile for profile in profiles}
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._key_identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        self._kept = Kept(self.inventory)
        self._signed: dict[str, x509.Certificate] = {}

    def profiles(self, ca_id: str | None = None) -> Mapping[str, Profile]:
        """As the contract says."""
        return {id: profile for id, profile in self._profiles.items() if ca_id in {None, profile.ca_id}}

    def profile(self, requested: str | None, ca_id: str | None = None) -> Profile:
        """As the contract says."""
        offered = self.profiles(ca_id)
        found = next(iter(offered.values()), None) if requested is None else offered.get(requested)
        if found is None:
            raise InvalidProfile("the profile is not offered")
        return found

    def check_validity(self, profile: Profile, not_before: int | None, not_after: int | None) -> None:
        """Refuses an end before the beginning and a longer time than the profile's."""
        begin, end = self._lifetime(profile, not_before, not_after)
        if not begin < end <= begin + profile.validity_days * DAY:
            raise BadRequest("notBefore and notAfter: expected a time within that of the profile")

    def check_identifier(self, profile: Profile, identifier: Identifier) -> None:  # noqa: ARG002  one CA has all profiles
        """As the contract says."""
        if identifier.type not in {"dns", "ip", "email"}:
            raise UnsupportedIdentifier("the type of the identifier is not offered")
        if identifier.value in self.refused:
            raise RejectedIdentifier("the identifier is not certified here")

    def read_csr(self, der: bytes) -> CertificateRequest:
        """As the contract says."""
        try:
            csr = x509.load_der_x509_csr(der)
        except ValueError:
            raise BadCsr("the request cannot be decoded") from None
        if not csr.is_signature_valid:
            raise BadCsr("the signature of the request is wrong")
        return _read(csr)

    def match(self, csr: CertificateRequest, identifiers: Sequence[Identifier]) -> None:
        """As the contract says."""
        if difference := sorted(csr.names ^ set(identifiers)):
            raise BadCsr(f"the request and the order differ in {difference[0].value}")

    async def compose(self, request: IssuanceRequest) -> Draft:
        """Without names of injectors. It is signed here and not shown before :meth:`issue`."""
        self.check_validity(request.profile, request.not_before, request.not_after)
        begin, end = self._lifetime(request.profile, request.not_before, request.not_after)
        id, serial = f"{len(self._signed) + 1:08x}-0000-8000-8000-000000000000", b"\x01" + token_bytes(15)
        certificate = self._certificate(request.identifiers, request.csr.csr.public_key(), serial, begin, end)
        self._signed[id] = certificate
        return Draft(
            id=id, request=request, issue_as=request.profile.issue_as, kid="fake", serial=serial, tbs=certificate.tbs_certificate_bytes,
            not_before=begin, not_after=end,
        )  # fmt: skip

    def reserve(self, tx: Tx, draft: Draft) -> Prepared:
        """As the contract says; no serial is ever taken."""
        request = draft.request
        record = Certificate(
            id=draft.id, status="signing", ca_id=request.ca_id, profile=request.profile.id, serial=draft.serial,
            account_id=None if request.account is None else request.account.id, order_id=request.order_id,
            spki_sha256=sha256(request.csr.spki).digest(), not_before=draft.not_before, not_after=draft.not_after, der=None, chain=(),
            media_type="application/pem-certificate-chain",
        )  # fmt: skip
        self._kept.put(tx, draft.id, record)
        return self._prepared(record)

    async def issue(self, prepared: Prepared) -> Issued:
        """As the contract says."""
        der = self._signed[prepared.id].public_bytes(Encoding.DER)
        assert prepared.serial is not None
        return Issued(der=der, chain=(), media_type="application/pem-certificate-chain", serial=prepared.serial)

    def record(self, tx: Tx, prepared: Prepared, issued: Issued) -> Certificate:
        """As the contract says."""
        certificate = msgspec.structs.replace(self._signing(tx, prepared.id), status="issued", der=issued.der, chain=issued.chain)
        self._kept.put(tx, certificate.id, certificate)
        for observer in self.observers:
            observer.issued(tx, certificate)
        tx.audit(AuditEvent(event_type="cert.issue", service="ca", detail=certificate.id))
        return certificate

    def abandon(self, tx: Tx, prepared: Prepared) -> None:
        """As the contract says."""
        self._kept.put(tx, prepared.id, msgspec.structs.replace(self._signing(tx, prepared.id), status="unknown"))

    def reserved(self, tx: Tx, id: str) -> Prepared | None:
        """As the contract says."""
        found = self._kept.get(tx, id)
        return self._prepared(found) if found is not None and found.status == "signing" else None

    async def settle(self, prepared: Prepared) -> Issued | None:
        """The certificate; None for one that another instance composed."""
        return await self.issue(prepared) if prepared.id in self._signed else None

    async def certificate(self, id: str) -> Certificate | None:
        """As the contract says."""
        return self.inventory.get(id)

    async def certificates(self, query: CertificateQuery) -> Sequence[Certificate]:
        """As the contract says; ids are in the order of their making."""
        below = [one for id, one in sorted(self.inventory.items(), reverse=True) if query.before is None or id < query.before]
        return [one for one in below if _is_asked(one, query)][: query.limit]

    def find(self, tx: Tx, ca_id: str, serial: bytes, issue_as: str = "x509") -> Certificate | None:
        """As the contract says."""
        found = (self._kept.get(tx, id) for id in self._kept.ids(tx))
        same = (one for one in found if one is not None and (one.ca_id, one.serial) == (ca_id, serial))
        return next((one for one in same if self._profiles[one.profile].issue_as == issue_as), None)

    def named(self, tx: Tx, key_identifier: bytes, serial: bytes) -> Certificate | None:
        """As the contract says; every certificate is of one key."""
        if key_identifier != self._key_identifier.key_identifier:
            return None
        found = (self._kept.get(tx, id) for id in self._kept.ids(tx))
        return next((one for one in found if one is not None and one.serial == serial and one.der is not None), None)

    def identical(self, tx: Tx, ca_id: str, der: bytes) -> Certificate | None:
        """As the contract says."""
        x509.load_der_x509_certificate(der)
        found = (self._kept.get(tx, id) for id in self._kept.ids(tx))
        return next((one for one in found if one is not None and (one.ca_id, one.der) == (ca_id, der)), None)

    def own_keys(self) -> Mapping[bytes, str]:
        """As the contract says."""
        return {self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo): "the key of the CA of a test"}

    def revoke(self, tx: Tx, id: str, reason: int | None, *, by: str) -> Certificate:
        """As the contract says."""
        found = self._kept.get(tx, id)
        if found is None:
            raise Refuse(NotFound("there is no such certificate"))
        if reason is not None and reason not in REASONS:
            raise Refuse(BadRequest("reason: expected one of an end entity (RFC 5280 s5.3.1)"))
        worse = found.status == "revoked" and reason == KEY_COMPROMISE != found.reason
        if found.status != "issued" and not worse:
            raise Refuse(Conflict("the certificate is not issued, or revoked already"))
        revoked = msgspec.structs.replace(found, status="revoked", revoked_at=found.revoked_at or tx.now, reason=reason or None)
        self._kept.put(tx, id, revoked)
        for observer in self.observers:
            observer.revoked(tx, revoked, revoked.reason)
        tx.audit(AuditEvent(event_type="cert.revoke", service="ca", principal=by, detail=id))
        return revoked

    async def publish(self, revoked: Sequence[Certificate]) -> None:
        """As the contract says."""
        self.published += revoked

    def _signing(self, tx: Tx, id: str) -> Certificate:
        found = self._kept.get(tx, id)
        if found is None or found.status != "signing":
            raise Refuse(Conflict("the record is not signing any more"))
        return found

    def _prepared(self, record: Certificate) -> Prepared:
        profile, signed = self._profiles[record.profile], self._signed[record.id]
        tbs = signed.tbs_certificate_bytes
        return Prepared(id=record.id, issue_as=profile.issue_as, ca_id=record.ca_id, kid="fake", serial=record.serial, tbs=tbs)

    def _lifetime(self, profile: Profile, not_before: int | None, not_after: int | None) -> tuple[int, int]:
        now = self.clock.now()
        begin = now - now % SECOND if not_before is None else not_before
        return begin, begin + profile.validity_days * DAY - SECOND if not_after is None else not_after

    def _certificate(
        self, identifiers: Sequence[Identifier], key: CertificatePublicKeyTypes, serial: bytes, begin: int, end: int
    ) -> x509.Certificate:
        names = x509.SubjectAlternativeName(map(_general_name, identifiers))
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "The CA of a test")])
        builder = x509.CertificateBuilder(issuer, x509.Name([]), key, int.from_bytes(serial), _moment(begin), _moment(end))
        extended = builder.add_extension(names, critical=True).add_extension(self._key_identifier, critical=False)
        return extended.sign(self._key, _SHA256)


def _is_asked(one: Certificate, query: CertificateQuery) -> bool:
    names = ("ca_id", "account_id", "status", "profile", "serial", "spki_sha256")
    same = all(getattr(query, name) in {None, getattr(one, name)} for name in names)
    begins = _is_within(one.not_before, query.since, query.until)
    return same and begins and _is_within(one.not_after, query.ends_since, query.ends_until) and _is_named(one, query.name)


def _is_within(moment: int, since: int | None, until: int | None) -> bool:
    return (since is None or moment >= since) and (until is None or moment < until)


def _is_named(one: Certificate, name: str | None) -> bool:
    if name is None or one.der is None:
        return name is None
    names = x509.load_der_x509_certificate(one.der).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    values = {str(each.value) for each in names}
    return name in values or (name[:1] == "." and any(value.replace("@", ".").endswith(name) for value in values))


def _read(csr: x509.CertificateSigningRequest) -> CertificateRequest:
    key = csr.public_key()
    if not isinstance(key, PublicKey):
        raise BadCsr("the type of the key is not accepted")
    try:
        names = frozenset(map(_identifier, csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value))
    except x509.ExtensionNotFound:
        names = frozenset()
    der = csr.public_bytes(Encoding.DER)
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    name = sha256(spki).hexdigest()
    return CertificateRequest(der=der, spki=spki, spki_sha256=name, public_key=key, thumbprint=thumbprint_of(key), names=names, csr=csr)


def _general_name(identifier: Identifier) -> x509.GeneralName:
    match identifier.type:
        case "dns":
            return x509.DNSName(identifier.value)
        case "ip":
            return x509.IPAddress(ip_address(identifier.value))
        case "email":
            return x509.RFC822Name(identifier.value)
        case other:
            raise UnsupportedIdentifier(f"{other} is not certified here")


def _identifier(name: x509.GeneralName) -> Identifier:
    match name:
        case x509.DNSName():
            return Identifier("dns", name.value)
        case x509.IPAddress():
            return Identifier("ip", str(name.value))
        case x509.RFC822Name():
            return Identifier("email", name.value)
        case _:
            raise BadCsr("the subjectAltName holds a name that no order can hold")


def _moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds // SECOND, UTC).replace(tzinfo=None)
