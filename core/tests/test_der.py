"""Writing DER: what is written is what another reader reads."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from greatseal import der
from greatseal.api.moments import SECOND


def moment(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp()) * SECOND


@pytest.mark.parametrize(
    ("when", "written"),
    [
        ((1970, 1, 1), b"\x17\x0d700101000000Z"),
        ((2026, 11, 22, 23, 59, 59), b"\x17\x0d261122235959Z"),
        ((2049, 12, 31, 23, 59, 59), b"\x17\x0d491231235959Z"),
        ((2050, 1, 1), b"\x18\x0f20500101000000Z"),
        ((9999, 12, 31, 23, 59, 59), b"\x18\x0f99991231235959Z"),
    ],
)
def test_a_time_is_utc_through_2049_and_generalized_from_then_on(when, written):
    assert der.time(moment(*when)) == written
    assert der.time(moment(*when) + 999_999) == written
    assert der.generalized_time(moment(*when)).endswith(written[-13:])


@pytest.mark.parametrize(
    ("number", "written"), [(0, "020100"), (127, "02017f"), (128, "02020080"), (256, "02020100"), (2**64, "0209010000000000000000")]
)
def test_an_integer_has_a_sign_and_no_octet_more_than_it_needs(number, written):
    assert der.integer(number).hex() == written


@pytest.mark.parametrize(
    ("dotted", "written"),
    [("2.5.29.17", "0603551d11"), ("1.2.840.113549.1.1.11", "06092a864886f70d01010b"), ("2.999.3", "0603883703"), ("0.0", "060100")],
)
def test_an_object_identifier_is_written_in_groups_of_seven_bits(dotted, written):
    assert der.object_identifier(dotted).hex() == written


def test_a_list_of_our_own_making_is_read_by_another():
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    entry = der.sequence(der.integer(2**127), der.time(moment(2026, 1, 2, 3, 4, 5)))
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    times = der.time(moment(2026, 1, 1)), der.time(moment(2051, 1, 1))
    tbs = der.sequence(der.integer(1), algorithm, name.public_bytes(), *times, der.sequence(entry))

    (found,) = read = x509.load_der_x509_crl(der.signed(tbs, algorithm, b""))
    assert (read.last_update_utc, read.next_update_utc) == (datetime(2026, 1, 1, tzinfo=UTC), datetime(2051, 1, 1, tzinfo=UTC))
    assert (found.serial_number, found.revocation_date_utc) == (2**127, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert not read.is_signature_valid(key.public_key())
