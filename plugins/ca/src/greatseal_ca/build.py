"""To-be-signed certificates: built once under a throw-away key, recorded, then signed as they are (RFC 5280 s4.1)."""

import os
import re
from collections.abc import Callable, Sequence
from functools import cache

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.name import _ASN1Type  # the only door to the string type of a name attribute
from cryptography.x509.oid import NameOID

from greatseal import der
from greatseal.api.acme import Identifier, RejectedIdentifier
from greatseal.api.issuance import Frame, IssuanceRequest
from greatseal_ca.constraints import Constraints
from greatseal_ca.identifiers import Claim
from greatseal_ca.settings import ProfileSettings, eku_oid
from greatseal_ca.usages import key_usage, usages_of
from greatseal_ca.validity import Window, as_datetime

Extensions = tuple[x509.Extension[x509.ExtensionType], ...]

SERIAL_BYTES = 16
MAX_COMMON_NAME = 64
"""RFC 5280 appendix A: ub-common-name."""

CA_USAGE = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
    key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip
STAPLE = x509.TLSFeature([x509.TLSFeatureType.status_request])
"""The server must staple an OCSP answer (RFC 7633)."""

_NOBODY = x509.Name([])
_SHA256 = hashes.SHA256()
# X.680 41.4
_PRINTABLE = re.compile(r"[A-Za-z0-9 '()+,\-./:=?]*", re.ASCII)


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate says, whoever issues it. Moments are microseconds on whole seconds."""

    subject: x509.Name
    public_key: CertificatePublicKeyTypes
    not_before: int
    not_after: int
    extensions: Extensions


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate is made of: the wish, all names of the SAN, the frame of its issuer, and what bounds it.

    ``claims`` are of the identifiers that are no names, ``called`` is what they are called where there is no name. ``own`` are the settings
    of the profile, those of a plain one for a profile that is not configured. A ``root`` signs itself, and does not say how many CAs may
    follow.
    """

    request: IssuanceRequest
    own: ProfileSettings
    names: tuple[x509.GeneralName, ...]
    claims: tuple[Claim, ...] = ()
    called: tuple[str, ...] = ()
    frame: Frame
    window: Window
    constraints: Constraints
    root: bool = False

    def content(self, now: int) -> Content:
        """What the certificate says, whoever issues it. Raises a Problem for a lifetime or a name that cannot be granted."""
        request, profile, key = self.request, self.request.profile, self.request.csr.public_key
        begin, end = self.window.choose(profile.validity_days, request.not_before, request.not_after, now)
        if profile.path_length is None:
            usages = usages_of(key, profile.id, self.own)
            name = subject(self.own, request.identifiers, request.csr.common_names, self.called)
            self.constraints.check(self.names)
            if not self.constraints.allows_subject(name):
                name = _NOBODY
            if not name.rdns and not self.names:
                raise RejectedIdentifier("the certificate would have neither subject nor name (RFC 5280 s4.1.2.6); order a name too")
            given = (profile.eku, usages, self.own.policies, self.staples)
            extensions = (*leaf_extensions(key, self.names, given, empty_subject=not name.rdns), *(one.extension for one in self.claims))
        else:
            name = request.csr.csr.subject
            wished = request.csr.csr.extensions
            asked = next((one.value.digest for one in wished if isinstance(one.value, x509.SubjectKeyIdentifier)), None)
            extensions = ca_extensions(key, profile.eku, path_length=self.path_length, key_id=asked)
        return Content(subject=name, public_key=key, not_before=begin, not_after=end, extensions=extensions)

    @property
    def path_length(self) -> int | None:
        """How many CAs may follow, as a certificate of a CA says it."""
        return None if self.root else self.request.profile.path_length

    @property
    def staples(self) -> bool:
        """Whether the certificate says that its server must staple."""
        wish = self.own.must_staple
        return wish == "always" or (wish == "request" and wants_staple(self.request.csr.csr))


def to_be_signed(content: Content, frame: Frame) -> bytes:
    """The content in its frame. What the library signs to encode it, nobody sees."""
    copy = x509.CertificateBuilder(
        _NOBODY,
        content.subject,
        content.public_key,
        int.from_bytes(frame.serial or b"\x01"),
        as_datetime(content.not_before),
        as_datetime(content.not_after),
        [*content.extensions, *frame.extensions],
    ).sign(_throw_away_key(), _SHA256)
    version, serial, _algorithm, _issuer, *rest = der.children(copy.tbs_certificate_bytes)
    return der.sequence(version, serial, frame.algorithm, frame.issuer, *rest)


def subject_of(certificate: x509.Certificate) -> bytes:
    """The subject as it stands in the certificate: those below it name their issuer with the same bytes."""
    # version, serialNumber, signature, issuer, validity, subject
    return der.children(certificate.tbs_certificate_bytes)[5]


def subject(own: ProfileSettings, identifiers: Sequence[Identifier], wishes: Sequence[str], called: Sequence[str] = ()) -> x509.Name:
    """The subject: what the profile says of it, and a wished common name that is an identifier, else the first DNS name that is short
    enough, else the first of ``called``, else none."""
    fixed = fixed_subject(own.subject_country, own.subject_organization)
    if own.subject == "none":
        return x509.Name(fixed)
    names = [one.value for one in identifiers if one.type == "dns" and len(one.value) <= MAX_COMMON_NAME]
    wished = [name for name in (wish.lower() for wish in wishes) if name in names]
    return x509.Name([*fixed, *(common_name(name) for name in (wished or names or called)[:1])])


@cache
def fixed_subject(country: str | None, company: str | None) -> tuple[x509.NameAttribute[str], ...]:
    """What the subjects of a profile have in common."""
    return (
        *([x509.NameAttribute(NameOID.COUNTRY_NAME, country)] if country else []),
        *([organization(company)] if company else []),
    )


def wants_staple(csr: x509.CertificateSigningRequest) -> bool:
    """Whether the request asks for a certificate that says so."""
    return any(isinstance(one.value, x509.TLSFeature) and x509.TLSFeatureType.status_request in one.value for one in csr.extensions)


def common_name(value: str) -> x509.NameAttribute[str]:
    """A commonName: PrintableString where its characters allow, else UTF8String (CA document, log content rule 3)."""
    return x509.NameAttribute(NameOID.COMMON_NAME, value, _string_type(value))


def organization(value: str) -> x509.NameAttribute[str]:
    """An organizationName with the string type of :func:`common_name`."""
    return x509.NameAttribute(NameOID.ORGANIZATION_NAME, value, _string_type(value))


def _string_type(value: str) -> _ASN1Type:
    return _ASN1Type.PrintableString if _PRINTABLE.fullmatch(value) else _ASN1Type.UTF8String


Given = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], bool]
"""Extended key usages, key usages and policies, and whether servers must staple."""


def leaf_extensions(key: CertificatePublicKeyTypes, names: Sequence[x509.GeneralName], given: Given, *, empty_subject: bool) -> Extensions:
    """What every issuer puts into the certificate of an end entity. The SAN is critical where the subject is empty (RFC 5280 s4.2.1.6)."""
    return (
        *_of_profile(given),
        extension(x509.SubjectKeyIdentifier.from_public_key(key)),
        *([extension(x509.SubjectAlternativeName(names), critical=empty_subject)] if names else []),
    )


def ca_extensions(
    key: CertificatePublicKeyTypes, eku: tuple[str, ...] = (), *, path_length: int | None, key_id: bytes | None = None
) -> Extensions:
    """What every issuer puts into a CA certificate. ``key_id`` is what the CA calls its key where that is not the usual digest of it."""
    own = x509.SubjectKeyIdentifier(key_id) if key_id else x509.SubjectKeyIdentifier.from_public_key(key)
    return (
        extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True),
        extension(CA_USAGE, critical=True),
        *_extended(eku),
        extension(own),
    )


@cache
def _of_profile(given: Given) -> Extensions:
    eku, usages, policies, staples = given
    constraints = extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    claimed = x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier(one), None) for one in policies])
    return (
        constraints,
        extension(key_usage(usages), critical=True),
        *_extended(eku),
        *([extension(claimed)] if policies else []),
        *([extension(STAPLE)] if staples else []),
    )


def _extended(eku: tuple[str, ...]) -> Extensions:
    return (extension(x509.ExtendedKeyUsage([eku_oid(name) for name in eku])),) if eku else ()


@cache
def _throw_away_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def extension(value: x509.ExtensionType, *, critical: bool = False) -> x509.Extension[x509.ExtensionType]:
    """An extension with its flag."""
    return x509.Extension(value.oid, critical, value)


def authority_key_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """The key identifier that certificates of ``issuer`` carry: its subjectKeyIdentifier, where it has one."""
    try:
        own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]  # CA key types only
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def draw_serial(draw: Callable[[int], bytes] = os.urandom) -> bytes:
    """A serial number: 126 random bits in 16 octets that begin with 01, so that it is positive and never shorter (BR 7.1)."""
    first, *rest = draw(SERIAL_BYTES)
    return bytes((first & 0x3F | 0x40, *rest))
