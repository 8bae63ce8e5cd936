"""Trust anchor identifiers, in all their forms."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.testing.parsers import ParserContract
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import PLANTS_05, PLANTS_07

VECTORS: Any = json.loads((Path(__file__).parent / "vectors/mtc.json").read_text())
FORMS = VECTORS["trust_anchor_id"]
CA = TrustAnchorId(FORMS["ascii"])


def test_the_forms_of_an_id_are_those_of_the_drafts():
    assert CA.binary.hex() == FORMS["binary"]
    assert CA.der.hex() == FORMS["der_relative_oid"]
    assert CA.name == FORMS["cosigner_name"]
    log = CA.log(1)
    assert (log.ascii, log.binary.hex()) == (FORMS["log_id_of_log_1"], FORMS["log_id_binary"])
    landmark = CA.landmark(8, 42)
    assert (landmark.ascii, landmark.binary.hex()) == (FORMS["landmark_42_of_log_8"]["ascii"], FORMS["landmark_42_of_log_8"]["binary"])
    assert CA.landmarks(8, 42).ascii == FORMS["landmark_group"]


def test_ca_067_the_name_of_the_issuer_is_the_id_of_the_ca():
    assert PLANTS_05.issuer(CA).hex() == FORMS["issuer_name_der_draft05_experimental"]
    assert PLANTS_07.issuer(CA).hex() == FORMS["issuer_name_der_final_relative_oid_iana"]


def test_a_configuration_may_write_the_whole_oid():
    assert TrustAnchorId.parse("1.3.6.1.4.1.32473.1") == TrustAnchorId.parse("32473.1") == CA


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "32473.", ".1", "a", "32473.01", "32473..1", "-1", "32473 1", "1.3.6.1.4.1.", "\u0661", f"1.{1 << 64}", "1." * 600 + "1",
        "9" * 300,
    ],
)  # fmt: skip
def test_what_is_no_id_is_refused(text: str):
    with pytest.raises(ValueError, match="trust anchor ID"):
        TrustAnchorId.parse(text)


def test_an_id_of_more_than_255_octets_is_refused():
    with pytest.raises(ValueError, match="255 octets"):
        TrustAnchorId(".".join(["99999999999999"] * 40))


@pytest.mark.parametrize("octets", [b"", b"\x81", b"\x80\x01", b"\x01\x80", b"\x01" * 256], ids=["none", "cut", "zero", "open", "long"])
def test_octets_that_are_no_id_are_refused(octets: bytes):
    with pytest.raises(ValueError, match=r"of a trust anchor ID|a trust anchor ID is cut short, empty or too long"):
        TrustAnchorId.from_binary(octets)


@pytest.mark.parametrize("element", [b"\x06" + CA.der[1:], b"\x0d\x81" + CA.der[1:], CA.der + b"\0"], ids=["tag", "length", "more"])
def test_a_relative_oid_in_another_form_is_refused(element: bytes):
    with pytest.raises(ValueError, match="not a RELATIVE-OID"):
        TrustAnchorId.from_der(element)


def test_ids_are_equal_by_their_octets():
    assert TrustAnchorId("32473.1") == CA
    assert len({CA, TrustAnchorId("32473.1"), TrustAnchorId("32473.2")}) == 2
    assert TrustAnchorId("32473.2") != CA
    assert CA.ascii != CA


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=8))
def test_every_form_is_read_as_it_was_written(arcs: list[int]):
    one = TrustAnchorId(".".join(map(str, arcs)))

    assert TrustAnchorId.from_binary(one.binary) == TrustAnchorId.from_der(one.der) == one


class TestBinary(ParserContract):
    valid = (CA.landmark(8, 42).binary,)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        assert TrustAnchorId.from_binary(parts[0]).binary == parts[0]


class TestDer(ParserContract):
    valid = (CA.der,)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        assert TrustAnchorId.from_der(parts[0]).der == parts[0]
