"""Proofs in files, bodies for witnesses, lists of landmarks and properties of certificates."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.testing.parsers import ParserContract
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.landmark_list import LandmarkList, dated_list
from greatseal_mtc.merkle import BadProof, is_subtree
from greatseal_mtc.note import BadNote, Checkpoint, Note, NoteKey
from greatseal_mtc.proofs import LogProof
from greatseal_mtc.properties import Inclusion, Properties
from greatseal_mtc.wire import NULL_ENTRY
from greatseal_mtc.witnessing import MAX_BODY, AddCheckpoint, SignSubtree, parse_size, size_body

VECTORS: Any = json.loads((Path(__file__).parent / "vectors/mtc.json").read_text())
NOTE = VECTORS["note"]
SIGNED = Note.parse(NOTE["checkpoint"].encode())
KEY = NoteKey.parse(NOTE["vkey"])
HASHES = (b"a" * 32, b"b" * 32)


# ---- Proofs


def proof(index: int = 7, *, extra: bytes | None = None) -> LogProof:
    return LogProof(index=index, path=HASHES, note=SIGNED, extra=extra)


@pytest.mark.parametrize("place", range(len(NOTE["inclusion"])))
def test_a_proof_of_an_entry_holds(place: int):
    index, path = NOTE["inclusion"][place]
    entry = b"\0\0\0\1entry %d" % index if index else NULL_ENTRY
    made = LogProof(index=index, path=tuple(map(bytes.fromhex, path)), note=SIGNED)

    found = LogProof.parse(made.encoded)

    assert found == made
    assert found.verify(entry, [KEY]) == Checkpoint.parse(SIGNED.text)
    with pytest.raises(BadProof, match="not in the log"):
        found.verify(entry + b"!", [KEY])
    with pytest.raises(BadProof, match="an inclusion proof of"):
        LogProof(index=index, path=made.path[1:], note=SIGNED).verify(entry, [KEY])
    with pytest.raises(BadNote, match="none of the keys"):
        found.verify(entry, [])


def test_a_proof_is_written_as_c2sp_says():
    lines = proof(extra=b"x").encoded.decode().split("\n")

    assert lines[:6] == ["c2sp.org/tlog-proof@v1", "extra eA==", "index 7", "YWFh" * 10 + "YWE=", "YmJi" * 10 + "YmI=", ""]
    assert "\n".join(lines[6:]) == NOTE["checkpoint"]
    assert LogProof.parse(proof(extra=b"").encoded).extra == b""


GOOD = proof().encoded


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "some lines"),
        (GOOD.replace(b"@v1", b"@v2"), "begins with"),
        (GOOD.replace(b"index 7\n", b""), "index of its entry"),
        (b"c2sp.org/tlog-proof@v1\n\n" + SIGNED.encoded, "index of its entry"),
        (GOOD.replace(b"index 7", b"extra " + b"AAAA" * 70_000 + b"\nindex 7"), "some lines"),
        (GOOD.replace(b"index 7", b"index 07"), "decimal"),
        (GOOD.replace(b"index 7", b"index  7"), "decimal"),
        (GOOD.replace(b"index 7", b"extra !\nindex 7"), "base64"),
        (GOOD.replace(b"index 7", b"extra eA==\nextra eA==\nindex 7"), "index of its entry"),
        (GOOD.replace(b"index 7", b"index 7\nYWFh"), "32 bytes"),
        (GOOD.replace(b"index 7", b"index 7" + b"\n" + b"YWFh" * 10 + b"YWE=" * 1 + (b"\n" + b"YWFh" * 10 + b"YWE=") * 62), "at most 63"),
        (GOOD.replace(b"index 7", b"index 7\n\xff"), "ASCII"),
        (GOOD[:-1], "with its end"),
    ],
)
def test_what_is_no_proof_is_refused(data: bytes, reason: str):
    with pytest.raises(BadNote, match=reason):
        LogProof.parse(data)


class TestProof(ParserContract):
    valid = (proof(extra=b"extra").encoded,)
    refusals = BadNote

    def read(self, *parts: bytes) -> None:
        assert LogProof.parse(parts[0]).encoded == parts[0]


# ---- Witnesses


def test_bodies_for_a_witness_are_read_as_they_were_written():
    add = AddCheckpoint(600, HASHES, SIGNED)
    sign = SignSubtree(256, 300, b"r" * 32, HASHES, SIGNED)

    assert add.encoded.startswith(b"old 600\n" + b"YWFh" * 10 + b"YWE=\n")
    assert sign.encoded.startswith(b"subtree 256 300\n" + b"cnJy" * 10 + b"cnI=\n" + b"YWFh" * 10)
    assert add.encoded.endswith(b"\n\n" + NOTE["checkpoint"].encode())
    assert AddCheckpoint.parse(add.encoded) == add
    assert AddCheckpoint.parse(AddCheckpoint(0, (), SIGNED).encoded).path == ()
    assert SignSubtree.parse(sign.encoded) == sign


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "some lines"),
        (b"\n\n", "text, a blank line"),
        (b"old 5\n", "some lines"),
        (b"new 5\n\n" + SIGNED.encoded, "first line"),
        (b"old  5\n\n" + SIGNED.encoded, "decimal"),
        (b"old 05\n\n" + SIGNED.encoded, "decimal"),
        (b"old 5\nYWFh\n\n" + SIGNED.encoded, "32 bytes"),
        (b"old 5" + (b"\n" + b"YWFh" * 10 + b"YWE=") * 64 + b"\n\n" + SIGNED.encoded, "at most 63"),
        (b"old 5\n\xff\n\n" + SIGNED.encoded, "ASCII"),
        (b"old 5\n\n" + SIGNED.encoded[:-1], "with its end"),
        (b"x" * (MAX_BODY + 1), "more than"),
    ],
)
def test_another_body_of_add_checkpoint_is_refused(body: bytes, reason: str):
    with pytest.raises(BadNote, match=reason):
        AddCheckpoint.parse(body)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"subtree 0 4\n\n", "second one is its hash"),
        (b"subtree 0\nYWFh\n\n", "first line"),
        (b"subtree 0 4 8\nYWFh\n\n", "first line"),
        (b"tree 0 4\nYWFh\n\n", "first line"),
        (b"subtree 0 04\nYWFh\n\n", "decimal"),
        (b"subtree 3 5\nYWFh\n\n", "no subtree"),
        (b"subtree 5 5\nYWFh\n\n", "no subtree"),
        (b"subtree 0 4\nYWFh\n\n", "32 bytes"),
    ],
)
def test_another_body_of_sign_subtree_is_refused(body: bytes, reason: str):
    with pytest.raises(BadNote, match=reason):
        SignSubtree.parse(body + SIGNED.encoded)


def test_the_size_that_a_witness_knows_is_a_line():
    assert (size_body(5), parse_size(b"5\n")) == (b"5\n", 5)
    for wrong in (b"", b"5", b"55", b"05\n", b"5\n\n", b"\xff\n", b"-1\n"):
        with pytest.raises(BadNote):
            parse_size(wrong)


class TestAddCheckpoint(ParserContract):
    valid = (AddCheckpoint(600, HASHES, SIGNED).encoded,)
    refusals = BadNote

    def read(self, *parts: bytes) -> None:
        assert AddCheckpoint.parse(parts[0]).encoded == parts[0]


class TestSignSubtree(ParserContract):
    valid = (SignSubtree(256, 300, b"r" * 32, HASHES, SIGNED).encoded,)
    refusals = BadNote

    def read(self, *parts: bytes) -> None:
        assert SignSubtree.parse(parts[0]).encoded == parts[0]


class TestSize(ParserContract):
    valid = (b"20852163\n",)
    refusals = BadNote

    def read(self, *parts: bytes) -> None:
        assert size_body(parse_size(parts[0])) == parts[0]


# ---- Landmarks

LANDMARKS = VECTORS["landmark_list"]
SIZES = LANDMARKS["sequence sizes (draft numbering 0..3)"]


@pytest.mark.parametrize("max_active", [2, 100])
def test_a_list_of_landmarks_is_that_of_the_draft(max_active: int):
    made = LandmarkList.of(3, SIZES[::-1], max_active)

    assert made.text == LANDMARKS[f"max_active {max_active}"]
    assert LandmarkList.parse(made.text) == made


def test_the_list_of_a_log_without_landmarks():
    assert LandmarkList().text == LANDMARKS["none allocated"]
    assert LandmarkList.parse("0 0\n0\n") == LandmarkList()
    assert LandmarkList().subtrees() == []
    assert LandmarkList().covering(0) is None


def test_the_subtrees_of_landmarks_cover_what_each_added():
    listed = LandmarkList.of(3, SIZES[::-1], 2)

    assert listed.subtrees() == [(3, (248, 256)), (3, (256, 400)), (2, (96, 128)), (2, (128, 250))]
    assert [listed.covering(index) for index in (99, 100, 127, 128, 249, 250, 256, 399, 400)] == [
        None, (2, (96, 128)), (2, (96, 128)), (2, (128, 250)), (2, (128, 250)), (3, (248, 256)), (3, (256, 400)), (3, (256, 400)), None,
    ]  # fmt: skip


def test_the_list_of_plants_07_says_when_landmarks_expire():
    landmarks = [(250, 2000), (100, 1000), (0, 0)]

    assert dated_list(2, landmarks, 1000) == "2\n250 2000\n100 1000\n0 0\n"
    assert dated_list(2, landmarks, 1001) == "2\n250 2000\n100 1000\n"
    assert dated_list(2, landmarks, 5000) == "2\n250 2000\n"
    assert dated_list(0, [(0, 0)], 5000) == "0\n0 0\n"
    assert dated_list(2, [(250, 2000), (100, 3000), (0, 0)], 1) == "2\n250 2000\n100 2000\n0 0\n", "the clock was set back"


@given(st.lists(st.integers(1, 1 << 20), min_size=1, max_size=30), st.integers(1, 40), st.data())
def test_every_entry_of_active_landmarks_is_in_a_subtree_of_the_first_that_had_it(steps: list[int], active: int, data: st.DataObject):
    sizes = [0]
    for step in steps:
        sizes.append(sizes[-1] + step)
    listed = LandmarkList.of(len(steps), sizes[::-1], active)
    index = data.draw(st.integers(listed.sizes[-1], sizes[-1] - 1))

    number, subtree = listed.covering(index) or (0, (0, 0))

    assert LandmarkList.parse(listed.text) == listed
    assert sizes[number - 1] <= index < sizes[number]
    assert is_subtree(*subtree)
    assert subtree[0] <= index < subtree[1] <= sizes[number]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "decimal"),
        ("0\n0\n", "first line"),
        ("0 1\n1\n0\n", "no more"),
        ("0 0\n", "each on its line"),
        ("0 0\n0", "each on its line"),
        ("0 0\n0\n0", "each on its line"),
        ("0 0\n0\n0\n", "each on its line"),
        ("1 1\n1\n1\n", "strictly decreasing"),
        ("1 1\n1\n2\n", "strictly decreasing"),
        ("1 1\n01\n0\n", "decimal"),
        ("1 1 1\n1\n0\n", "first line"),
        (f"1 1\n{(1 << 48) + 1}\n0\n", "strictly decreasing"),
        ("9" * 2_000_000, "more than"),
    ],
)
def test_another_list_of_landmarks_is_refused(text: str, reason: str):
    with pytest.raises(BadNote, match=reason):
        LandmarkList.parse(text)


class TestLandmarkList(ParserContract):
    valid = (LANDMARKS["max_active 100"].encode(),)
    refusals = BadNote

    def read(self, *parts: bytes) -> None:
        text = parts[0].decode("latin-1")
        assert LandmarkList.parse(text).text == text


# ---- Properties

CA = TrustAnchorId("32473.1")
GROUP = Inclusion(TrustAnchorId("32473.1.2.1"), 5, 9)
WHOLE = Properties(trust_anchor_id=CA.landmark(1, 5), inclusions=(GROUP,), negotiation=True)


def test_properties_are_a_list_by_type():
    assert Properties().encode() == b"\0\0"
    assert Properties(trust_anchor_id=CA).encode() == bytes.fromhex("00080000000481fd5901")
    assert Properties(negotiation=True).encode() == bytes.fromhex("000400020000")
    group = "0001001900170681fd5901020100000000000000050000000000000009"
    assert WHOLE.encode() == bytes.fromhex("002c0000000781fd5901010105" + group + "00020000")


@pytest.mark.parametrize("made", [Properties(), Properties(trust_anchor_id=CA), Properties(inclusions=(GROUP, GROUP)), WHOLE])
def test_properties_are_read_as_they_were_written(made: Properties):
    assert Properties.parse(made.encode()) == made


def test_properties_that_are_not_known_are_passed_over():
    assert Properties.parse(bytes.fromhex("000d0000000481fd590100090001ff")) == Properties(trust_anchor_id=CA)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "cut short"),
        ("0019000100150012010100000000000000010000000000000002ff", "one or more"),
        ("000000", "follow"),
        ("000400020001", "cut short"),
        ("00050002000100", "is empty"),
        ("00080002000000020000", "order"),
        ("000c000200000000000481fd5901", "order"),
        ("000400000000", "trust anchor ID"),
        ("0006000100020000", "one or more"),
        ("000700010003000000", "one or more"),
        ("00080001000400020101", "cut short"),
        ("0018000100140012010100000000000000020000000000000001", "ends before it begins"),
    ],
)
def test_other_properties_are_refused(data: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        Properties.parse(bytes.fromhex(data))


class TestProperties(ParserContract):
    valid = (WHOLE.encode(),)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        found = Properties.parse(parts[0])
        assert Properties.parse(found.encode()) == found
