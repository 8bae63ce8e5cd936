"""Checking certificates of a log, as a relying party does (draft-ietf-plants-merkle-tree-certs-05 s7.2)."""

from collections.abc import Mapping, Sequence

import msgspec
from cryptography import x509

from greatseal.api.moments import SECOND
from greatseal_mtc.algorithms import BadSignature, CosignerKey, signature_algorithm, spki_of, verify
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import Dialect
from greatseal_mtc.hashes import Hash
from greatseal_mtc.merkle import Range, evaluate
from greatseal_mtc.structures import LandmarkCertificate, LogId
from greatseal_mtc.wire import Certificate, Place, Proof, Signature, cosigned_message, entry_of_tbs, parse_certificate, parse_tbs

__all__ = ["Refused", "Trust", "Verified", "verify_certificate", "verify_landmark"]


class Refused(ValueError):
    """A certificate that must not be trusted, with the reason."""


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a relying party trusts: one CA with its cosigners, and subtrees that it knows already."""

    dialect: Dialect
    hash: Hash
    ca: TrustAnchorId
    cosigners: Mapping[TrustAnchorId, CosignerKey]
    """The keys by their IDs, the CA's own among them."""
    required: frozenset[TrustAnchorId]
    """Whose signatures have to be there, the CA's among them as a rule."""
    quorum: int = 1
    """How many good signatures there have to be, theirs among them."""
    subtrees: Mapping[tuple[int, int, int], bytes] = {}
    """Hashes of subtrees, such as those of landmarks, by log number, start and end."""
    revoked: Sequence[Range] = ()
    """Serial numbers of which none is trusted, from the first up to the second, without it."""
    serials: Range = (0, 1 << 64)
    """The serial numbers that the CA may use."""


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a certificate that can be trusted."""

    log_number: int
    index: int
    start: int
    end: int
    root: bytes
    """The hash of the subtree that the entry is in."""
    signed_by: tuple[TrustAnchorId, ...] = ()
    """Whose signatures were good; nobody's where the subtree was known."""


def verify_certificate(trust: Trust, certificate: bytes, now: int) -> Verified:
    """Check the DER certificate, standalone or landmark-relative; ``now`` is in microseconds. Raises Refused.

    Names, key usage and what else a relying party looks at in any certificate are of its own concern.
    """
    try:
        found = parse_certificate(trust.dialect, trust.hash, certificate)
        parsed = x509.load_der_x509_certificate(certificate)
        moments = [int(one.timestamp()) * SECOND for one in (parsed.not_valid_before_utc, parsed.not_valid_after_utc)]
    except ValueError as error:
        raise Refused(f"not a certificate of a log: {error}") from error
    if not moments[0] <= now < moments[1] + SECOND:
        raise Refused("the certificate is not valid now")
    proof = found.proof
    root = _root(trust, found.place, found.tbs, proof)
    known = trust.subtrees.get((found.place.log_number, proof.start, proof.end))
    if known is not None and known != root:
        raise Refused("the proof does not lead to the subtree that is known")
    by = () if known is not None else _cosigners(trust, found, root)
    place = found.place
    return Verified(log_number=place.log_number, index=place.index, start=proof.start, end=proof.end, root=root, signed_by=by)


def verify_landmark(trust: Trust, certificate: bytes) -> Verified:
    """Check a DER LandmarkCertificate. Raises Refused."""
    try:
        found = LandmarkCertificate.parse(certificate)
        place = parse_tbs(trust.dialect, found.tbs)
    except ValueError as error:
        raise Refused(f"not a LandmarkCertificate: {error}") from error
    size, key = found.landmark.size, trust.cosigners[trust.ca]
    if found.landmark.log != LogId(trust.hash, spki_of(key)):
        raise Refused("the landmark is one of another log")
    if found.index != place.index:
        raise Refused("the index is not the one that the serial number says")
    if found.algorithm != signature_algorithm(key):
        raise Refused("the signature is of another algorithm than the key of the CA")
    root = _root(trust, place, found.tbs, Proof(start=0, end=size, path=found.path))
    _check_signature(trust, Signature(trust.ca, found.signature), place, (0, size), root)
    return Verified(log_number=place.log_number, index=place.index, start=0, end=size, root=root, signed_by=(trust.ca,))


def _root(trust: Trust, place: Place, tbs: bytes, proof: Proof) -> bytes:
    """The hash of the subtree that the proof leads to, of a certificate that the CA may have and that is not revoked."""
    if place.issuer != trust.dialect.issuer(trust.ca):
        raise Refused("another CA is the issuer")
    low, high = trust.serials
    if not low <= place.serial < high:
        raise Refused("the serial number is none that the CA may use")
    if any(start <= place.serial < end for start, end in trust.revoked):
        raise Refused("the certificate is revoked")
    try:
        leaf = trust.hash.leaf(entry_of_tbs(trust.dialect, trust.ca, trust.hash, tbs, proof.extensions))
        return evaluate(trust.hash, proof.start, proof.end, place.index, leaf=leaf, proof=proof.path)
    except ValueError as error:
        raise Refused(f"the inclusion proof is none: {error}") from error


def _cosigners(trust: Trust, found: Certificate, root: bytes) -> tuple[TrustAnchorId, ...]:
    """The cosigners that are trusted and signed the subtree, when they are enough."""
    proof = found.proof
    good = [one for one in proof.signatures if one.cosigner in trust.cosigners]
    for one in good:
        _check_signature(trust, one, found.place, (proof.start, proof.end), root)
    by = tuple(one.cosigner for one in good)
    if missing := trust.required.difference(by):
        raise Refused(f"no signature of {', '.join(sorted(one.ascii for one in missing))}")
    if len(by) < trust.quorum:
        raise Refused(f"{len(by)} signatures of trusted cosigners, where {trust.quorum} are required")
    return by


def _check_signature(trust: Trust, one: Signature, place: Place, subtree: Range, root: bytes) -> None:
    message = cosigned_message(one.cosigner.name, trust.ca.log(place.log_number).name, *subtree, root)
    try:
        verify(trust.cosigners[one.cosigner], message, one.signature)
    except BadSignature:
        raise Refused(f"the signature of {one.cosigner.ascii} over the subtree is wrong") from None
