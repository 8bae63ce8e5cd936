"""What an entry says, for people."""

import json
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.testing.parsers import ParserContract
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import PLANTS_05
from greatseal_mtc.entries import matches, read_entry
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.wire import NULL_ENTRY, entry_of_tbs

VECTORS: Any = json.loads((Path(__file__).parent / "vectors/mtc.json").read_text())
CA = TrustAnchorId("32473.1")
KEY = ec.generate_private_key(ec.SECP256R1())
SINCE, UNTIL = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 3, 2, 23, 59, 59, tzinfo=UTC)


def entry_of(*names: x509.GeneralName, common_name: str | None = None) -> bytes:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)] if common_name else [])
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=x509.Name([]), public_key=KEY.public_key(), serial_number=7)
    builder = builder.not_valid_before(SINCE).not_valid_after(UNTIL)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
    return entry_of_tbs(PLANTS_05, CA, SHA256, builder.sign(KEY, hashes.SHA256()).tbs_certificate_bytes)


ENTRY = entry_of(x509.DNSName("a.example.org"), x509.RFC822Name("ada@example.com"), x509.IPAddress(ip_address("192.0.2.1")))


def test_an_entry_says_its_names_and_its_validity():
    found = read_entry(ENTRY)

    assert found is not None
    assert found.names == ("a.example.org", "ada@example.com", "192.0.2.1")
    assert (found.not_before, found.not_after) == (int(SINCE.timestamp()), int(UNTIL.timestamp()))
    assert len(found.key_hash) == 32


def test_without_a_san_the_common_name_is_told():
    assert read_entry(entry_of(common_name="Ada")).names == ("Ada",)
    assert read_entry(entry_of()).names == ()


def test_the_null_entry_says_nothing():
    assert read_entry(NULL_ENTRY) is None


def test_entries_of_the_demo_of_the_draft_are_read():
    tbs = x509.load_der_x509_certificate(
        bytes.fromhex(VECTORS["draft_demo"]["landmark_cert_index10_subtree_0_32_der"])
    ).tbs_certificate_bytes

    assert read_entry(entry_of_tbs(PLANTS_05, CA, SHA256, tbs)) is not None


@pytest.mark.parametrize(
    ("domain", "found"),
    [
        ("example.org", True), ("A.Example.ORG", True), ("a.example.org.", True), ("example.com", True), ("xample.org", False),
        ("b.a.example.org", False), ("org", True), ("192.0.2.1", True),
    ],
)  # fmt: skip
def test_a_domain_is_found_in_names_that_are_it_or_below_it(domain, found):
    entry = read_entry(ENTRY)

    assert entry is not None
    assert matches(entry, domain) is found


class TestReadingEntries(ParserContract):
    valid = (ENTRY,)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        found = read_entry(parts[0])
        assert found is None or all(isinstance(name, str) for name in found.names)
