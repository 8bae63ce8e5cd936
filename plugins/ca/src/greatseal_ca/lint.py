"""What every certificate is held against before it is signed (BR 4.3.1.2). The checks read the encoded bytes, not what built them."""

import msgspec
from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from greatseal import der
from greatseal.api.issuance import Bounds, Frame
from greatseal.api.problems import Internal
from greatseal_ca.build import CA_USAGE, LEAF_USAGE, assemble
from greatseal_ca.constraints import Constraints
from greatseal_ca.settings import eku_oid
from greatseal_ca.validity import DAY, moment_of

_CONTENT = {
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.KEY_USAGE,
    ExtensionOID.EXTENDED_KEY_USAGE,
    ExtensionOID.SUBJECT_KEY_IDENTIFIER,
    ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
}
_CRITICAL = {ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE}
_LEAST_SERIAL_BITS = 64
_V3 = bytes.fromhex("a003020102")


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What was meant: content by profile and request, and the frame of the issuer. ``path_length`` None for an end entity."""

    frame: Frame
    bounds: Bounds
    spki: bytes
    names: frozenset[x509.GeneralName]
    eku: tuple[str, ...]
    path_length: int | None
    longest_days: int
    constraints: Constraints


def lint(tbs: bytes, expected: Expected) -> None:
    """Raises Internal, with every finding in its cause, when the certificate is not what was meant."""
    try:
        certificate = x509.load_der_x509_certificate(assemble(tbs, b""))
        checks = (_validity, _extensions, _constraints)
        findings = _frame(tbs, expected) + [finding for check in checks for finding in check(certificate, expected)]
    except (ValueError, x509.DuplicateExtension) as error:
        findings = [f"it cannot be read: {error}"]
    if findings:
        raise Internal(cause=f"lint of a to-be-signed certificate: {'; '.join(findings)}")


def _frame(tbs: bytes, expected: Expected) -> list[str]:
    version, serial, algorithm, issuer, _, _, spki, *_ = der.children(tbs)
    frame = expected.frame
    number = int.from_bytes(der.content(serial), signed=True)
    rules = {
        "the version is not v3": version == _V3,
        "the serial is not the issuer's": number == int.from_bytes(frame.serial or b"\x01"),
        "the serial is not a positive number of 64 to 159 bits": frame.serial is None or _LEAST_SERIAL_BITS <= number.bit_length() < 160,
        "the signature algorithm is not the issuer's": algorithm == frame.algorithm,
        "the issuer is not the issuer's name": issuer == frame.issuer,
        "the public key is not the one of the request": spki == expected.spki,
    }
    return [finding for finding, kept in rules.items() if not kept]


def _validity(certificate: x509.Certificate, expected: Expected) -> list[str]:
    begin, end = moment_of(certificate.not_valid_before_utc), moment_of(certificate.not_valid_after_utc)
    rules = {
        "notAfter is not after notBefore": begin < end,
        "the lifetime is longer than the profile's": end - begin <= expected.longest_days * DAY,
        "the lifetime is not within the issuer's": expected.bounds.begin <= begin and end <= expected.bounds.end,
    }
    return [finding for finding, kept in rules.items() if not kept]


def _extensions(certificate: x509.Certificate, expected: Expected) -> list[str]:
    found = {one.oid: one for one in certificate.extensions}
    framed = {one.oid: one for one in expected.frame.extensions}
    values = {oid: one.value for oid, one in found.items()}
    san = values.get(ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
    eku = values.get(ExtensionOID.EXTENDED_KEY_USAGE)
    usages = list(eku) if isinstance(eku, x509.ExtendedKeyUsage) else []
    names = list(san) if isinstance(san, x509.SubjectAlternativeName) else []
    critical = {oid for oid, one in found.items() if one.critical and oid in _CONTENT}
    must = _CRITICAL if certificate.subject.rdns else _CRITICAL | {ExtensionOID.SUBJECT_ALTERNATIVE_NAME}
    constraints, usage = values.get(ExtensionOID.BASIC_CONSTRAINTS), values.get(ExtensionOID.KEY_USAGE)
    rules = {
        "an extension is unknown": found.keys() <= _CONTENT | framed.keys(),
        "an extension of the issuer is another or missing": all(found.get(oid) == one for oid, one in framed.items()),
        "an extension of the issuer is one of the content": _CONTENT.isdisjoint(framed),
        "the wrong extensions are critical": critical == must,
        "the subject key identifier is missing": ExtensionOID.SUBJECT_KEY_IDENTIFIER in found,
        "the names are not those of the order": len(names) == len(expected.names) and frozenset(names) == expected.names,
        "extended key usages are not the profile's": usages == [eku_oid(name) for name in expected.eku],
    }
    if expected.path_length is None:
        rules |= {
            "it is a CA certificate": constraints == x509.BasicConstraints(ca=False, path_length=None),
            "keyUsage allows more than digitalSignature": usage == LEAF_USAGE,
            "the common name is none of the names": _common_names(certificate) <= {_text(name) for name in names},
        }
    else:
        rules |= {
            "it is no CA certificate of that path length": constraints == x509.BasicConstraints(ca=True, path_length=expected.path_length),
            "keyUsage is not a CA's": usage == CA_USAGE,
        }
    return [finding for finding, kept in rules.items() if not kept]


def _constraints(certificate: x509.Certificate, expected: Expected) -> list[str]:
    """What the certificates above it let this one be."""
    allowed = expected.constraints
    findings = [reason for name in expected.names if (reason := allowed.refusal(name))]
    findings += [f"the chain does not allow the extended key usage {name}" for name in allowed.refused_usages(expected.eku)]
    return findings if allowed.allows_subject(certificate.subject) else [*findings, "the chain does not allow the subject"]


def _common_names(certificate: x509.Certificate) -> set[str]:
    return {str(attribute.value) for attribute in certificate.subject}


def _text(name: x509.GeneralName) -> str:
    return str(name.value)
