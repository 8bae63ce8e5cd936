"""Signed notes: key IDs, checkpoints, and whose signatures are believed."""

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, rsa

from greatseal.testing.parsers import ParserContract
from greatseal_mtc.algorithms import spki_of
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.merkle import consistency, inclusion, root
from greatseal_mtc.note import (
    MAX_NOTE,
    BadNote,
    Checkpoint,
    Kind,
    Note,
    NoteKey,
    NoteSignature,
    cosigner_kind,
    log_kind,
    open_note,
    signature_lines,
)
from greatseal_mtc.wire import NULL_ENTRY

VECTORS: Any = json.loads((Path(__file__).parent / "vectors/mtc.json").read_text())
NOTE = VECTORS["note"]
ORIGIN = "https://ca.example/acme/mtc/tlog"

LOG = ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(NOTE["ed25519_log_seed"]))
WITNESS = ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(NOTE["witness_seed"]))
P256 = ec.generate_private_key(ec.SECP256R1())
P384 = ec.generate_private_key(ec.SECP384R1())
MLDSA = mldsa.MLDSA44PrivateKey.from_seed_bytes(bytes.fromhex(NOTE["mldsa44_seed"]))

LOG_KEY = NoteKey(ORIGIN, Kind.ED25519, LOG.public_key())
WITNESS_KEY = NoteKey("witness.example/w1", Kind.ED25519_COSIGNER, WITNESS.public_key())
P256_KEY = NoteKey("p256.example", Kind.ECDSA, P256.public_key())
P384_KEY = NoteKey("p384.example", Kind.ECDSA, P384.public_key())
MLDSA_KEY = NoteKey(NOTE["mldsa44_cosigner_name"], Kind.MLDSA44_COSIGNER, MLDSA.public_key())
KEYS = {"log": LOG_KEY, "witness": WITNESS_KEY, "p256": P256_KEY, "p384": P384_KEY, "mldsa": MLDSA_KEY}
PRIVATE: dict[str, Any] = {"log": LOG, "witness": WITNESS, "p256": P256, "p384": P384, "mldsa": MLDSA}

ENTRIES = [NULL_ENTRY, *(b"\0\0\0\1entry %d" % number for number in range(1, 1000))]
LEAVES = [SHA256.leaf(one) for one in ENTRIES]
CHECKPOINT = Checkpoint(ORIGIN, NOTE["tree_size"], bytes.fromhex(NOTE["root"]))
TIME = NOTE["timestamp"]


def sign(name: str, checkpoint: Checkpoint = CHECKPOINT, time: int = TIME) -> NoteSignature:
    key, private = KEYS[name], PRIVATE[name]
    message = key.message(checkpoint, time=time)
    raw = private.sign(message, ec.ECDSA(hashes.SHA256())) if key.kind is Kind.ECDSA else private.sign(message)
    return key.signature(raw, time=time)


def note(*names: str) -> Note:
    return Note(CHECKPOINT.text, tuple(map(sign, names)))


def blob(kind: int, material: bytes) -> str:
    """The last part of a verifier key."""
    return b64encode(bytes((kind,)) + material).decode()


# ---- Keys


def test_ca_157_ca_158_the_key_id_of_an_ed25519_log_operator():
    material = LOG.public_key().public_bytes_raw()

    assert LOG_KEY.id == sha256(ORIGIN.encode() + b"\n\x01" + material).digest()[:4]
    assert LOG_KEY.vkey == NOTE["vkey"]


def test_ca_157_ca_159_the_key_id_of_an_ecdsa_key_is_that_of_its_spki():
    for key in (P256_KEY, P384_KEY):
        assert key.id == sha256(spki_of(key.key)).digest()[:4]
        assert key.vkey == f"{key.name}+{key.id.hex()}+{blob(2, spki_of(key.key))}"


def test_ca_157_ca_160_the_key_id_of_an_ed25519_cosigner():
    material = WITNESS.public_key().public_bytes_raw()

    assert WITNESS_KEY.id == sha256(b"witness.example/w1\n\x04" + material).digest()[:4]
    assert WITNESS_KEY.vkey == NOTE["witness_vkey"]


def test_ca_157_ca_161_the_key_id_of_an_ml_dsa_44_cosigner():
    material = MLDSA.public_key().public_bytes_raw()

    assert (len(material), sha256(material).hexdigest()) == (1312, NOTE["mldsa44_public_key_sha256"])
    assert MLDSA_KEY.id == sha256(MLDSA_KEY.name.encode() + b"\n\x06" + material).digest()[:4]
    assert MLDSA_KEY.id.hex() == NOTE["mldsa44_key_id"]


@pytest.mark.parametrize("vkey", [NOTE["published_example_vkey"], NOTE["c2sp_example_vkey"]], ids=["go", "c2sp"])
def test_published_verifier_keys_are_read(vkey: str):
    written = vkey.partition(" ")[0]

    assert NoteKey.parse(written).vkey == written


@pytest.mark.parametrize("name", KEYS)
def test_a_verifier_key_is_read_as_it_was_written(name: str):
    found = NoteKey.parse(KEYS[name].vkey)

    assert (found.name, found.kind, found.id, found.material) == (KEYS[name].name, KEYS[name].kind, KEYS[name].id, KEYS[name].material)


def test_ca_163_whose_keys_may_sign_as_log_operator():
    assert (log_kind(LOG.public_key()), log_kind(P256.public_key()), log_kind(P384.public_key())) == (Kind.ED25519, Kind.ECDSA, Kind.ECDSA)
    for refused in (MLDSA, ed448.Ed448PrivateKey.generate(), rsa.generate_private_key(65537, 2048)):
        with pytest.raises(ValueError, match="Ed448 and RSA for nobody"):
            log_kind(refused.public_key())


def test_ca_163_whose_keys_may_sign_as_cosigner():
    assert cosigner_kind(WITNESS.public_key()) is Kind.ED25519_COSIGNER
    assert cosigner_kind(P384.public_key()) is Kind.ECDSA
    assert cosigner_kind(MLDSA.public_key()) is Kind.MLDSA44_COSIGNER
    for refused in (mldsa.MLDSA65PrivateKey.generate(), ed448.Ed448PrivateKey.generate(), rsa.generate_private_key(65537, 2048)):
        with pytest.raises(ValueError, match="signs with Ed25519, ECDSA or ML-DSA-44"):
            cosigner_kind(refused.public_key())


def test_ca_162_the_type_of_certificate_transparency_is_none_of_ours():
    material = LOG.public_key().public_bytes_raw()
    id = sha256(b"name\n\x05" + material).digest()[:4]

    assert {kind.value for kind in Kind} == {0x01, 0x02, 0x04, 0x06}
    with pytest.raises(BadNote, match="not known"):
        NoteKey.parse(f"name+{id.hex()}+{blob(5, material)}")


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (Kind.ED25519, P256), (Kind.ED25519, MLDSA), (Kind.ECDSA, LOG), (Kind.ED25519_COSIGNER, P256), (Kind.MLDSA44_COSIGNER, LOG),
        (Kind.MLDSA44_COSIGNER, mldsa.MLDSA65PrivateKey.generate()),
    ],
)  # fmt: skip
def test_a_key_of_another_type_is_refused(kind: Kind, key: Any):
    with pytest.raises(BadNote, match="another type"):
        NoteKey("name", kind, key.public_key())


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u00a0b", "a\u2003b", "a\tb", "a\nb", "a\x00b", "a\u200bb"])
def test_a_name_that_cannot_stand_in_a_note_is_refused(name: str):
    with pytest.raises(BadNote, match="the name of a key"):
        NoteKey(name, Kind.ED25519, LOG.public_key())


ED25519_MATERIAL = LOG.public_key().public_bytes_raw()


@pytest.mark.parametrize(
    ("vkey", "reason"),
    [
        ("", "not known"),
        ("name", "not known"),
        ("name+a02a4d09", "not known"),
        ("name+a02a4d09+!", "base64"),
        (f"name+a02a4d09+{blob(1, ED25519_MATERIAL)}", "key ID"),
        (NOTE["vkey"].replace("a02a4d09", "A02A4D09"), "key ID"),
        (f"name+a02a4d09+{blob(1, ED25519_MATERIAL[1:])}", "not a verifier key"),
        (f"name+a02a4d09+{blob(2, ED25519_MATERIAL)}", "not a verifier key"),
        (f"name+a02a4d09+{blob(2, spki_of(LOG.public_key()))}", "not a verifier key"),
        (f"name+a02a4d09+{blob(6, ED25519_MATERIAL)}", "not a verifier key"),
        (f"na me+a02a4d09+{blob(1, ED25519_MATERIAL)}", "not a verifier key"),
    ],
)
def test_another_verifier_key_is_refused(vkey: str, reason: str):
    with pytest.raises(BadNote, match=reason):
        NoteKey.parse(vkey)


class TestVkey(ParserContract):
    valid = (NOTE["vkey"].encode(),)
    refusals = BadNote

    def read(self, *parts: bytes) -> None:
        text = parts[0].decode("latin-1")
        assert NoteKey.parse(text).vkey == text


# ---- Notes


def test_a_checkpoint_is_the_one_of_an_independent_program():
    assert root(SHA256, LEAVES) == CHECKPOINT.root
    assert note("log").encoded.decode() == NOTE["checkpoint"]
    assert note("log", "witness").encoded.decode() == NOTE["with_ed25519_cosignature"]


def test_the_proofs_of_an_independent_program():
    for index, path in NOTE["inclusion"]:
        assert [root(SHA256, LEAVES[slice(*one)]).hex() for one in inclusion(0, 1000, index)] == path
    for size, of, path in NOTE["consistency"]:
        assert root(SHA256, LEAVES[:size]).hex() == of
        assert [root(SHA256, LEAVES[slice(*one)]).hex() for one in consistency(0, size, 1000)] == path


def test_everybody_s_signatures_are_checked():
    signed = note(*KEYS)

    checkpoint, by = open_note(Note.parse(signed.encoded), KEYS.values())

    assert checkpoint == CHECKPOINT
    assert {key.name: time for key, time in by} == {
        LOG_KEY.name: 0, WITNESS_KEY.name: TIME, P256_KEY.name: 0, P384_KEY.name: 0, MLDSA_KEY.name: TIME,
    }  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_a_signature_over_another_checkpoint_is_refused(name: str):
    for other in (
        Checkpoint(ORIGIN, 1001, CHECKPOINT.root),
        Checkpoint("another", 1000, CHECKPOINT.root),
        Checkpoint(ORIGIN, 1000, b"r" * 32),
    ):
        wrong = Note(other.text, (sign(name),))
        with pytest.raises(BadNote, match=f"signature of {KEYS[name].name} is wrong"):
            open_note(wrong, [KEYS[name]])


@pytest.mark.parametrize("name", ["witness", "mldsa"])
def test_a_cosignature_with_another_time_is_refused(name: str):
    one = sign(name)
    later = NoteSignature(one.name, one.id, (TIME + 1).to_bytes(8) + one.signature[8:])

    with pytest.raises(BadNote, match="is wrong"):
        open_note(Note(CHECKPOINT.text, (later,)), [KEYS[name]])
    with pytest.raises(BadNote, match="is none"):
        open_note(Note(CHECKPOINT.text, (sign(name, time=1 << 63),)), [KEYS[name]])


def test_a_cosignature_of_ed25519_says_its_time():
    with pytest.raises(BadNote, match="is none"):
        open_note(Note(CHECKPOINT.text, (sign("witness", time=0),)), [WITNESS_KEY])
    assert open_note(Note(CHECKPOINT.text, (sign("mldsa", time=0),)), [MLDSA_KEY])[1] == [(MLDSA_KEY, 0)]


def test_signatures_of_unknown_keys_are_ignored_and_one_known_one_must_be_there():
    same_name = NoteKey(ORIGIN, Kind.ED25519, WITNESS.public_key())
    same_id = NoteSignature("other", LOG_KEY.id, bytes(64))
    odd = NoteSignature(ORIGIN, same_name.id, bytes(64))

    _, by = open_note(Note(CHECKPOINT.text, (odd, same_id, sign("log"))), [LOG_KEY])
    assert by == [(LOG_KEY, 0)]
    for signatures in ((odd, same_id), (sign("witness"),)):
        with pytest.raises(BadNote, match="none of the keys"):
            open_note(Note(CHECKPOINT.text, signatures), [LOG_KEY])
    with pytest.raises(BadNote, match="none of the keys"):
        open_note(note("log"), [])


def test_one_wrong_signature_of_a_known_key_refuses_the_note():
    forged = NoteSignature(WITNESS_KEY.name, WITNESS_KEY.id, TIME.to_bytes(8) + bytes(64))

    with pytest.raises(BadNote, match=r"witness\.example/w1 is wrong"):
        open_note(Note(CHECKPOINT.text, (sign("log"), forged)), [LOG_KEY, WITNESS_KEY])


def test_the_first_signature_of_a_key_counts():
    again = NoteSignature(LOG_KEY.name, LOG_KEY.id, bytes(64))

    assert open_note(Note(CHECKPOINT.text, (sign("log"), again)), [LOG_KEY])[1] == [(LOG_KEY, 0)]


def test_other_lines_of_a_checkpoint_are_signed_with_it():
    other = Checkpoint(ORIGIN, 5, b"r" * 32, ("extra", "line \u2014 two"))
    signed = Note(other.text, (sign("log", other),))

    assert open_note(Note.parse(signed.encoded), [LOG_KEY])[0] == other
    with pytest.raises(BadNote, match="is wrong"):
        open_note(Note(Checkpoint(ORIGIN, 5, b"r" * 32, ("extra",)).text, signed.signatures), [LOG_KEY])


GOOD = note("log").encoded


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "blank line"),
        (GOOD[:-1], "with its end"),
        (note("log", "witness").encoded[:-1], "with its end"),
        (GOOD + b"\n", "lines of signature"),
        (GOOD.replace(b"\n\n", b"\n"), "blank line"),
        (GOOD.replace("\u2014".encode(), b"-"), "em dash"),
        (GOOD.replace("\u2014 ".encode(), "\u2014".encode()), "em dash"),
        (GOOD.replace(b"1000", b"\t1000"), "control characters"),
        (GOOD.replace(b"1000", b"1000\r"), "control characters"),
        (GOOD.replace(b"1000", b"\xff"), "UTF-8"),
        (GOOD[:-2] + b"!\n", "base64"),
        (CHECKPOINT.text.encode() + "\n\u2014 name AAAA\n".encode(), "key ID"),
        (CHECKPOINT.text.encode() + "\n\u2014  AAAAAAA=\n".encode(), "name of a key"),
        (CHECKPOINT.text.encode() + "\n\u2014 a b AAAAAAA=\n".encode(), "base64"),
        (CHECKPOINT.text.encode() + "\n\u2014 name AAAAAAB=\n".encode(), "base64"),
        (GOOD + GOOD.rpartition(b"\n\n")[2] * 100, "lines of signature"),
        (b"x" * (MAX_NOTE + 1), "more than"),
        (b"\n\n" + GOOD.rpartition(b"\n\n")[2], "blank line"),
    ],
)
def test_what_is_no_note_is_refused(data: bytes, reason: str):
    with pytest.raises(BadNote, match=reason):
        Note.parse(data)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("origin\n1\n", "each on a line"),
        ("origin\n1\nAAAA", "each on a line"),
        ("origin\n1\nAAAA\nrest", "each on a line"),
        ("\n1\nAAAA\n", "each on a line"),
        ("origin\n1\nAAAA\n\n", "each on a line"),
        ("origin\n01\nAAAA\n", "decimal"),
        ("origin\n-1\nAAAA\n", "decimal"),
        ("origin\n+1\nAAAA\n", "decimal"),
        ("origin\n\u0661\nAAAA\n", "decimal"),
        (f"origin\n{1 << 64}\nAAAA\n", "64 bits"),
        ("origin\n1\nAAA\n", "base64"),
        ("origin\n1\nAA B\n", "base64"),
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str, reason: str):
    with pytest.raises(BadNote, match=reason):
        Checkpoint.parse(text)


def test_sixteen_signatures_of_ml_dsa_fit():
    many = Note(CHECKPOINT.text, (sign("mldsa"),) * 16)

    assert Note.parse(many.encoded) == many


def test_lines_of_a_witness_are_read():
    one, two = sign("witness"), sign("mldsa")

    assert signature_lines(one.line + two.line) == [one, two]


class TestNote(ParserContract):
    valid = (note("log", "witness").encoded,)
    refusals = BadNote
    costly = ((b"a\n" * (MAX_NOTE // 2),), (b"a\n\n" + "\u2014 a AAAAAAA=\n".encode() * 5000,), (b"\n" * MAX_NOTE,))

    def read(self, *parts: bytes) -> None:
        found = Note.parse(parts[0])
        assert found.encoded == parts[0]
        assert Checkpoint.parse(found.text).text == found.text
