"""Issuing X.509 certificates: what is asked for, who may add to it, who signs.

The phases of one issuance, in order: ``authorize`` checks, the CSR is read and matched, ``csr`` checks, ``policy`` checks,
:meth:`Issuance.compose`, one transaction with :meth:`Issuance.reserve`, :meth:`Issuance.issue`, one transaction with
:meth:`Issuance.record`. Nothing is signed that was not recorded; who reserves must settle after a crash.

The authority composes and lints the content of every certificate: subject, key, names, usages, lifetime. The :class:`Issuer` of the profile
says what goes around it (:class:`Frame`) and signs.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeVar

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from greatseal.api.acme import AccountView, Identifier
from greatseal.api.problems import Conflict
from greatseal.api.store import Tx

if TYPE_CHECKING:
    from greatseal.api.inventory import CertificateQuery

S = TypeVar("S", bound=msgspec.Struct)

FinalizePhase = Literal["authorize", "csr", "policy"]


class IdentifierType(ABC):
    """A type of identifier that orders may name (RFC 8555 s9.7.7), from what a client writes to the name in the certificate.

    The certificate authority brings ``dns``, ``ip`` and ``email``. An order takes a type that some challenge validator can prove; a request
    (CSR) must hold the name of each identifier of the order, and no other that a type knows.
    """

    type: ClassVar[str]

    @abstractmethod
    def canonical(self, value: str) -> str:
        """The form in which the value is compared, kept and shown; unchanged for a value that has it.

        Raises RejectedIdentifier with the rule that the value breaks. ``value`` is whatever a stranger wrote.
        """

    @abstractmethod
    def general_name(self, value: str) -> x509.GeneralName:
        """The subject alternative name of a canonical value."""

    @abstractmethod
    def of(self, name: x509.GeneralName) -> str | None:
        """The canonical value that a name in a stranger's request stands for, None for a name of another type.

        Raises ValueError for one of its type that no order can hold, worded to follow "the subjectAltName holds".
        """


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """An issuing profile of `[profiles.<id>]`. Parameters of other plugins come from their own settings, by ``id``.

    ``path_length`` is None for end entities, and so in every profile of the configuration. Whoever cross-signs makes a profile with a
    number: its certificate is a CA's under which so many CAs may follow, with the subject of the request and no names.
    """

    id: str
    description: str
    issue_as: str
    ca_id: str
    validity_days: int
    eku: tuple[str, ...]
    path_length: int | None = None


class CertificateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A PKCS#10 request whose key and self-signature were checked.

    ``spki_sha256`` is the name under which its key would be blocked (:class:`greatseal.api.keys.BlockedKeys`), ``thumbprint`` the one of
    RFC 7638, None where JWK has no form for the key. ``names`` are those of the SAN and a hostname-shaped CN, in canonical form;
    ``common_names`` are those of the subject that are ASCII, as written. ``der`` is what was sent; ``csr`` is the same with the version of
    RFC 2986, whatever version was sent.
    """

    der: bytes
    spki: bytes
    spki_sha256: str
    public_key: CertificatePublicKeyTypes
    thumbprint: str | None
    names: frozenset[Identifier]
    common_names: tuple[str, ...] = ()
    csr: x509.CertificateSigningRequest


class ProvenIdentifier(msgspec.Struct, frozen=True, kw_only=True):
    """An identifier of an order, wildcard prefix and all, with the challenge type that proved it."""

    identifier: Identifier
    validated_by: str


class Finalization(msgspec.Struct, frozen=True, kw_only=True):
    """What a finalize check decides on. ``csr`` is None in the phase ``authorize``.

    ``payload`` is the whole JSON object that the client sent: ``csr``, and what other documents add to it (RFC 9799 s6.4: ``onionCAA``).
    """

    order_id: str
    profile: Profile
    identifiers: tuple[ProvenIdentifier, ...]
    account: AccountView
    csr: CertificateRequest | None
    ca_id: str
    payload: Mapping[str, object]


class FinalizeCheck(ABC):
    """May refuse a finalization. All must pass; the first that refuses is told to the client and, by its name, to the audit log."""

    name: ClassVar[str]
    """Lower-case words with hyphens, as ``account-grant``."""
    phase: ClassVar[FinalizePhase]
    order: ClassVar[int] = 100
    """Checks of one phase run from the lowest to the highest, of one number in the order of their names.

    In ``authorize``: 10 for the patterns of the profile, 20 for its hook, 30 for the grants of the account.
    """

    @abstractmethod
    async def check(self, finalization: Finalization) -> None:
        """Raises a Problem to refuse; the order stays ready."""


class IssuanceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to certify. ``not_before`` and ``not_after`` are microseconds, None for the profile's choice."""

    profile: Profile
    ca_id: str
    identifiers: tuple[Identifier, ...]
    csr: CertificateRequest
    account: AccountView | None
    order_id: str | None = None
    not_before: int | None = None
    not_after: int | None = None


class SanInjector(ABC):
    """Adds names to the SAN of a certificate."""

    name: ClassVar[str]

    @abstractmethod
    def names(self, issuance: IssuanceRequest) -> Sequence[x509.GeneralName]:
        """Called once per certificate, before composing. Raises a Problem to refuse."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A composed and linted to-be-signed certificate. It was not signed by the CA's key.

    ``kid``, ``serial`` and ``crl_shard`` are those of the issuer's :class:`Frame`. ``id`` stays that of the :class:`Prepared` and of the
    :class:`Certificate`.
    """

    id: str
    request: IssuanceRequest
    issue_as: str
    kid: str
    serial: bytes | None
    tbs: bytes
    not_before: int
    not_after: int
    crl_shard: int | None = None


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded draft: it may be signed. All that :meth:`Issuer.issue` needs, also after a restart."""

    id: str
    issue_as: str
    ca_id: str
    kid: str
    serial: bytes | None
    tbs: bytes


class Issued(msgspec.Struct, frozen=True, kw_only=True):
    """A signed certificate. ``chain`` holds the issuers in order, without the leaf; ``serial`` is the one in ``der``."""

    der: bytes
    chain: tuple[bytes, ...]
    media_type: str
    serial: bytes


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Within which certificates live, both ends included. Microseconds, on whole seconds."""

    begin: int
    end: int


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What an issuer puts around the content. ``issuer`` is a DER Name, ``algorithm`` a DER AlgorithmIdentifier, spliced in as they are.

    ``kid`` names the key that will sign. ``serial`` is the content of a DER INTEGER without sign byte, positive, of 64 to 159 bits, and one
    that nobody else has; None: the issuer gives the number when it issues, and the recorded part says 1. ``extensions`` come after those of
    the content, and are of other kinds. ``crl_shard`` is the list of the CA on which the certificate is told when it is revoked, None where
    the issuer itself tells of that.
    """

    kid: str
    issuer: bytes
    algorithm: bytes
    serial: bytes | None
    extensions: tuple[x509.Extension[x509.ExtensionType], ...] = ()
    crl_shard: int | None = None


Change = Literal["serial", "issuer", "algorithm", "validity", "subject", "extensions"]
"""A field of a to-be-signed certificate that an issuer may give another value than the recorded one. The key is always the recorded one."""


class Issuer(ABC):
    """Signs in one manner, chosen by a profile's ``issue_as``. Kill points are between all methods.

    The authority composes and lints; it holds what comes back from :meth:`issue` and :meth:`settle` against the record, and records nothing
    that differs in another field than those of ``changes``. With ``extensions`` among them, names, extended key usages and the CA flag must
    be those of the record all the same.
    """

    issue_as: ClassVar[str]
    changes: ClassVar[frozenset[Change]] = frozenset()
    """What may differ from the record."""
    signs_cas: ClassVar[bool] = False
    """Whether it takes CA certificates (cross-signing)."""
    pem_label: ClassVar[str] = "CERTIFICATE"
    """What stands in the first line of its certificates in PEM (RFC 7468) where operators fetch them."""

    @abstractmethod
    def bounds(self, ca_id: str) -> Bounds:
        """Within which its certificates live: asked when an order is made and when a certificate is composed. No I/O. Raises Unavailable
        when the CA cannot issue now."""

    @abstractmethod
    def frame(self, request: IssuanceRequest) -> Frame:
        """What goes around the content; asked before composing, and again after :class:`SerialTaken`. No I/O. Raises a Problem for a wish
        that this issuer cannot grant, Unavailable when it has no key."""

    def prepare(self, tx: Tx, draft: Draft) -> None:
        """In the transaction of the record, which the authority makes: only what the issuer needs besides, under the id of ``draft``, such
        as a queued log entry or the CSR."""

    @abstractmethod
    async def issue(self, prepared: Prepared) -> Issued:
        """Sign what was recorded. Calling it twice does no harm.

        Raises Unavailable when key or log cannot be used now; the reservation stays and can be issued, settled or abandoned later.
        """

    @abstractmethod
    async def settle(self, prepared: Prepared) -> Issued | None:
        """After a crash: the same certificate that :meth:`issue` gave or would have given; None when that cannot be known.

        Raises Unavailable when it may be known later: it is asked again, and the record stays signing.
        """

    def abandoned(self, tx: Tx, prepared: Prepared) -> None:
        """In the transaction that gives a reservation up: undo what :meth:`prepare` queued. It is not issued any more."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """An inventory record. ``status`` signing becomes issued or, after a crash that hid the outcome, unknown (published as revoked).

    Moments are microseconds; ``serial`` is the DER content without sign byte, None only where the log has not given the number yet;
    ``reason`` is a CRLReason of RFC 5280 s5.3.1, None where none was given; ``crl_shard`` as in :class:`Frame`, ``issue_as`` as in
    :class:`Issuer`."""

    id: str
    status: Literal["signing", "issued", "unknown", "revoked"]
    ca_id: str
    profile: str
    serial: bytes | None
    account_id: str | None
    order_id: str | None
    spki_sha256: bytes
    not_before: int
    not_after: int
    der: bytes | None
    chain: tuple[bytes, ...]
    media_type: str
    revoked_at: int | None = None
    reason: int | None = None
    crl_shard: int | None = None
    issue_as: str = "x509"


class IssuanceObserver(ABC):
    """Told of issued and revoked certificates, in their transaction."""

    @abstractmethod
    def issued(self, tx: Tx, certificate: Certificate) -> None:
        """The certificate is in the inventory; what this writes commits with it. Never raises: issuance must succeed."""

    def revoked(self, tx: Tx, certificate: Certificate, reason: int | None) -> None:
        """In the transaction of its revocation, and again when its reason becomes keyCompromise. Never raises, as :meth:`issued`."""


class Issuance(Protocol):
    """The certificate authority, for protocols in front of it. ACME is one."""

    def profiles(self, ca_id: str | None = None) -> Mapping[str, Profile]:
        """The profiles that the CA offers, by id."""

    def profile(self, requested: str | None, ca_id: str | None = None) -> Profile:
        """The profile asked for, or the default. Raises InvalidProfile."""

    def check_validity(self, profile: Profile, not_before: int | None, not_after: int | None) -> None:
        """Whether a new order's wishes can be granted, so that they are never ignored later. Microseconds. Raises BadRequest; Unavailable
        when the CA can grant no wish at all, because its certificate has ended."""

    def check_identifier(self, profile: Profile, identifier: Identifier) -> None:
        """Whether the certificates of the CA itself let it certify the identifier (RFC 5280 s4.2.1.10). Raises RejectedIdentifier;
        UnsupportedIdentifier for a type that nobody brings."""

    def read_csr(self, der: bytes) -> CertificateRequest:
        """Decode and check key, encoding and self-signature. Raises BadCsr."""

    def match(self, csr: CertificateRequest, identifiers: Sequence[Identifier]) -> None:
        """The names of the request must be exactly the identifiers (RFC 8555 s7.4). Raises BadCsr naming the difference."""

    async def compose(self, request: IssuanceRequest) -> Draft:
        """Names are injected, the content is composed in the issuer's frame and linted. Changes nothing; may be thrown away. Raises a
        Problem for a wish that cannot be granted, Internal when the lint finds a fault of ours."""

    def reserve(self, tx: Tx, draft: Draft) -> Prepared:
        """Record the draft as signing, in the caller's transaction. Raises ``Refuse(SerialTaken())``: compose again."""

    async def issue(self, prepared: Prepared) -> Issued:
        """Sign. Raises Unavailable when the key cannot be used now, Internal when what the issuer returned is not what was recorded: the
        record stays signing."""

    def record(self, tx: Tx, prepared: Prepared, issued: Issued) -> Certificate:
        """Store the certificate as issued, tell the observers, write ``cert.issue``. Raises ``Refuse(Conflict)`` when the record is not
        signing any more: it was recorded or abandoned before."""

    def abandon(self, tx: Tx, prepared: Prepared) -> None:
        """Give up a reservation whose outcome cannot be known: the record becomes unknown and counts as revoked."""

    def reserved(self, tx: Tx, id: str) -> Prepared | None:
        """The reservation, as long as it is signing."""

    async def settle(self, prepared: Prepared) -> Issued | None:
        """Ask the issuer what became of a reservation. Raises as :meth:`issue` does."""

    async def certificate(self, id: str) -> Certificate | None:
        """The inventory record."""

    async def certificates(self, query: "CertificateQuery") -> Sequence[Certificate]:
        """The inventory records of a query."""

    def find(self, tx: Tx, ca_id: str, serial: bytes, issue_as: str = "x509") -> Certificate | None:
        """The certificate of that serial, which is of one CA and issuer alone."""

    def named(self, tx: Tx, key_identifier: bytes, serial: bytes) -> Certificate | None:
        """The certificate with that key identifier of its issuer and that serial (RFC 9773 s4.1); none before it has its ``der``."""

    def identical(self, tx: Tx, ca_id: str, der: bytes) -> Certificate | None:
        """The record of that very certificate, of whatever issuer of the CA. Raises ValueError for what is no certificate."""

    def own_keys(self) -> Mapping[bytes, str]:
        """The keys that sign X.509 certificates here, retired ones too: what each is of, in words, by the DER of its SubjectPublicKeyInfo.
        Complete from the lifespans of who requires this service on."""

    def revoke(self, tx: Tx, id: str, reason: int | None, *, by: str) -> Certificate:
        """Revoke an issued certificate, tell the observers, write ``cert.revoke``. ``by`` is who does it, for the audit log.

        ``reason`` is 0, 1, 3, 4, 5 or 9 of RFC 5280 s5.3.1, 0 the same as None. 1 (keyCompromise) blocks the key, and may be given a
        certificate that was revoked before. After the commit and before its reply the caller awaits :meth:`publish`.

        Raises ``Refuse``: NotFound for an unknown id, Conflict for one that is not issued or was revoked before, BadRequest for a reason
        that no certificate of an end entity may have.
        """

    async def publish(self, revoked: Sequence[Certificate]) -> None:
        """Before the reply of a revocation: what relying parties fetch from now on (CRL, OCSP) says so. A batch makes each CRL once.

        Raises Unavailable when a list cannot be signed now: the certificates are revoked all the same, and it is tried again."""


class SerialTaken(Conflict):
    """The drawn serial exists: compose again. Never reaches a client."""
