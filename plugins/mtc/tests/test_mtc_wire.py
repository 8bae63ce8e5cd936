"""Entries, proofs and certificates, to the byte."""

import json
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, rsa
from hypothesis import given
from hypothesis import strategies as st

from greatseal import der
from greatseal.testing.parsers import ParserContract
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import PLANTS_05, PLANTS_07
from greatseal_mtc.hashes import HASHES, SHA256, Hash
from greatseal_mtc.merkle import MAX_SIZE, evaluate
from greatseal_mtc.wire import (
    NULL_ENTRY,
    Proof,
    Signature,
    bundle_of,
    certificate_of,
    cosigned_message,
    entry_of_tbs,
    parse_bundle,
    parse_certificate,
    parse_proof,
    place_of,
    serial_of,
)

VECTORS: Any = json.loads((Path(__file__).parent / "vectors/mtc.json").read_text())
OWN = VECTORS["own_certs"]
DEMO = VECTORS["draft_demo"]
CA = TrustAnchorId(OWN["ca_id"])
STANDALONE = bytes.fromhex(OWN["standalone_ed25519_der"])
LANDMARK = bytes.fromhex(OWN["landmark_relative_der"])
DEMO_LANDMARK = bytes.fromhex(DEMO["landmark_cert_index10_subtree_0_32_der"])
DEMO_STANDALONE = b64decode(DEMO["standalone_cert_index10_subtree_8_11_b64"])
DEMO_BAD = b64decode(DEMO["bad_proof_cert_index2035_b64"])


def read(certificate: bytes) -> Any:
    return parse_certificate(PLANTS_05, SHA256, certificate)


# ---- Entries


def test_ca_064_the_null_entry_is_four_zero_bytes():
    null = VECTORS["null_entry"]

    assert null["encoding"] == NULL_ENTRY.hex()
    assert {name.replace("-", "_"): one.leaf(NULL_ENTRY).hex() for name, one in HASHES.items()} == {
        name.replace("sha3-", "sha3_"): value for name, value in null["leaf_hash"].items()
    }


@pytest.mark.parametrize("certificate", [STANDALONE, LANDMARK], ids=["standalone", "landmark"])
def test_ca_065_ca_066_the_entry_comes_from_the_certificate(certificate: bytes):
    entry = entry_of_tbs(PLANTS_05, CA, SHA256, x509.load_der_x509_certificate(certificate).tbs_certificate_bytes)

    assert entry.hex() == OWN["entry_271"]
    assert SHA256.leaf(entry).hex() == OWN["entry_271_leaf_hash"]


@pytest.mark.parametrize("certificate", [DEMO_LANDMARK, DEMO_STANDALONE], ids=["landmark", "standalone"])
def test_ca_065_the_entry_of_the_draft_s_own_demonstration(certificate: bytes):
    assert entry_of_tbs(PLANTS_05, CA, SHA256, read(certificate).tbs).hex() == DEMO["entry_10"]


KEYS = {
    "p256": ec.generate_private_key(ec.SECP256R1()).public_key(),
    "p384": ec.generate_private_key(ec.SECP384R1()).public_key(),
    "rsa": rsa.generate_private_key(65537, 2048).public_key(),
    "ed25519": ed25519.Ed25519PrivateKey.generate().public_key(),
    "ml-dsa-87": mldsa.MLDSA87PrivateKey.generate().public_key(),
}
SIGNER = ec.generate_private_key(ec.SECP256R1())


def tbs(key: Any, name: str = "host.example", names: int = 1, *, unique: bytes = b"") -> bytes:
    """A TBSCertificate of an ordinary CA."""
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "A CA"), x509.NameAttribute(x509.NameOID.COUNTRY_NAME, "NL")])
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    san = x509.SubjectAlternativeName([x509.DNSName(f"{number}.host.example") for number in range(names)])
    builder = x509.CertificateBuilder(issuer, subject, key, 12345, datetime(2026, 1, 1, tzinfo=UTC), datetime(2055, 1, 1, tzinfo=UTC))
    made = builder.add_extension(san, critical=False).sign(SIGNER, hashes.SHA256()).tbs_certificate_bytes
    if not unique:
        return made
    *fields, extensions = der.children(made)
    return der.sequence(*fields, unique, extensions)


def slow_entry(ca: TrustAnchorId, hash: Hash, made: bytes) -> bytes:
    """The entry of a TBSCertificate, field by field."""
    version, _serial, _algorithm, _issuer, validity, subject, key, *rest = der.children(made)
    algorithm, _bits = der.children(key)
    parts = [version, PLANTS_05.issuer(ca), validity, subject, algorithm, der.octet_string(hash.digest(key)), *rest]
    return bytes(4)[:3] + b"\x01" + b"".join(parts)


@pytest.mark.parametrize("hash", HASHES.values(), ids=HASHES)
@pytest.mark.parametrize("key", KEYS)
def test_ca_065_the_entry_is_the_one_that_is_made_field_by_field(key: str, hash: Hash):
    for made in (tbs(KEYS[key]), tbs(KEYS[key], names=500), tbs(KEYS[key], unique=der.element(0x81, b"\0\x01"))):
        assert entry_of_tbs(PLANTS_05, CA, hash, made) == slow_entry(CA, hash, made)


@given(
    st.integers(0, 1 << 70), st.binary(max_size=300), st.binary(max_size=300), st.lists(st.integers(0, (1 << 30)), min_size=2, max_size=4)
)
def test_ca_065_the_entry_of_any_fields_is_the_one_that_is_made_field_by_field(serial: int, name: bytes, bits: bytes, arcs: list[int]):
    algorithm = der.sequence(der.object_identifier("1.3." + ".".join(map(str, arcs))))
    key = der.sequence(algorithm, der.bit_string(bits))
    made = der.sequence(
        der.explicit(0, der.integer(2)), der.integer(serial), algorithm, der.sequence(name), der.sequence(), der.sequence(name), key
    )

    assert entry_of_tbs(PLANTS_05, CA, SHA256, made) == slow_entry(CA, SHA256, made)


def test_a_certificate_of_version_1_has_an_entry_without_version():
    fields = der.children(tbs(KEYS["ed25519"]))

    entry = entry_of_tbs(PLANTS_05, CA, SHA256, der.sequence(*fields[1:7]))

    assert entry == b"\0\0\0\1" + slow_entry(CA, SHA256, der.sequence(*fields[:7]))[4 + len(fields[0]) :]


def test_an_entry_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="a log takes 65535 at most"):
        entry_of_tbs(PLANTS_05, CA, SHA256, tbs(KEYS["ed25519"], names=4000))


FIELDS = der.children(tbs(KEYS["ed25519"]))


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (b"", "not a TBSCertificate"),
        (b"\x30", "not a TBSCertificate"),
        (b"\x31" + der.sequence(*FIELDS)[1:], "not a TBSCertificate"),
        (der.sequence(*FIELDS) + b"\0", "not a TBSCertificate"),
        (der.sequence(*FIELDS)[:-1], "cut short"),
        (der.sequence(*FIELDS[:6]), "a field is missing"),
        (der.sequence(*FIELDS[:1], *FIELDS[2:]), "stands for another one"),
        (der.sequence(*FIELDS[:6], der.octet_string(b"key")), "stands for another one"),
        (der.sequence(*FIELDS[:6], der.sequence()), "a field is missing"),
        (der.sequence(*FIELDS[:6], b"\x30\x80\0\0"), "length is not definite"),
        (der.sequence(*FIELDS[:6], b"\x30\x81\x05" + bytes(5)), "shortest form"),
        (der.sequence(*FIELDS[:6], b"\x30\x82\0\x85" + bytes(0x85)), "shortest form"),
        (der.sequence(*FIELDS[:6], b"\x30\x85\x01" + bytes(4)), "length is not definite"),
        (der.sequence(*FIELDS[:6], b"\x30\x84\x80"), "length is not definite"),
        (der.sequence(*FIELDS[:6], b"\x30\x05" + bytes(4)), "cut short"),
    ],
)
def test_what_is_no_tbs_certificate_is_refused(made: bytes, reason: str):
    with pytest.raises(ValueError, match=reason):
        entry_of_tbs(PLANTS_05, CA, SHA256, made)


class TestTbs(ParserContract):
    valid = (tbs(KEYS["p256"]),)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        assert entry_of_tbs(PLANTS_05, CA, SHA256, parts[0]).startswith(b"\0\0\0\1")


def test_a_bundle_holds_entries_after_their_lengths():
    entries = [NULL_ENTRY, b"", b"x" * 300]

    assert bundle_of(entries) == b"\0\4\0\0\0\0" + b"\0\0" + b"\1\x2c" + b"x" * 300
    assert parse_bundle(bundle_of(entries), 3) == entries
    for wrong in (2, 4):
        with pytest.raises(ValueError, match=r"follow|cut short"):
            parse_bundle(bundle_of(entries), wrong)
    with pytest.raises(ValueError, match="65536 bytes"):
        bundle_of([b"x" * 65_536])


class TestBundle(ParserContract):
    valid = (bundle_of([NULL_ENTRY, b"x" * 300, b"y"]),)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        assert bundle_of(parse_bundle(parts[0], 3)) == parts[0]


# ---- Certificates


@pytest.mark.parametrize("certificate", [STANDALONE, LANDMARK], ids=["standalone", "landmark"])
def test_ca_066_a_certificate_is_read_as_it_is_made(certificate: bytes):
    found = read(certificate)

    assert (found.place.log_number, found.place.index) == (1, OWN["index"])
    assert hex(serial_of(1, OWN["index"])) == hex(int(OWN["serial_hex"], 16))
    assert found.place.issuer == PLANTS_05.issuer(CA)
    assert [found.proof.start, found.proof.end] == OWN["subtree"]
    leaf = SHA256.leaf(entry_of_tbs(PLANTS_05, CA, SHA256, found.tbs))
    assert evaluate(SHA256, *OWN["subtree"], found.place.index, leaf=leaf, proof=found.proof.path).hex() == OWN["subtree_hash"]
    assert certificate_of(PLANTS_05, CA, found.tbs, serial_of(1, found.place.index), found.proof) == certificate


def test_a_standalone_certificate_is_the_one_of_an_independent_program():
    found, ordinary = read(STANDALONE), read(STANDALONE)
    ca, other = (ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(OWN[name])) for name in OWN if name.endswith("ed25519_seed"))
    root = bytes.fromhex(OWN["subtree_hash"])
    signed = [(CA, ca), (TrustAnchorId("32473.2.1"), other)]
    message = cosigned_message(CA.name, CA.log(1).name, *OWN["subtree"], root)
    assert message.hex() == OWN["cosigned_message"]
    signatures = [Signature(one, key.sign(cosigned_message(one.name, CA.log(1).name, *OWN["subtree"], root))) for one, key in signed]
    proof = Proof(start=256, end=300, path=ordinary.proof.path, signatures=tuple(reversed(signatures)))

    assert certificate_of(PLANTS_05, CA, found.tbs, serial_of(1, 271), proof) == STANDALONE


def test_a_landmark_relative_certificate_is_the_standalone_one_without_signatures():
    found = read(STANDALONE)
    proof = Proof(start=256, end=300, path=found.proof.path)

    assert certificate_of(PLANTS_05, CA, found.tbs, serial_of(1, 271), proof) == LANDMARK


def test_the_draft_s_own_certificates_are_read():
    landmark, standalone, bad = map(read, (DEMO_LANDMARK, DEMO_STANDALONE, DEMO_BAD))

    assert (landmark.place.index, landmark.proof.start, landmark.proof.end, landmark.proof.signatures) == (10, 0, 32, ())
    assert (standalone.place.index, standalone.proof.start, standalone.proof.end) == (10, 8, 11)
    assert [one.cosigner.ascii for one in standalone.proof.signatures] == list(DEMO["cosigners"])
    assert bad.place.index == 2035
    for one, raw in ((landmark, DEMO_LANDMARK), (standalone, DEMO_STANDALONE)):
        assert certificate_of(PLANTS_05, CA, one.tbs, serial_of(1, 10), one.proof) == raw


@given(st.integers(1, 65_535), st.integers(0, MAX_SIZE - 1))
def test_a_serial_says_the_log_and_the_index(log_number: int, index: int):
    assert place_of(serial_of(log_number, index)) == (log_number, index)


@pytest.mark.parametrize(("log_number", "index"), [(0, 1), (65_536, 1), (-1, 1), (1, -1), (1, MAX_SIZE)])
def test_a_place_that_no_log_has_is_refused(log_number: int, index: int):
    with pytest.raises(ValueError, match="no entry"):
        serial_of(log_number, index)


@pytest.mark.parametrize("serial", [0, 5, MAX_SIZE - 1, 65_536 << 48, -1])
def test_a_serial_of_no_log_is_refused(serial: int):
    with pytest.raises(ValueError, match="none of a log"):
        place_of(serial)


PARTS = der.children(STANDALONE)
TBS = der.children(PARTS[0])


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (der.sequence(*PARTS[:2]), "three parts"),
        (STANDALONE + b"\0", "follow"),
        (der.signed(PARTS[0], der.sequence(der.object_identifier("1.2.3")), PARTS[2]), "not signed by an MTCProof"),
        (der.sequence(der.sequence(*TBS[:2], der.sequence(), *TBS[3:]), *PARTS[1:]), "not one of plants-05"),
        (der.sequence(*PARTS[:2], der.element(3, b"\1" + der.content(PARTS[2])[1:-1] + b"\0")), "unused bits"),
        (der.sequence(*PARTS[:2], der.element(4, der.content(PARTS[2]))), "not DER"),
        (der.sequence(*PARTS[:2], der.bit_string(der.content(PARTS[2])[1:] + b"\0")), "follow the proof"),
        (der.sequence(der.sequence(TBS[0], der.integer(5), *TBS[2:]), *PARTS[1:]), "none of a log"),
        (der.sequence(der.sequence(TBS[0], der.integer(1 << 64), *TBS[2:]), *PARTS[1:]), "none of a log"),
        (der.sequence(der.sequence(TBS[0], der.integer(1 << 80), *TBS[2:]), *PARTS[1:]), "none of a log"),
        (der.sequence(der.sequence(TBS[0], b"\2\1\xff", *TBS[2:]), *PARTS[1:]), "negative, or not DER"),
        (der.sequence(der.sequence(TBS[0], b"\2\x08\0" + der.content(TBS[1]), *TBS[2:]), *PARTS[1:]), "negative, or not DER"),
        (der.sequence(der.sequence(TBS[0], b"\2\0", *TBS[2:]), *PARTS[1:]), "negative, or not DER"),
    ],
)
def test_another_certificate_is_refused(certificate: bytes, reason: str):
    with pytest.raises(ValueError, match=reason):
        read(certificate)


class TestCertificate(ParserContract):
    valid = (PARTS[0], der.content(PARTS[2])[1:])
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        certificate = der.signed(parts[0], PLANTS_05.algorithm, parts[1])
        found = read(certificate)
        again = certificate_of(PLANTS_05, CA, found.tbs, serial_of(found.place.log_number, found.place.index), found.proof)
        assert again == certificate or found.place.issuer != PLANTS_05.issuer(CA)


# ---- Proofs

PROOF = der.content(PARTS[2])[1:]


def encoded(*signatures: tuple[bytes, bytes], extensions: bytes = b"", path: bytes = b"") -> bytes:
    """A proof as one may write it."""
    listed = b"".join(len(one).to_bytes(1) + one + len(value).to_bytes(2) + value for one, value in signatures)
    return b"".join(
        (len(extensions).to_bytes(2), extensions, bytes(6), (1).to_bytes(6), len(path).to_bytes(2), path, len(listed).to_bytes(2), listed)
    )


def test_a_proof_is_read_as_it_was_written():
    found = parse_proof(PLANTS_05, SHA256, PROOF)

    assert found.encode(PLANTS_05) == PROOF
    assert len(found.path) == 6
    assert [one.cosigner.ascii for one in found.signatures] == ["32473.1", "32473.2.1"]


def test_extensions_of_an_entry_are_kept_as_they_are():
    raw = b"\0\1\0\2ab" + b"\0\5\0\0"

    assert parse_proof(PLANTS_05, SHA256, encoded(extensions=raw)).extensions == b"\0\x0a" + raw


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encoded() + b"\0", "follow"),
        (encoded()[:-1], "cut short"),
        (b"", "cut short"),
        (encoded(path=bytes(33)), "not of hashes of 32 bytes"),
        (encoded((b"\1\2", b"x"), (b"\3", b"x")), "order"),
        (encoded((b"\2", b"x"), (b"\1", b"x")), "order"),
        (encoded((b"\2", b"x"), (b"\2", b"y")), "two signatures of 2"),
        (encoded((b"", b"x")), "trust anchor ID"),
        (encoded((b"\x80\1", b"x")), "begins with a zero"),
        (encoded((b"\x81", b"x")), "cut short"),
        (encoded(extensions=b"\0\1\0\0\0\1\0\0"), "extensions of the entry are not in their order"),
        (encoded(extensions=b"\0\1\0\0\0\0\0\0"), "extensions of the entry are not in their order"),
        (encoded(extensions=b"\0\1\0\5"), "cut short"),
    ],
)
def test_another_proof_is_refused(data: bytes, reason: str):
    with pytest.raises(ValueError, match=reason):
        parse_proof(PLANTS_05, SHA256, data)


def test_a_proof_with_more_signatures_than_there_is_room_for_is_not_written():
    many = tuple(Signature(TrustAnchorId(str(number)), bytes(2420)) for number in range(28))

    assert len(Proof(start=0, end=1, path=(), signatures=many[:27]).encode(PLANTS_05)) < 65_536 + 20
    with pytest.raises(ValueError, match="65535 fit"):
        Proof(start=0, end=1, path=(), signatures=many).encode(PLANTS_05)
    with pytest.raises(ValueError, match="two signatures"):
        Proof(start=0, end=1, path=(), signatures=(many[0], many[0])).encode(PLANTS_05)


def test_a_certificate_of_plants_07_has_its_own_numbers_and_room_for_more_signatures():
    oids = VECTORS["oids"]["iana_2026_09"]
    many = tuple(Signature(TrustAnchorId(str(number)), bytes(2420)) for number in range(28))
    proof = Proof(start=0, end=1, path=(), signatures=many)

    made = certificate_of(PLANTS_07, CA, tbs(KEYS["p256"]), serial_of(1, 0), proof)

    found = parse_certificate(PLANTS_07, SHA256, made)
    assert (found.proof, found.place.issuer) == (proof, PLANTS_07.issuer(CA))
    assert found.proof.encode(PLANTS_07)[16:19] == (28 * 2424).to_bytes(3)
    assert x509.load_der_x509_certificate(made).signature_algorithm_oid.dotted_string == oids["alg-mtcProof"]
    assert (PLANTS_07.issuer_oid, PLANTS_07.authority_oid) == (
        oids["rdna-trustAnchorID(RELATIVE-OID)"],
        oids["pe-mtcCertificationAuthority-SHA256"],
    )
    assert PLANTS_07.hashes == {"sha256"}
    with pytest.raises(ValueError, match="not one of plants-05"):
        read(made)


class TestProof(ParserContract):
    valid = (PROOF,)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        assert parse_proof(PLANTS_05, SHA256, parts[0]).encode(PLANTS_05) == parts[0]
