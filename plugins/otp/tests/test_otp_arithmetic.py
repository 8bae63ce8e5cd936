"""Codes by the vectors of the RFCs, against pyotp, and the URI that an app reads."""

import hashlib
from urllib.parse import parse_qs, unquote, urlsplit

import pyotp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.otp import NewToken, TokenKey
from greatseal_otp.arithmetic import LOOK_AHEAD, matching, otpauth_uri, spelt
from greatseal_otp.page import qr_code

KEYS = {"sha1": b"1234567890" * 2, "sha256": b"1234567890" * 3 + b"12", "sha512": b"1234567890" * 6 + b"1234"}
SECOND = 1_000_000
RFC_4226 = ("755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489")
RFC_6238 = [
    (59, "94287082", "46119246", "90693936"),
    (1111111109, "07081804", "68084774", "25091201"),
    (1111111111, "14050471", "67062674", "99943326"),
    (1234567890, "89005924", "91819424", "93441116"),
    (2000000000, "69279037", "90698825", "38618901"),
    (20000000000, "65353130", "77737706", "47863826"),
]


def totp(algorithm="sha1", digits=6, **more):
    return TokenKey(token_id="t1", type="totp", key=KEYS[algorithm], algorithm=algorithm, digits=digits, **more)


def code_at(step, digits=6):
    return pyotp.HOTP(_base32(KEYS["sha1"]), digits=digits).at(step)


def _base32(key):
    return spelt(key).replace(" ", "")


@pytest.mark.parametrize(("moment", *KEYS), RFC_6238)
def test_the_vectors_of_rfc_6238(moment, sha1, sha256, sha512):
    for algorithm, code in (("sha1", sha1), ("sha256", sha256), ("sha512", sha512)):
        assert matching(totp(algorithm, 8), code, moment * SECOND) == moment // 30


def test_the_vectors_of_rfc_4226():
    key = TokenKey(token_id="t1", type="hotp", key=KEYS["sha1"], algorithm="sha1", digits=6)

    assert [matching(key, code, 0) for code in RFC_4226] == list(range(10))


def test_a_counter_goes_on_behind_the_one_that_was_used_and_looks_ten_ahead():
    def after(used, counter=0):
        return TokenKey(token_id="t1", type="hotp", key=KEYS["sha1"], algorithm="sha1", digits=6, used=used, counter=counter)

    assert matching(after(4), RFC_4226[4], 0) is None
    assert matching(after(4), RFC_4226[5], 0) == 5
    assert matching(after(None, 6), RFC_4226[5], 0) is None
    assert matching(after(None), code_at(LOOK_AHEAD - 1), 0) == LOOK_AHEAD - 1
    assert matching(after(None), code_at(LOOK_AHEAD), 0) is None
    assert matching(after(None), code_at(1_000), 30_000 * SECOND) is None


@pytest.mark.parametrize(("distance", "good"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_s102_one_step_before_and_one_after_are_good(distance, good):
    step = 1_000_000

    found = matching(totp(), code_at(step + distance), (step * 30 + 15) * SECOND)

    assert found == (step + distance if good else None)


def test_s102_a_step_that_was_used_and_those_before_it_are_not_good():
    step = 1_000_000
    now = step * 30 * SECOND

    assert matching(totp(used=step), code_at(step), now) is None
    assert matching(totp(used=step), code_at(step - 1), now) is None
    assert matching(totp(used=step), code_at(step + 1), now) == step + 1
    assert matching(totp(used=step - 1), code_at(step), now) == step


def test_a_clock_that_is_ahead_is_reckoned_with():
    step = 1_000_000

    assert matching(totp(offset=3600), code_at(step + 120), step * 30 * SECOND) == step + 120


def test_in_the_first_step_of_all_there_is_none_before():
    assert matching(totp(), code_at(0), 0) == 0
    assert matching(totp(), "000000", 0) is None


@pytest.mark.parametrize("code", ["", "75522", "7552244", "75522a", " 755224", "+75522", "٧٥٥٢٢٤", "755224\n", "0x1234"])
def test_what_is_no_code_is_not_good(code):
    assert matching(TokenKey(token_id="t1", type="hotp", key=KEYS["sha1"], algorithm="sha1", digits=6), code, 0) is None


def test_with_a_key_that_is_too_short_no_code_is_good():
    short = TokenKey(token_id="t1", type="hotp", key=b"1" * 13, algorithm="sha1", digits=6)

    assert matching(short, "000000", 0) is None


@given(st.text(max_size=30))
def test_any_text_is_a_code_or_none(text):
    found = matching(totp(), text, 59 * SECOND)

    assert (found is not None) == (text in {code_at(0), code_at(1), code_at(2)})


@given(st.sampled_from(sorted(KEYS)), st.sampled_from([6, 8]), st.integers(0, 2**40), st.binary(min_size=20, max_size=64))
def test_pyotp_counts_as_we_do(algorithm, digits, second, key):
    peer = pyotp.TOTP(_base32(key), digits=digits, digest=getattr(hashlib, algorithm))
    ours = TokenKey(token_id="t1", type="totp", key=key, algorithm=algorithm, digits=digits)

    assert matching(ours, peer.generate_otp(second // 30), second * SECOND) in {second // 30, second // 30 - 1, second // 30 + 1}


@given(
    st.text(min_size=1, max_size=40),
    st.text(min_size=1, max_size=40),
    st.sampled_from(["sha1", "sha256", "sha512"]),
    st.sampled_from([6, 8]),
    st.binary(min_size=20, max_size=64),
)
def test_the_uri_says_all_and_pyotp_reads_the_key(issuer, username, algorithm, digits, key):
    issuer, username = (name.encode(errors="replace").decode() for name in (issuer, username))
    new = NewToken(label="phone", key=key, algorithm=algorithm, digits=digits, period=30)

    uri = otpauth_uri(new, issuer=issuer, username=username)

    parts = urlsplit(uri)
    assert (parts.scheme, parts.netloc) == ("otpauth", "totp")
    first, colon, second = parts.path.removeprefix("/").partition(":")
    assert (unquote(first), colon, unquote(second)) == (issuer.replace(":", " "), ":", username.replace(":", " "))
    assert ":" not in second
    assert parse_qs(parts.query, keep_blank_values=True) == {
        "secret": [_base32(key)],
        "issuer": [issuer.replace(":", " ")],
        "algorithm": [algorithm.upper()],
        "digits": [str(digits)],
        "period": ["30"],
    }
    peer = pyotp.parse_uri(uri)
    assert isinstance(peer, pyotp.TOTP)
    assert (peer.byte_secret(), peer.digits, peer.interval) == (key, digits, 30)


def test_a_key_is_never_in_a_message():
    new = NewToken(label="phone", key=KEYS["sha1"], algorithm="sha1", digits=6, period=30)

    assert "123" not in f"{new!r} {totp()!r}"


def test_the_picture_is_an_image_without_scripts_and_styles():
    picture = qr_code("otpauth://totp/a:b?secret=ABC&issuer=<a>")

    assert picture.startswith("<svg viewBox=")
    assert not any(word in picture for word in ("<script", "style=", "<a>", "http"))
