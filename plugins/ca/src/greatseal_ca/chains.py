"""What is looked at in the certificates of a CA that somebody brings, before it issues."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal.api.issuance import Profile
from greatseal.jose.acceptance import accept_public_key
from greatseal_ca.constraints import Constraints
from greatseal_ca.validity import as_datetime

ORDER = "the order is issuing CA first, root last"


def check_chain(certificates: Sequence[x509.Certificate], now: int) -> None:
    """Raises ValueError with the first reason for which these, issuing CA first and root last, are no chain of a CA that can issue now."""
    for certificate in certificates:
        if reason := _unfit(certificate, now):
            raise ValueError(f"{certificate.subject.rfc4514_string()}: {reason}")
    for child, parent in pairwise(certificates):
        if reason := _unproven(child, parent):
            raise ValueError(reason)
    # A trust anchor is a name and a key: how it signed itself, maybe with SHA-1, is not looked at (RFC 5280 s6.1.1).
    if certificates[-1].subject != certificates[-1].issuer:
        raise ValueError(f"the root is missing at the end; {ORDER}")


def constraint_problems(certificates: Sequence[x509.Certificate], profiles: Mapping[str, Profile]) -> list[str]:
    """What the certificates do not allow, of which one must be changed."""
    constraints = Constraints(certificates)
    problems = list(constraints.problems)
    for id, profile in profiles.items():
        if refused := constraints.refused_usages(profile.eku):
            problems.append(f"its extended key usages do not allow {', '.join(refused)} of [profiles.{id}] eku")
    return problems


def spki_of(certificate: x509.Certificate) -> bytes:
    """The key of a certificate, as it is encoded there."""
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def days_of(chain: Sequence[x509.Certificate]) -> int:
    """How many days all of them live."""
    return min((one.not_valid_after_utc - one.not_valid_before_utc + timedelta(seconds=1)).days for one in chain)


def _unfit(certificate: x509.Certificate, now: int) -> str | None:
    """Why the certificate is not that of a CA that can issue now."""
    try:
        accept_public_key(certificate.public_key())
    except (ValueError, UnsupportedAlgorithm) as error:
        return f"has a key that is not accepted: {error}"
    when = as_datetime(now)
    if certificate.not_valid_after_utc.replace(tzinfo=None) < when:
        return f"expired on {certificate.not_valid_after_utc:%Y-%m-%d}; renew the CA certificate"
    if certificate.not_valid_before_utc.replace(tzinfo=None) > when:
        return f"is valid from {certificate.not_valid_before_utc:%Y-%m-%d} on; check the clock"
    try:
        extensions = {type(one.value): one.value for one in certificate.extensions}
    except ValueError:
        return "has extensions that cannot be read"
    constraints, usage = extensions.get(x509.BasicConstraints), extensions.get(x509.KeyUsage)
    # Roots of old tools have no keyUsage; nobody looks at it in a trust anchor (RFC 5280 s6.1.1).
    may_sign = certificate.subject == certificate.issuer if usage is None else usage.key_cert_sign
    if constraints is None or not constraints.ca or not may_sign:
        return "is no CA certificate (basicConstraints CA:TRUE, keyUsage keyCertSign)"
    return None


def _unproven(child: x509.Certificate, parent: x509.Certificate) -> str | None:
    """Why it is not proven that ``parent``, which follows it, issued ``child``."""
    name, other = child.subject.rfc4514_string(), parent.subject.rfc4514_string()
    not_issued = f"{name} was not issued by {other}, which follows it; {ORDER}"
    if child.issuer != parent.subject:
        return not_issued
    try:
        child.verify_directly_issued_by(parent)
    except InvalidSignature:
        return not_issued
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        return f"the signature of {name} by {other} cannot be checked ({_signed_with(child)}): {error}"
    asked, own = _key_ids(child)[1], _key_ids(parent)[0]
    if asked and own and asked != own:  # OpenSSL does not take the two for a chain then
        return f"{name} names the issuing key {asked.hex()}, but {other} calls its key {own.hex()}; have it signed again"
    return None


def _key_ids(certificate: x509.Certificate) -> tuple[bytes | None, bytes | None]:
    """The identifiers of its own key and of the key that signed it, as far as it has them."""
    values = {type(one.value): one.value for one in certificate.extensions}
    own, issuer = values.get(x509.SubjectKeyIdentifier), values.get(x509.AuthorityKeyIdentifier)
    return own.digest if own else None, issuer.key_identifier if issuer else None


def _signed_with(certificate: x509.Certificate) -> str:
    """Hash and signature algorithm, as far as they are known."""
    oid = certificate.signature_algorithm_oid.dotted_string
    try:
        known = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        known = None
    return f"{known.name}, {oid}" if known else oid
