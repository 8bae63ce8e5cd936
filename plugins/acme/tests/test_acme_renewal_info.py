"""Names of certificates and windows of renewal (RFC 9773), without a service."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.issuance import Certificate
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest
from greatseal.testing.parsers import ParserContract
from greatseal_acme.protocol.objects import moment_text
from greatseal_acme.renewal_info import CertificateName, name_of, window_of

DAY = 86_400 * SECOND
KEY_IDENTIFIER = bytes.fromhex("69885b6b87464041e1b37b847ba0ae2cde01c8d4")
EXAMPLE = "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE"
BEGIN = 1_800_000_000 * SECOND
CERTIFICATE = Certificate(
    id="c1", status="issued", ca_id="default", profile="default", serial=b"\x87eC!", account_id="a1", order_id="o1", spki_sha256=b"",
    not_before=BEGIN, not_after=BEGIN + 90 * DAY - SECOND, der=b"no DER", chain=(), media_type="",
)  # fmt: skip


def test_the_example_of_rfc_9773_is_read_and_written():
    name = CertificateName.read(EXAMPLE)

    assert (name.key_identifier, name.serial) == (KEY_IDENTIFIER, bytes.fromhex("87654321"))
    assert str(name) == EXAMPLE


@pytest.mark.parametrize(
    "text",
    {
        "empty": "", "no dot": "aYhba4dGQEHhs3uEe6CuLN4ByNQ", "two dots": f"{EXAMPLE}.AA", "no serial": "aYhba4dGQEHhs3uEe6CuLN4ByNQ.",
        "no key": ".AIdlQyE", "padded": "aYhba4dGQEHhs3uEe6CuLN4ByNQ=.AIdlQyE", "no base64url": "aYhba4dGQEHhs3uEe6CuLN4ByN+.AIdlQyE",
        "spare bits": "aYhba4dGQEHhs3uEe6CuLN4ByNR.AIdlQyE", "negative": "aYhba4dGQEHhs3uEe6CuLN4ByNQ.h2VDIQ",
        "zero": "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AA", "a byte too many": "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AAE", "long": f"{'AAAA' * 50}.AQ",
        "two bytes too many": "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AACHZUMh",
    }.items(),
    ids=lambda case: case[0],
)  # fmt: skip
def test_a_name_has_one_spelling(text):
    with pytest.raises(BadRequest, match="RFC 9773"):
        CertificateName.read(text[1])


@given(st.binary(min_size=1, max_size=20), st.integers(1, 2**159 - 1))
def test_what_is_written_is_read(key_identifier, number):
    name = CertificateName(key_identifier, number.to_bytes((number.bit_length() + 7) // 8))

    assert CertificateName.read(str(name)) == name


class TestAnyName(ParserContract):
    valid = (EXAMPLE.encode(),)
    refusals = BadRequest
    costly = ((b"A" * 60_000,), (b"AAAA." * 12_000,), (b"." * 60_000,))

    def read(self, *parts: bytes) -> None:
        """A name has one spelling."""
        text = parts[0].decode(errors="backslashreplace")
        assert str(CertificateName.read(text)) == text


@pytest.mark.parametrize(
    ("days", "start", "end"),
    [(90, 60, 89), (365, 243 + 1 / 3, 364), (10, 6 + 2 / 3, 9), (9, 4.5, 8.1), (6, 3, 5.4), (1, 0.5, 0.9)],
)
def test_the_window_is_the_last_third_without_a_day_and_the_later_half_of_short_lives(days, start, end):
    window = window_of(msgspec.structs.replace(CERTIFICATE, not_after=BEGIN + days * DAY))

    assert window.start == BEGIN + int(start * 86_400) * SECOND
    assert window.end == BEGIN + round(end * 86_400) * SECOND


@given(st.integers(SECOND, 40 * 365 * DAY), st.integers(0, 2 * DAY))
def test_a_window_ends_after_it_starts_as_it_is_shown(lifetime, since):
    certificate = msgspec.structs.replace(CERTIFICATE, not_after=BEGIN + lifetime)
    revoked = msgspec.structs.replace(certificate, status="revoked", revoked_at=BEGIN + since)

    window, past = window_of(certificate), window_of(revoked)

    assert moment_text(BEGIN) <= moment_text(window.start) < moment_text(window.end)
    assert window.end <= max(certificate.not_after, window.start + SECOND)
    assert moment_text(past.start) < moment_text(past.end) <= moment_text(BEGIN + since)


def test_what_has_no_der_or_an_unreadable_one_has_no_name():
    assert name_of(CERTIFICATE) is None
    assert name_of(msgspec.structs.replace(CERTIFICATE, der=None)) is None
