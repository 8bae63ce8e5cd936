"""The DER structures of the interface, and the unsigned certificate of a CA, to the byte."""

import json
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal import der
from greatseal.api.moments import SECOND
from greatseal.testing.parsers import ParserContract
from greatseal_mtc.algorithms import BadSignature, key_of_spki, signature_algorithm, spki_of, verify
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.authorities import Authority
from greatseal_mtc.dialects import PLANTS_05
from greatseal_mtc.hashes import HASHES, SHA256
from greatseal_mtc.structures import MAX_STRUCTURE, Checkpoint, LandmarkCertificate, LandmarkId, LogId, SubtreeSignature
from greatseal_mtc.wire import cosigned_message, parse_certificate

VECTORS: Any = json.loads((Path(__file__).parent / "vectors/mtc.json").read_text())
OWN = VECTORS["own_certs"]
WRITTEN = {name: bytes.fromhex(value) for name, value in VECTORS["proposed_der"].items() if name != "status"}
CA = TrustAnchorId(OWN["ca_id"])
COSIGNER = TrustAnchorId("32473.2.1")
KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(OWN["ca_ed25519_seed"]))
COSIGNER_KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(OWN["cosigner_32473.2.1_ed25519_seed"]))
ROOT = bytes.fromhex(OWN["root_300"])
LOG = LogId(SHA256, spki_of(KEY.public_key()))
NOON = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * SECOND
CHECKPOINT = Checkpoint(LOG, 300, ROOT, NOON)
ED25519 = signature_algorithm(KEY.public_key())
STANDALONE = parse_certificate(PLANTS_05, SHA256, bytes.fromhex(OWN["standalone_ed25519_der"]))
LANDMARK = LandmarkCertificate(
    tbs=STANDALONE.tbs, index=271, path=STANDALONE.proof.path, landmark=LandmarkId(LOG, 300), algorithm=ED25519, signature=bytes(64)
)


def test_the_structures_are_those_of_an_independent_program():
    assert LOG.der == WRITTEN["LogID"]
    assert CHECKPOINT.der == WRITTEN["Checkpoint"]
    assert LandmarkId(LOG, 300).der == WRITTEN["LandmarkID"]
    message = cosigned_message(COSIGNER.name, CA.log(1).name, 0, 300, ROOT)
    assert message == WRITTEN["SubtreeSignature_signed_message"]
    signature = SubtreeSignature(
        cosigner=COSIGNER, start=0, end=300, root=ROOT, checkpoint=CHECKPOINT.der, algorithm=ED25519, signature=COSIGNER_KEY.sign(message)
    )
    assert signature.der == WRITTEN["SubtreeSignature"]
    assert WRITTEN["Subtree"] in signature.der


def test_what_was_written_is_read():
    assert LogId.parse(WRITTEN["LogID"]) == LOG
    assert Checkpoint.parse(WRITTEN["Checkpoint"]) == CHECKPOINT
    assert LandmarkId.parse(WRITTEN["LandmarkID"]) == LandmarkId(LOG, 300)
    found = SubtreeSignature.parse(WRITTEN["SubtreeSignature"])
    assert found.der == WRITTEN["SubtreeSignature"]
    assert (found.cosigner, found.start, found.end, found.root, found.checkpoint) == (COSIGNER, 0, 300, ROOT, CHECKPOINT.der)
    verify(COSIGNER_KEY.public_key(), WRITTEN["SubtreeSignature_signed_message"], found.signature)
    assert LandmarkCertificate.parse(LANDMARK.der) == LANDMARK


@pytest.mark.parametrize("name", HASHES)
def test_a_log_of_every_hash_is_read(name: str):
    log = LogId(HASHES[name], LOG.public_key)

    assert LogId.parse(log.der) == log


def test_a_hash_with_null_for_parameters_is_read():
    algorithm = der.sequence(der.object_identifier(SHA256.oid), b"\x05\x00")

    assert LogId.parse(der.sequence(algorithm, LOG.public_key)) == LOG


def test_a_checkpoint_with_its_first_index_is_read():
    fields = der.children(CHECKPOINT.der)

    assert Checkpoint.parse(der.sequence(*fields[:2], b"\x80\x01\x05", *fields[2:])) == CHECKPOINT


OID = der.object_identifier(SHA256.oid)
FIELDS = der.children(CHECKPOINT.der)
SIGNATURE = der.children(WRITTEN["SubtreeSignature"])
PARTS = der.children(LANDMARK.der)


def subtree(*fields: bytes) -> bytes:
    return der.sequence(SIGNATURE[0], der.sequence(*fields), *SIGNATURE[2:])


@pytest.mark.parametrize(
    ("kind", "element", "reason"),
    [
        (LogId, LOG.der + b"\0", "follow|SEQUENCE"),
        (LogId, b"\x31" + LOG.der[1:], "not a SEQUENCE"),
        (LogId, b"\x30\x81" + LOG.der[1:], "not a SEQUENCE"),
        (LogId, der.sequence(der.sequence(der.object_identifier("1.2.3")), LOG.public_key), "not known"),
        (LogId, der.sequence(der.sequence(OID, OID), LOG.public_key), "not known"),
        (LogId, der.sequence(der.sequence(OID, b"\5\0", b"\5\0"), LOG.public_key), "not known"),
        (LogId, der.sequence(der.sequence(), LOG.public_key), "not enough|unpack"),
        (LogId, der.sequence(SHA256.algorithm, der.octet_string(LOG.public_key)), "no SubjectPublicKeyInfo"),
        (LogId, der.sequence(SHA256.algorithm), "1 fields of a structure, not 2"),
        (LogId, der.sequence(SHA256.algorithm, LOG.public_key, LOG.public_key), "3 fields of a structure, not 2"),
        (Checkpoint, der.sequence(*FIELDS[:3]), "1 fields of a structure, not 2"),
        (Checkpoint, der.sequence(*FIELDS[:2], b"\x81\x01\x05", *FIELDS[2:]), "3 fields of a structure, not 2"),
        (Checkpoint, der.sequence(*FIELDS[:2], b"\x80\x01\xff", *FIELDS[2:]), "not an INTEGER"),
        (Checkpoint, der.sequence(FIELDS[0], b"\2\1\xff", *FIELDS[2:]), "not an INTEGER"),
        (Checkpoint, der.sequence(FIELDS[0], b"\2\2\0\5", *FIELDS[2:]), "not an INTEGER"),
        (Checkpoint, der.sequence(FIELDS[0], b"\2\0", *FIELDS[2:]), "not an INTEGER"),
        (Checkpoint, der.sequence(FIELDS[0], der.integer((1 << 48) + 1), *FIELDS[2:]), "not an INTEGER"),
        (Checkpoint, der.sequence(FIELDS[0], der.enumerated(5), *FIELDS[2:]), "not an INTEGER"),
        (Checkpoint, der.sequence(*FIELDS[:2], der.octet_string(ROOT[1:]), FIELDS[3]), "31 bytes, not 32"),
        (Checkpoint, der.sequence(*FIELDS[:2], der.bit_string(ROOT[1:]), FIELDS[3]), "OCTET STRING"),
        (Checkpoint, der.sequence(*FIELDS[:3], b"\x17\x0d260101000000Z"), "GeneralizedTime"),
        (Checkpoint, der.sequence(*FIELDS[:3], b"\x18\x0f20261301000000Z"), "GeneralizedTime"),
        (Checkpoint, der.sequence(*FIELDS[:3], b"\x18\x1120260101000000.1Z"), "GeneralizedTime"),
        (Checkpoint, der.sequence(*FIELDS[:3], b"\x18\x0e2026011000000Z"), "GeneralizedTime"),
        (SubtreeSignature, bytes(MAX_STRUCTURE + 1), "more than 65536 bytes"),
        (SubtreeSignature, der.sequence(der.octet_string(COSIGNER.binary), *SIGNATURE[1:]), "RELATIVE-OID"),
        (SubtreeSignature, subtree(der.integer(3), der.integer(5), der.octet_string(ROOT)), "no subtree"),
        (SubtreeSignature, subtree(der.integer(0), der.integer(300), der.octet_string(ROOT[1:])), "31 bytes"),
        (SubtreeSignature, subtree(der.integer(0), der.integer(300)), "2 fields"),
        (SubtreeSignature, der.sequence(*SIGNATURE[:3], der.sequence(), SIGNATURE[4]), "AlgorithmIdentifier"),
        (SubtreeSignature, der.sequence(*SIGNATURE[:3], der.sequence(der.integer(1)), SIGNATURE[4]), "AlgorithmIdentifier"),
        (SubtreeSignature, der.sequence(*SIGNATURE[:3], der.sequence(OID, b"\x30\x81\0"), SIGNATURE[4]), "shortest form"),
        (SubtreeSignature, der.sequence(*SIGNATURE[:4], der.element(3, b"\1\0")), "BIT STRING"),
        (SubtreeSignature, der.sequence(*SIGNATURE[:4], der.element(3, b"")), "BIT STRING"),
        (SubtreeSignature, der.sequence(*SIGNATURE[:4], der.octet_string(b"\0x")), "BIT STRING"),
        (LandmarkCertificate, bytes(2 * MAX_STRUCTURE + 1), "more than 131072 bytes"),
        (LandmarkCertificate, der.sequence(der.octet_string(b""), *PARTS[1:]), "not a LandmarkCertificate"),
        (
            LandmarkCertificate,
            der.sequence(*PARTS[:2], der.sequence(*[der.octet_string(ROOT)] * 65), *PARTS[3:]),
            "not a LandmarkCertificate",
        ),
        (LandmarkCertificate, der.sequence(*PARTS[:2], der.sequence(der.octet_string(b"x")), *PARTS[3:]), "1 bytes, not 32"),
    ],
)
def test_another_structure_is_refused(kind: Any, element: bytes, reason: str):
    with pytest.raises(ValueError, match=reason):
        kind.parse(element)


class TestSubtreeSignature(ParserContract):
    valid = (WRITTEN["SubtreeSignature"],)
    refusals = ValueError
    costly = ((der.sequence(*[b"\x30\x00"] * 32_000),),)

    def read(self, *parts: bytes) -> None:
        assert SubtreeSignature.parse(parts[0]).der == parts[0]


class TestCheckpoint(ParserContract):
    valid = (WRITTEN["Checkpoint"],)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        found = Checkpoint.parse(parts[0])
        assert Checkpoint.parse(found.der) == found


class TestLandmarkCertificate(ParserContract):
    valid = (LANDMARK.der,)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        found = LandmarkCertificate.parse(parts[0])
        assert LandmarkCertificate.parse(found.der) == found


# ---- Keys of cosigners

PRIVATE: dict[str, Any] = {
    "ed25519": KEY,
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p384": ec.generate_private_key(ec.SECP384R1()),
    "ml-dsa-44": mldsa.MLDSA44PrivateKey.generate(),
    "ml-dsa-65": mldsa.MLDSA65PrivateKey.generate(),
    "ml-dsa-87": mldsa.MLDSA87PrivateKey.generate(),
}


@pytest.mark.parametrize("name", PRIVATE)
def test_a_signature_is_checked_with_the_algorithm_of_its_key(name: str):
    private, message = PRIVATE[name], b"message"
    digest = hashes.SHA384() if name == "p384" else hashes.SHA256()
    signature = private.sign(message, ec.ECDSA(digest)) if name.startswith("p") else private.sign(message)
    key = key_of_spki(spki_of(private.public_key()))

    verify(key, message, signature)
    for other, wrong in ((b"other", signature), (message, signature[:-1] + bytes((signature[-1] ^ 1,))), (message, b"")):
        with pytest.raises(BadSignature):
            verify(key, other, wrong)


def test_keys_that_no_cosigner_has_are_refused():
    for private in (ed448.Ed448PrivateKey.generate(), rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP521R1())):
        with pytest.raises(ValueError, match="P-256, P-384, Ed25519 or ML-DSA"):
            key_of_spki(spki_of(private.public_key()))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not the SubjectPublicKeyInfo"):
        key_of_spki(b"x")
    key = PRIVATE["p256"].public_key()
    algorithm, _ = der.children(spki_of(key))
    compressed = der.sequence(algorithm, der.bit_string(key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)))
    with pytest.raises(ValueError, match="its own form"):
        key_of_spki(compressed)


class TestSpki(ParserContract):
    valid = (spki_of(PRIVATE["p256"].public_key()),)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        assert spki_of(key_of_spki(parts[0])) == parts[0]


# ---- The certificate of a CA


def authority(**changed: Any) -> Authority:
    days = [datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 12, 31, 23, 59, 59, tzinfo=UTC)]
    begin, end = (int(day.timestamp()) * SECOND for day in days)
    given = {
        "dialect": PLANTS_05,
        "id": CA,
        "hash": SHA256,
        "key": KEY.public_key(),
        "not_before": begin,
        "not_after": end,
        "log_number": 1,
    }
    return Authority(**{**given, **changed})


def test_the_certificate_of_a_ca_is_the_one_of_an_independent_program():
    assert authority(last_log_number=1).certificate.hex() == OWN["ca_cert_ed25519_der"]


def test_the_certificate_of_the_draft_s_own_ca_differs_in_its_serials_alone():
    key = mldsa.MLDSA44PrivateKey.from_seed_bytes(bytes(range(32))).public_key()
    own, theirs = authority(key=key, last_log_number=1).certificate, b64decode(VECTORS["draft_demo"]["ca_cert_b64"])

    (own_extensions, their_extensions) = (
        [one.value.public_bytes() for one in x509.load_der_x509_certificate(written).extensions] for written in (own, theirs)
    )
    assert own_extensions[:2] == their_extensions[:2]
    assert der.children(own_extensions[2])[:2] == der.children(their_extensions[2])[:2]
    assert der.children(der.children(own)[0])[:7] == der.children(der.children(theirs)[0])[:7]


def test_a_certificate_says_where_its_tiles_are_and_five_log_numbers():
    read = x509.load_der_x509_certificate(authority(prefix_url="https://ca.example/mtc").certificate)
    (tiles,) = (one for one in read.extensions if one.oid.dotted_string == "1.3.6.1.4.1.64829.2.1")

    assert (tiles.critical, tiles.value.public_bytes()) == (False, b"\x16\x16https://ca.example/mtc")
    assert authority().serials == (1 << 48, (6 << 48) - 1)
    assert authority(log_number=65_535).serials == (65_535 << 48, (1 << 64) - 1)
    assert (read.signature, read.signature_algorithm_oid.dotted_string) == (b"", "1.3.6.1.5.5.7.6.36")
