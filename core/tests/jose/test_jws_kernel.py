import base64
import json

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc import jws as joserfc_jws
from joserfc.jwk import import_key
from jwcrypto import jwk as jwcrypto_jwk
from jwcrypto import jws as jwcrypto_jws

from greatseal.jose import compact
from greatseal.jose.algorithms import ALGORITHMS, BadJws, BadSignature, KeyMismatch, UnknownAlgorithm, fits, verify
from greatseal.jose.compact import b64url_decode, b64url_encode, parse_compact, parse_flattened, read_flattened, sign_compact
from greatseal.jose.jwk import jwk_of

EACH = pytest.mark.parametrize("alg", list(ALGORITHMS))
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def flattened(token):
    return dict(zip(("protected", "payload", "signature"), token.split("."), strict=True))


def signed(private_key, alg, payload=b"{}", **header):
    key = private_key(alg)
    return sign_compact({"alg": alg, **header}, payload, lambda message: ALGORITHMS[alg].sign(key, message))


def with_header(header, payload=b"{}", signature=b"s"):
    return f"{b64url_encode(header)}.{b64url_encode(payload)}.{b64url_encode(signature)}"


# ---- base64url


@given(st.binary())
def test_base64url_goes_there_and_back(value):
    assert b64url_decode(b64url_encode(value)) == value


@given(st.text(st.sampled_from("AQgw_-+/= \n\0é\u0661Z09."), max_size=12))
def test_base64url_has_one_text_for_each_value(text):
    try:
        value = b64url_decode(text)
    except ValueError:
        return
    assert b64url_encode(value) == text


@pytest.mark.parametrize("text", ["AA==", "AB", "AAF", "A", "A A", "AAAA\n", "A+/A", "AAA=", "é"])
def test_base64url_that_is_not_canonical_is_refused(text):
    with pytest.raises(ValueError, match="base64url"):
        b64url_decode(text)


# ---- against other implementations


@EACH
def test_what_we_sign_we_verify(private_key, alg):
    jws = parse_compact(signed(private_key, alg, b"hello", kid="k"))

    jws.verify(private_key(alg).public_key(), alg)

    assert (jws.payload, jws.header) == (b"hello", {"alg": alg, "kid": "k"})


@EACH
def test_jwcrypto_verifies_what_we_sign(private_key, alg):
    other = jwcrypto_jws.JWS()
    other.allowed_algs = [alg]

    other.deserialize(signed(private_key, alg, b"hello"), jwcrypto_jwk.JWK(**jwk_of(private_key(alg).public_key())))

    assert other.payload == b"hello"


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(payload=st.binary(max_size=100), alg=st.sampled_from(list(ALGORITHMS)))
def test_we_verify_what_jwcrypto_signs(private_key, payload, alg):
    other = jwcrypto_jws.JWS(payload)
    other.allowed_algs = [alg]
    other.add_signature(jwcrypto_jwk.JWK.from_pyca(private_key(alg)), alg, json.dumps({"alg": alg}))

    for jws in (parse_compact(other.serialize(compact=True)), parse_flattened(other.serialize().encode())):
        jws.verify(private_key(alg).public_key(), alg)
        assert jws.payload == payload


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # RFC 9864 has new names; ACME clients use the old one
@settings(max_examples=25)
@given(payload=st.binary(max_size=100), alg=st.sampled_from([name for name in ALGORITHMS if not name.startswith("ML-")]))
def test_joserfc_and_we_verify_each_other(private_key, payload, alg):
    key = import_key(jwcrypto_jwk.JWK.from_pyca(private_key(alg)).export(as_dict=True))

    theirs = joserfc_jws.serialize_compact({"alg": alg}, payload, key, algorithms=[alg])
    ours = joserfc_jws.deserialize_compact(signed(private_key, alg, payload).encode(), key, algorithms=[alg])

    parse_compact(theirs).verify(private_key(alg).public_key(), alg)
    assert ours.payload == payload


def test_a_key_on_one_curve_is_for_no_signature_by_the_name_of_the_other(private_key):
    """RFC 9864 s2.2."""
    for alg, other in (("Ed25519", "Ed448"), ("Ed448", "Ed25519")):
        with pytest.raises(KeyMismatch):
            verify(alg, private_key(other).public_key(), b"x", ALGORITHMS[other].sign(private_key(other), b"x"))


def test_ed448_is_eddsa_too(private_key):
    key = private_key("EdDSA-Ed448")

    verify("EdDSA", key.public_key(), b"x", ALGORITHMS["EdDSA"].sign(key, b"x"))


@settings(max_examples=200)
@given(st.data())
def test_a_changed_token_never_verifies(private_key, data):
    token = signed(private_key, "ES256", b'{"sub":"alice"}', kid="k")
    at = data.draw(st.integers(0, len(token) - 1))
    char = data.draw(st.sampled_from("ABCDEFGHwxyz0189-_.= +/").filter(lambda c: c != token[at]))

    with pytest.raises(BadJws):
        parse_compact(token[:at] + char + token[at + 1 :]).verify(private_key("ES256").public_key())


@EACH
def test_the_signature_of_another_message_or_key_is_refused(private_key, alg):
    key = private_key(alg)
    signature = ALGORITHMS[alg].sign(key, b"hello")
    verify(alg, key.public_key(), b"hello", signature)

    for message, sent in (
        (b"hellO", signature),
        (b"hello", signature[:-1] + bytes([signature[-1] ^ 1])),
        (b"hello", b""),
        (b"hello", signature * 2),
    ):
        with pytest.raises(BadSignature):
            verify(alg, key.public_key(), message, sent)


# ---- the algorithm belongs to the key


@EACH
def test_an_algorithm_takes_only_its_own_keys(private_key, alg):
    for other in ("ES256", "ES384", "ES512", "EdDSA", "RS256", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"):
        key = private_key(other).public_key()
        if other == alg or {other[:2], alg[:2]} <= {"RS", "PS"} or {other, alg} == {"EdDSA", "Ed25519"}:
            assert fits(alg, key)
            continue
        with pytest.raises(KeyMismatch):
            verify(alg, key, b"x", b"s" * 64)


def test_the_algorithm_kept_with_the_key_is_the_only_one(private_key):
    with pytest.raises(KeyMismatch, match="alg is not RS256"):
        parse_compact(signed(private_key, "PS256")).verify(private_key("PS256").public_key(), "RS256")


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "HS256", "RS1", "", "es256", "ES256K"])
@pytest.mark.parametrize("signature", [b"", b"x"])
def test_s040_s118_an_unsigned_or_unknown_algorithm_is_refused(private_key, alg, signature):
    token = with_header(json.dumps({"alg": alg}).encode(), signature=signature)

    with pytest.raises(UnknownAlgorithm):
        parse_compact(token).verify(private_key("RS256").public_key())


@pytest.mark.parametrize("header", [{}, {"alg": 1}, {"alg": None}, {"alg": ["ES256"]}])
def test_s040_a_header_names_an_algorithm(header):
    with pytest.raises(BadJws, match="has no alg"):
        parse_compact(with_header(json.dumps(header).encode()))


@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
def test_s041_a_public_key_is_never_a_secret(private_key, alg):
    public = private_key("RS256").public_key()
    jwk = jwk_of(public)
    pem, der = (public.public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo) for encoding in (Encoding.PEM, Encoding.DER))
    texts = (json.dumps(jwk), json.dumps(jwk, separators=(",", ":"), sort_keys=True), jwk["n"])

    for secret in (pem, pem.strip(), der, *map(str.encode, texts)):
        mac = jwcrypto_jws.JWS(b"{}")
        mac.add_signature(jwcrypto_jwk.JWK(kty="oct", k=b64url_encode(secret)), alg, json.dumps({"alg": alg}))
        with pytest.raises(UnknownAlgorithm):
            parse_compact(mac.serialize(compact=True)).verify(public)


def test_s042_keys_in_the_header_are_not_looked_at(private_key):
    mine, theirs = private_key("ES256"), ec.generate_private_key(ec.SECP256R1())
    header = {"alg": "ES256", "jwk": jwk_of(theirs.public_key()), "jku": "https://203.0.113.1/", "x5u": "https://203.0.113.1/", "x5c": []}
    token = sign_compact(header, b"{}", lambda message: ALGORITHMS["ES256"].sign(theirs, message))

    with pytest.raises(BadSignature):
        parse_compact(token).verify(mine.public_key())


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg":"ES256","crit":["exp"],"exp":1}',
        b'{"alg":"ES256","crit":[]}',
        b'{"alg":"ES256","b64":false,"crit":["b64"]}',
        b'{"alg":"ES256","b64":true}',
        b'{"alg":"ES256","alg":"none"}',
        b'{"alg":"none","\\u0061lg":"ES256"}',
        b'{"alg":["ES256"]}',
        b'{"alg":null}',
        b"{}",
        b"[]",
        b'"ES256"',
        b"",
        b'{"alg":"ES256"} ',
        b'\xef\xbb\xbf{"alg":"ES256"}',
        b'{"alg":"ES256"}x',
        b'{"alg":"ES256"',
        b"null",
        b'{"alg":"ES256","x":NaN}',
        b'{"alg":"ES256","x":' + b"[" * 20 + b"]" * 20 + b"}",
    ],
)
def test_s044_a_header_with_more_than_one_meaning_is_refused(private_key, header):
    key = private_key("ES256")
    signing_input = f"{b64url_encode(header)}.{b64url_encode(b'{}')}"
    token = f"{signing_input}.{b64url_encode(ALGORITHMS['ES256'].sign(key, signing_input.encode()))}"

    if header == b'{"alg":"ES256"} ':  # white space is no second meaning
        parse_compact(token).verify(key.public_key())
    else:
        with pytest.raises(BadJws, match="protected header"):
            parse_compact(token)


@pytest.mark.parametrize(
    "token",
    [
        "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0..aaaa.bbbb.cccc",
        "eyJhbGciOiJQQkVTMi1IUzI1NitBMTI4S1ciLCJwMmMiOjUwMDAwMDAwfQ.a.b.c.d",
        "." * 100_000,
        "",
        "a.b",
        "a.b.c.d",
    ],
)
def test_s048_what_is_no_jws_is_refused_quickly(token, monkeypatch):
    monkeypatch.setattr(compact, "b64url_decode", lambda part: pytest.fail(f"{part} was decoded"))

    with pytest.raises(BadJws, match="three parts"):
        parse_compact(token)


@pytest.mark.parametrize(("r", "s"), [(0, 0), (0, 1), (1, 0), (1, N), (N, 1), (N, N), (N + 1, 1), (2**256 - 1, 2**256 - 1)])
def test_s049_ecdsa_numbers_out_of_range_are_refused(private_key, r, s):
    with pytest.raises(BadSignature):
        verify("ES256", private_key("ES256").public_key(), b"x", r.to_bytes(32) + s.to_bytes(32))


def test_s049_an_ecdsa_signature_is_of_fixed_length_and_not_der(private_key):
    key = private_key("ES256")
    raw = ALGORITHMS["ES256"].sign(key, b"x")

    for signature in (key.sign(b"x", ec.ECDSA(hashes.SHA256())), raw + b"\0", b"\0" + raw, raw[:-1], raw[:32] + b"\0" + raw[32:], b""):
        with pytest.raises(BadSignature):
            verify("ES256", key.public_key(), b"x", signature)


def test_s049_pss_needs_the_salt_length_of_its_hash(private_key):
    key = private_key("PS256")
    signature = key.sign(b"x", padding.PSS(padding.MGF1(hashes.SHA256()), 20), hashes.SHA256())

    with pytest.raises(BadSignature):
        verify("PS256", key.public_key(), b"x", signature)


def test_s049_ed25519_scalars_are_canonical(private_key):
    key = private_key("EdDSA")
    signature = key.sign(b"x")
    order = 2**252 + 27742317777372353535851937790883648493
    scalar = int.from_bytes(signature[32:], "little") + order

    with pytest.raises(BadSignature):
        verify("EdDSA", key.public_key(), b"x", signature[:32] + scalar.to_bytes(32, "little"))


def test_signatures_by_ecdsa_are_deterministic(private_key):
    assert signed(private_key, "ES256") == signed(private_key, "ES256")


# ---- the flattened form of ACME


def test_a_flattened_jws_is_read(private_key):
    jws = parse_flattened(json.dumps(flattened(signed(private_key, "ES256", b"", nonce="n", url="u"))).encode())

    jws.verify(private_key("ES256").public_key())
    assert jws.payload == b""
    assert jws.header == {"alg": "ES256", "nonce": "n", "url": "u"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"header": {}}, "no other members"),
        ({"signatures": []}, "no other members"),
        ({"signature": None}, "signature is not a string"),
        ({"payload": {}}, "payload is not a string"),
        ({"protected": 1}, "protected is not a string"),
        ({"payload": "AA=="}, "payload is not canonical"),
        ({"signature": "A+/A"}, "signature is not"),
        ({"protected": "e30="}, "protected header is not"),
    ],
)
def test_a_flattened_jws_has_three_strings_and_nothing_else(private_key, change, reason):
    with pytest.raises(BadJws, match=reason):
        parse_flattened(json.dumps(flattened(signed(private_key, "ES256")) | change).encode())


@pytest.mark.parametrize("member", ["protected", "payload", "signature"])
def test_no_member_of_a_flattened_jws_may_be_absent(private_key, member):
    members = flattened(signed(private_key, "ES256"))
    del members[member]

    with pytest.raises(BadJws, match=f"no {member}"):
        read_flattened(members)


def test_a_duplicate_member_of_a_flattened_jws_is_refused(private_key):
    body = json.dumps(flattened(signed(private_key, "ES256")))

    with pytest.raises(BadJws, match="twice"):
        parse_flattened(body[:-1].encode() + b', "payload": ""}')


@given(st.binary(max_size=300))
def test_any_body_is_a_jws_or_a_reason(body):
    with pytest.raises(BadJws):
        parse_flattened(body)


@settings(max_examples=300)
@given(st.data())
def test_a_mutated_body_is_refused_or_the_same_jws(private_key, data):
    body = bytearray(json.dumps(flattened(signed(private_key, "ES256", b'{"a":[1]}', url="https://ca.example/x"))).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))

    try:
        jws = parse_flattened(bytes(body))
        jws.verify(private_key("ES256").public_key())
    except BadJws:
        pass
    else:
        assert jws.payload == b'{"a":[1]}'


def test_standard_base64_of_the_same_bytes_is_another_text():
    token = base64.b64encode(b"\xff\xfe\xfd").decode()

    with pytest.raises(ValueError, match="canonical"):
        b64url_decode(token)
