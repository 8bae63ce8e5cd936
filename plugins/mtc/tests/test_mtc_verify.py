"""What a relying party trusts of a log."""

import json
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa

from greatseal import der
from greatseal.api.moments import SECOND
from greatseal_mtc.algorithms import signature_algorithm, spki_of
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import PLANTS_05
from greatseal_mtc.hashes import HASHES, SHA256
from greatseal_mtc.merkle import inclusion, root
from greatseal_mtc.structures import LandmarkCertificate, LandmarkId, LogId
from greatseal_mtc.verify import Refused, Trust, verify_certificate, verify_landmark
from greatseal_mtc.wire import Proof, Signature, certificate_of, cosigned_message, entry_of_tbs, parse_certificate, serial_of

VECTORS: Any = json.loads((Path(__file__).parent / "vectors/mtc.json").read_text())
OWN, DEMO = VECTORS["own_certs"], VECTORS["draft_demo"]
CA, COSIGNER = TrustAnchorId("32473.1"), TrustAnchorId("32473.2.1")
STANDALONE = bytes.fromhex(OWN["standalone_ed25519_der"])
LANDMARK = bytes.fromhex(OWN["landmark_relative_der"])
DEMO_STANDALONE = b64decode(DEMO["standalone_cert_index10_subtree_8_11_b64"])
DEMO_LANDMARK = bytes.fromhex(DEMO["landmark_cert_index10_subtree_0_32_der"])
DEMO_BAD = b64decode(DEMO["bad_proof_cert_index2035_b64"])
SUBTREE = bytes.fromhex(OWN["subtree_hash"])
KEYS = {
    CA: ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(OWN["ca_ed25519_seed"])),
    COSIGNER: ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(OWN["cosigner_32473.2.1_ed25519_seed"])),
}
NOW = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp()) * SECOND


def trust(**changed: Any) -> Trust:
    cosigners = {one: key.public_key() for one, key in KEYS.items()}
    given = {"dialect": PLANTS_05, "hash": SHA256, "ca": CA, "cosigners": cosigners, "required": frozenset({CA})}
    return Trust(**{**given, **changed})


def demo(**changed: Any) -> Trust:
    return trust(cosigners={CA: mldsa.MLDSA44PrivateKey.from_seed_bytes(bytes(range(32))).public_key()}, **changed)


def test_a_standalone_certificate_is_trusted_for_its_signatures():
    found = verify_certificate(trust(quorum=2), STANDALONE, NOW)

    assert (found.log_number, found.index, found.start, found.end, found.root) == (1, 271, 256, 300, SUBTREE)
    assert found.signed_by == (CA, COSIGNER)


def test_a_landmark_relative_certificate_is_trusted_with_its_subtree_alone():
    known = trust(subtrees={(1, 256, 300): SUBTREE})

    assert verify_certificate(known, LANDMARK, NOW).signed_by == ()
    assert verify_certificate(known, STANDALONE, NOW).signed_by == ()
    with pytest.raises(Refused, match=r"no signature of 32473\.1"):
        verify_certificate(trust(), LANDMARK, NOW)
    for other in ((2, 256, 300), (1, 0, 300)):
        with pytest.raises(Refused, match="no signature"):
            verify_certificate(trust(subtrees={other: SUBTREE}), LANDMARK, NOW)


def test_a_subtree_that_is_known_decides():
    with pytest.raises(Refused, match="subtree that is known"):
        verify_certificate(trust(subtrees={(1, 256, 300): bytes(32)}), STANDALONE, NOW)


def test_ca_274_the_draft_s_own_certificates_are_judged_as_they_should():
    assert verify_certificate(demo(), DEMO_STANDALONE, NOW).signed_by == (CA,)
    found = parse_certificate(PLANTS_05, SHA256, DEMO_LANDMARK)
    assert (found.proof.start, found.proof.end) == (0, 32)
    with pytest.raises(Refused):
        verify_certificate(demo(), DEMO_BAD, NOW)
    with pytest.raises(Refused, match="no signature"):
        verify_certificate(demo(), DEMO_LANDMARK, NOW)


FOUND = parse_certificate(PLANTS_05, SHA256, STANDALONE)


def made(tbs: bytes = FOUND.tbs, index: int = 271, log_number: int = 1, proof: Proof = FOUND.proof, ca: TrustAnchorId = CA) -> bytes:
    return certificate_of(PLANTS_05, ca, tbs, serial_of(log_number, index), proof)


def with_signatures(*signatures: Signature) -> Proof:
    return Proof(start=256, end=300, path=FOUND.proof.path, signatures=signatures)


OF_CA, OF_COSIGNER = FOUND.proof.signatures


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (made(FOUND.tbs.replace(b"host271", b"host272")), "signature of 32473.1 .* wrong"),
        (made(index=270), "signature of 32473.1 .* wrong"),
        (made(index=300), "inclusion proof is none"),
        (made(log_number=2), "signature of 32473.1 .* wrong"),
        (made(ca=COSIGNER), "another CA"),
        (made(proof=Proof(start=0, end=300, path=FOUND.proof.path)), "inclusion proof is none"),
        (made(proof=with_signatures(OF_COSIGNER)), r"no signature of 32473\.1$"),
        (made(proof=with_signatures(OF_CA)), "1 signatures of trusted cosigners, where 2"),
        (made(proof=with_signatures(OF_CA, Signature(COSIGNER, OF_CA.signature))), "signature of 32473.2.1 .* wrong"),
        (made(proof=with_signatures(OF_CA, Signature(TrustAnchorId("5"), b""))), "1 signatures of trusted cosigners, where 2"),
        (STANDALONE + b"\0", "not a certificate of a log"),
        (b"", "not a certificate of a log"),
    ],
)
def test_a_changed_certificate_is_refused(certificate: bytes, reason: str):
    with pytest.raises(Refused, match=reason):
        verify_certificate(trust(quorum=2), certificate, NOW)


def test_a_signature_of_a_stranger_is_ignored():
    proof = with_signatures(OF_CA, Signature(TrustAnchorId("5"), b"x"), OF_COSIGNER)

    assert verify_certificate(trust(quorum=2), made(proof=proof), NOW).signed_by == (CA, COSIGNER)


def test_a_revoked_certificate_and_one_of_a_serial_that_is_not_allowed():
    serial = serial_of(1, 271)

    for start, end in ((serial, serial + 1), (0, 1 << 64)):
        with pytest.raises(Refused, match="revoked"):
            verify_certificate(trust(revoked=[(0, 5), (start, end)]), STANDALONE, NOW)
    verify_certificate(trust(revoked=[(0, serial), (serial + 1, 1 << 64)]), STANDALONE, NOW)
    verify_certificate(trust(serials=(serial, serial + 1)), STANDALONE, NOW)
    for serials in ((0, serial), (serial + 1, 1 << 64)):
        with pytest.raises(Refused, match="none that the CA may use"):
            verify_certificate(trust(serials=serials), STANDALONE, NOW)


def test_a_certificate_is_valid_in_its_time():
    parsed = x509.load_der_x509_certificate(STANDALONE)
    begin, end = (int(one.timestamp()) * SECOND for one in (parsed.not_valid_before_utc, parsed.not_valid_after_utc))

    for moment in (begin, end, end + SECOND - 1):
        verify_certificate(trust(), STANDALONE, moment)
    for moment in (begin - 1, end + SECOND):
        with pytest.raises(Refused, match="not valid now"):
            verify_certificate(trust(), STANDALONE, moment)


@pytest.mark.parametrize("name", HASHES)
def test_certificates_of_logs_of_every_hash(name: str):
    hash = HASHES[name]
    entries = [b"\0\0\0\0", *[entry_of_tbs(PLANTS_05, CA, hash, FOUND.tbs)] * 4]
    leaves = [hash.leaf(one) for one in entries]
    path = tuple(root(hash, leaves[slice(*one)]) for one in inclusion(0, 5, 3))
    whole = root(hash, leaves)
    signature = KEYS[CA].sign(cosigned_message(CA.name, CA.log(7).name, 0, 5, whole))
    certificate = made(index=3, log_number=7, proof=Proof(start=0, end=5, path=path, signatures=(Signature(CA, signature),)))

    assert verify_certificate(trust(hash=hash), certificate, NOW).root == whole
    with pytest.raises(Refused):
        verify_certificate(trust(hash=next(one for one in HASHES.values() if one is not hash)), certificate, NOW)


# ---- Certificates of landmarks

LEAVES = [SHA256.leaf(b"entry %d" % number) for number in range(300)]
LEAVES[271] = bytes.fromhex(OWN["entry_271_leaf_hash"])
PATH = tuple(root(SHA256, LEAVES[slice(*one)]) for one in inclusion(0, 300, 271))
ROOT = root(SHA256, LEAVES)
LOG = LogId(SHA256, spki_of(KEYS[CA].public_key()))


def landmark(*, signer: TrustAnchorId = CA, size: int = 300, **changed: Any) -> bytes:
    signature = KEYS[signer].sign(cosigned_message(CA.name, CA.log(1).name, 0, size, ROOT))
    given = {
        "tbs": FOUND.tbs, "index": 271, "path": PATH, "landmark": LandmarkId(LOG, size),
        "algorithm": signature_algorithm(KEYS[CA].public_key()), "signature": signature,
    }  # fmt: skip
    return LandmarkCertificate(**{**given, **changed}).der


def test_the_certificate_of_a_landmark_is_trusted():
    found = verify_landmark(trust(), landmark())

    assert (found.index, found.start, found.end, found.root, found.signed_by) == (271, 0, 300, ROOT, (CA,))


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (landmark(signer=COSIGNER), "signature of 32473.1 .* wrong"),
        (landmark(index=270), "not the one that the serial number says"),
        (landmark(path=PATH[::-1]), "signature of 32473.1 .* wrong"),
        (landmark(path=PATH[1:]), "inclusion proof is none"),
        (landmark(size=1000), "inclusion proof is none"),
        (landmark(tbs=FOUND.tbs.replace(b"host271", b"host272")), "signature of 32473.1 .* wrong"),
        (landmark(landmark=LandmarkId(LogId(SHA256, spki_of(KEYS[COSIGNER].public_key())), 300)), "another log"),
        (landmark(landmark=LandmarkId(LogId(HASHES["sha3-256"], LOG.public_key), 300)), "another log"),
        (landmark(algorithm=der.sequence(der.object_identifier("1.2.3"))), "another algorithm"),
        (landmark(tbs=der.sequence()), "not a LandmarkCertificate"),
        (b"", "not a LandmarkCertificate"),
    ],
)
def test_a_changed_certificate_of_a_landmark_is_refused(certificate: bytes, reason: str):
    with pytest.raises(Refused, match=reason):
        verify_landmark(trust(), certificate)


def test_the_certificate_of_a_landmark_may_be_revoked():
    with pytest.raises(Refused, match="revoked"):
        verify_landmark(trust(revoked=[(serial_of(1, 271), serial_of(1, 272))]), landmark())
