"""What every certificate is held against before it is signed (BR 4.3.1.2). The checks read the encoded bytes, not what built them."""

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtensionOID

from greatseal.api.problems import Internal
from greatseal_ca.constraints import Constraints
from greatseal_ca.settings import eku_oid
from greatseal_ca.validity import DAY, moment_of

_KNOWN = {
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.KEY_USAGE,
    ExtensionOID.EXTENDED_KEY_USAGE,
    ExtensionOID.SUBJECT_KEY_IDENTIFIER,
    ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    ExtensionOID.AUTHORITY_INFORMATION_ACCESS,
    ExtensionOID.CRL_DISTRIBUTION_POINTS,
}
_CRITICAL = {ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE}
_LEAST_SERIAL_BITS = 64


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What was meant: whom the certificate is for and who signs it."""

    issuer: x509.Certificate
    issuer_key_id: bytes
    algorithm: x509.ObjectIdentifier
    spki: bytes
    names: frozenset[x509.GeneralName]
    eku: tuple[str, ...]
    longest_days: int
    constraints: Constraints


def lint(certificate: x509.Certificate, expected: Expected) -> None:
    """Raises Internal, with every finding in its cause, when the certificate is not what was meant."""
    checks = (_frame, _validity, _extensions, _constraints)
    findings = [finding for check in checks for finding in check(certificate, expected)]
    if findings:
        raise Internal(cause=f"lint of a to-be-signed certificate: {'; '.join(findings)}")


def _frame(certificate: x509.Certificate, expected: Expected) -> list[str]:
    serial = certificate.serial_number
    spki = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    rules = {
        "the version is not v3": certificate.version is x509.Version.v3,
        "the serial is not a positive number of 64 to 159 bits": _LEAST_SERIAL_BITS <= serial.bit_length() < 160,
        "the signature algorithm is not the issuer's": certificate.signature_algorithm_oid == expected.algorithm,
        "the public key is not the one of the request": spki == expected.spki,
        "the issuer is not the subject of the issuing certificate": certificate.issuer == expected.issuer.subject,
        "the public key is that of the issuer": spki != _spki(expected.issuer),
    }
    return [finding for finding, kept in rules.items() if not kept]


def _spki(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _validity(certificate: x509.Certificate, expected: Expected) -> list[str]:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    issuer = expected.issuer
    rules = {
        "notAfter is not after notBefore": begin < end,
        "the lifetime is longer than the profile's": moment_of(end) - moment_of(begin) <= expected.longest_days * DAY,
        "the lifetime is not within the issuer's": issuer.not_valid_before_utc <= begin and end <= issuer.not_valid_after_utc,
    }
    return [finding for finding, kept in rules.items() if not kept]


def _extensions(certificate: x509.Certificate, expected: Expected) -> list[str]:
    found = {one.oid: one for one in certificate.extensions}
    values = {oid: one.value for oid, one in found.items()}
    san = values.get(ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
    aki = values.get(ExtensionOID.AUTHORITY_KEY_IDENTIFIER)
    eku = values.get(ExtensionOID.EXTENDED_KEY_USAGE)
    usages = list(eku) if isinstance(eku, x509.ExtendedKeyUsage) else []
    names = list(san) if isinstance(san, x509.SubjectAlternativeName) else []
    critical = {oid for oid, one in found.items() if one.critical}
    must = _CRITICAL if certificate.subject.rdns else _CRITICAL | {ExtensionOID.SUBJECT_ALTERNATIVE_NAME}
    rules = {
        "an extension is unknown": found.keys() <= _KNOWN,
        "the wrong extensions are critical": critical == must,
        "it is a CA certificate": values.get(ExtensionOID.BASIC_CONSTRAINTS) == x509.BasicConstraints(ca=False, path_length=None),
        "keyUsage allows more than digitalSignature": _signs_only(values.get(ExtensionOID.KEY_USAGE)),
        "the authority key identifier is not the issuer's": getattr(aki, "key_identifier", None) == expected.issuer_key_id,
        "the subject key identifier is missing": ExtensionOID.SUBJECT_KEY_IDENTIFIER in found,
        "the names are not those of the order": len(names) == len(expected.names) and frozenset(names) == expected.names,
        "the common name is none of the names": _common_names(certificate) <= {_text(name) for name in names},
        "extended key usages are not the profile's": usages == [eku_oid(name) for name in expected.eku],
    }
    return [finding for finding, kept in rules.items() if not kept]


def _constraints(certificate: x509.Certificate, expected: Expected) -> list[str]:
    """What the certificates above it let this one be."""
    allowed = expected.constraints
    findings = [reason for name in expected.names if (reason := allowed.refusal(name))]
    findings += [f"the chain does not allow the extended key usage {name}" for name in allowed.refused_usages(expected.eku)]
    return findings if allowed.allows_subject(certificate.subject) else [*findings, "the chain does not allow the subject"]


def _signs_only(usage: object) -> bool:
    return isinstance(usage, x509.KeyUsage) and usage.digital_signature and not (usage.key_cert_sign or usage.crl_sign)


def _common_names(certificate: x509.Certificate) -> set[str]:
    return {str(attribute.value) for attribute in certificate.subject}


def _text(name: x509.GeneralName) -> str:
    return str(name.value)
