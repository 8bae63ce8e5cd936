"""What every certificate is held against before it is signed (BR 4.3.1.2), and again when an issuer returns it.

The checks read the encoded bytes, not what built them.
"""

from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID

from greatseal import der
from greatseal.api.acme import Identifier
from greatseal.api.issuance import Issued, Issuer, Prepared
from greatseal.api.problems import Internal
from greatseal_ca.build import CA_USAGE, STAPLE, Composition, fixed_subject
from greatseal_ca.identifiers import Types, identifiers_within
from greatseal_ca.settings import ProfileSettings, eku_oid
from greatseal_ca.usages import certifies, key_type_of, key_usage, possible_usages
from greatseal_ca.validity import DAY, moment_of

_CONTENT = {
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.KEY_USAGE,
    ExtensionOID.EXTENDED_KEY_USAGE,
    ExtensionOID.SUBJECT_KEY_IDENTIFIER,
    ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    ExtensionOID.CERTIFICATE_POLICIES,
    ExtensionOID.TLS_FEATURE,
}
_OF_LEAVES = {ExtensionOID.SUBJECT_ALTERNATIVE_NAME, ExtensionOID.CERTIFICATE_POLICIES, ExtensionOID.TLS_FEATURE}
_CRITICAL = {ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE}
_LEAST_SERIAL_BITS = 64
_V3 = bytes.fromhex("a003020102")
_FIELDS = ("version", "serial", "algorithm", "issuer", "validity", "subject", "key", "extensions")


def lint(tbs: bytes, meant: Composition) -> None:
    """Raises Internal, with every finding in its cause, when the certificate is not what was meant."""
    try:
        fields, certificate = _read(tbs)
        findings = [*_frame(fields, certificate, meant), *_validity(certificate, meant), *_extensions(certificate, meant)]
        findings += meant.constraints.findings(meant.names, meant.request.profile.eku, certificate.subject)
    except (ValueError, x509.DuplicateExtension) as error:
        findings = [f"it cannot be read: {error}"]
    if findings:
        raise Internal(cause=f"lint of a to-be-signed certificate: {'; '.join(findings)}")


def check_returned(issuer: Issuer, prepared: Prepared, issued: Issued, types: Types) -> Issued:
    """The certificate, where it is the recorded one field by field, but for those that its issuer may change.

    Raises Internal that names what differs.
    """
    try:
        tbs, algorithm, _ = der.children(issued.der)
        if tbs == prepared.tbs and issued.serial == prepared.serial:
            return issued
        wrong = _differing(issuer, prepared.tbs, tbs)
        fields = der.children(tbs)
        if algorithm != fields[2]:
            wrong.append("the algorithm beside the signature")
        if issued.serial != _number(fields[1]):
            wrong.append("the serial that was told")
        if "extensions" in issuer.changes and _promised(prepared.tbs, types) != _promised(tbs, types):
            wrong.append("names, identifiers, extended key usages or CA flag")
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        wrong = [f"it cannot be read ({error})"]
    if wrong:
        what = f"issuer {issuer.issue_as!r} returned another certificate than the recorded {prepared.id}"
        raise Internal(cause=f"{what}: {', '.join(wrong)}; it is not recorded, mend or update its plugin")
    return issued


def _read(tbs: bytes) -> tuple[list[bytes], x509.Certificate]:
    """The fields of a to-be-signed part, and what the library reads of it, for which it needs a signature, be it an empty one."""
    fields = der.children(tbs)
    return fields, x509.load_der_x509_certificate(der.signed(tbs, fields[2], b""))


def _frame(fields: list[bytes], certificate: x509.Certificate, meant: Composition) -> list[str]:
    version, _, algorithm, issuer, _, _, spki, *_ = fields
    frame, number = meant.frame, certificate.serial_number
    rules = {
        "the version is not v3": version == _V3,
        "the serial is not the issuer's": number == int.from_bytes(frame.serial or b"\x01"),
        "the serial is not a positive number of 64 to 159 bits": frame.serial is None or _LEAST_SERIAL_BITS <= number.bit_length() < 160,
        "the signature algorithm is not the issuer's": algorithm == frame.algorithm,
        "the issuer is not the issuer's name": issuer == frame.issuer,
        "the public key is not the one of the request": spki == meant.request.csr.spki,
    }
    return [finding for finding, kept in rules.items() if not kept]


def _validity(certificate: x509.Certificate, meant: Composition) -> list[str]:
    begin, end = moment_of(certificate.not_valid_before_utc), moment_of(certificate.not_valid_after_utc)
    bounds, longest = meant.window.bounds, meant.window.days(meant.request.profile.validity_days, begin) * DAY
    rules = {
        "notAfter is not after notBefore": begin < end,
        "the lifetime is longer than the profile's": end - begin <= longest,
        "the lifetime is not within the issuer's": bounds.begin <= begin and end <= bounds.end,
    }
    return [finding for finding, kept in rules.items() if not kept]


def _extensions(certificate: x509.Certificate, meant: Composition) -> list[str]:
    profile = meant.request.profile
    found = {one.oid: one for one in certificate.extensions}
    framed, claims = ({one.oid: one for one in given} for given in (meant.frame.extensions, [claim.extension for claim in meant.claims]))
    values = {oid: one.value for oid, one in found.items()}
    san = values.get(ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
    eku = values.get(ExtensionOID.EXTENDED_KEY_USAGE)
    usages = list(eku) if isinstance(eku, x509.ExtendedKeyUsage) else []
    names = list(san) if isinstance(san, x509.SubjectAlternativeName) else []
    critical = {oid for oid, one in found.items() if one.critical and oid in _CONTENT}
    must = _CRITICAL if certificate.subject.rdns else _CRITICAL | {ExtensionOID.SUBJECT_ALTERNATIVE_NAME}
    constraints, usage = values.get(ExtensionOID.BASIC_CONSTRAINTS), values.get(ExtensionOID.KEY_USAGE)
    rules = {
        "an extension is unknown": found.keys() <= _CONTENT | framed.keys() | claims.keys(),
        "an extension of an identifier is another or missing": all(found.get(oid) == one for oid, one in claims.items()),
        "an extension of the issuer is another or missing": all(found.get(oid) == one for oid, one in framed.items()),
        "an extension of the issuer is one of the content": framed.keys().isdisjoint(_CONTENT | claims.keys()),
        "the wrong extensions are critical": critical == must,
        "the subject key identifier is missing": ExtensionOID.SUBJECT_KEY_IDENTIFIER in found,
        "the names are not those of the order": names == list(meant.names),
        "extended key usages are not the profile's": usages == [eku_oid(name) for name in profile.eku],
    }
    if profile.path_length is None:
        own = meant.own
        key_type = key_type_of(meant.request.csr.public_key)
        claimed, feature = values.get(ExtensionOID.CERTIFICATE_POLICIES), values.get(ExtensionOID.TLS_FEATURE)
        policies = list(claimed) if isinstance(claimed, x509.CertificatePolicies) else []
        rules |= {
            "it is a CA certificate": constraints == x509.BasicConstraints(ca=False, path_length=None),
            "the profile does not certify keys of this type": certifies(own.key_types, key_type),
            "keyUsage is another than the profile's": usage == key_usage(possible_usages(own.key_usage, key_type)),
            "the policies are not the profile's": [one.policy_identifier.dotted_string for one in policies] == list(own.policies),
            "must-staple is not what the profile says": feature == (STAPLE if meant.staples else None),
            "the subject is not the profile's": _subject_fits(certificate.subject, own),
            "the common name is none of the names": _common_names(certificate) <= {*map(_text, names), *meant.called},
        }
    else:
        rules |= {
            "an extension is for end entities alone": found.keys().isdisjoint(_OF_LEAVES),
            "it is no CA certificate of that path length": constraints == x509.BasicConstraints(ca=True, path_length=meant.path_length),
            "keyUsage is not a CA's": usage == CA_USAGE,
        }
    return [finding for finding, kept in rules.items() if not kept]


def _common_names(certificate: x509.Certificate) -> set[str]:
    return {str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)}


def _subject_fits(subject: x509.Name, own: ProfileSettings) -> bool:
    """What the profile says of every subject, and one common name at most; or nothing at all, where the chain allows no more."""
    fixed = list(fixed_subject(own.subject_country, own.subject_organization))
    rest = list(subject)[len(fixed) :]
    named = not rest or (own.subject == "common_name" and [one.oid for one in rest] == [NameOID.COMMON_NAME])
    return not subject.rdns or (list(subject)[: len(fixed)] == fixed and named)


def _text(name: x509.GeneralName) -> str:
    return str(name.value)


def _differing(issuer: Issuer, recorded: bytes, returned: bytes) -> list[str]:
    before, after = der.children(recorded), der.children(returned)
    if len(before) != len(after):
        raise ValueError("the number of its fields is another")
    fields = zip(_FIELDS, before, after, strict=True)
    return [name for name, one, other in fields if one != other and name not in issuer.changes]


def _promised(tbs: bytes, types: Types) -> tuple[frozenset[x509.GeneralName], frozenset[x509.ObjectIdentifier], bool, set[Identifier]]:
    """Names, extended key usages, CA flag, and the identifiers in extensions."""
    extensions = _read(tbs)[1].extensions
    found = {type(one.value): one.value for one in extensions}
    san, eku, constraints = (found.get(kind) for kind in (x509.SubjectAlternativeName, x509.ExtendedKeyUsage, x509.BasicConstraints))
    is_ca = constraints is not None and constraints.ca
    return frozenset(san or ()), frozenset(eku or ()), is_ca, identifiers_within(extensions, types)


def _number(serial: bytes) -> bytes:
    """The serial without sign byte."""
    content = der.content(serial)
    return content[1:] if content[:1] == b"\0" and len(content) > 1 else content
