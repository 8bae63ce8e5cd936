"""The reader of signed requests: whatever comes, a problem or a request."""

import json
from contextlib import suppress

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.acme import BadPublicKey, BadSignatureAlgorithm
from greatseal.api.http import Jws
from greatseal.api.problems import BadRequest, Problem
from greatseal.jose.compact import ALGORITHMS, b64url_encode
from greatseal.jose.jwk import jwk_of, public_key
from greatseal.testing.parsers import ParserContract
from greatseal_acme.protocol.jws import check_key_member, read_jws, verify

# RFC 8037 A.2 and RFC 7515 A.3
ED25519 = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
P256 = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
HEADERS = st.dictionaries(st.sampled_from(["alg", "kid", "jwk", "nonce", "url", "crit", "b64", "x"]), JSON, max_size=6)


def envelope(header: object, payload: bytes = b"{}", signature: bytes = b"\1" * 64) -> bytes:
    protected = b64url_encode(json.dumps(header).encode())
    return json.dumps({"protected": protected, "payload": b64url_encode(payload), "signature": b64url_encode(signature)}).encode()


KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
PROTECTED = {"alg": "EdDSA", "jwk": jwk_of(KEY.public_key()), "nonce": "AAAA", "url": "http://localhost/acme/new-account"}


class TestAnyRequest(ParserContract):
    """The body of a request as it comes."""

    valid = (envelope(PROTECTED),)
    refusals = Problem
    costly = tuple(
        (body,)
        for body in (
            b"[" * 65_536,
            b'{"protected":' * 5000,
            envelope({"alg": "EdDSA", **{f"{number}": 0 for number in range(4000)}}),
            envelope({"alg": "EdDSA", "x": "\\u0000" * 7000}),
            envelope({"alg": "A" * 48_000}),
        )
    )

    def read(self, *parts: bytes) -> None:
        assert read_jws(parts[0]).alg in ALGORITHMS


class TestAnySignedHeader(ParserContract):
    """What the holder of a key signed: the protected header and the payload; its signature is right."""

    valid = (json.dumps(PROTECTED).encode(), b"{}")
    refusals = Problem
    costly = (
        (json.dumps({**PROTECTED, "jwk": {"kty": "RSA", "e": "AQAB", "n": "_" * 44_000}}).encode(), b"{}"),
        (json.dumps({**PROTECTED, "jwk": {"kty": "RSA", "e": "_" * 22_000, "n": "_" * 22_000}}).encode(), b"{}"),
        (json.dumps({**PROTECTED, "jwk": {"kty": "AKP", "alg": "ML-DSA-87", "pub": "_" * 44_000}}).encode(), b"{}"),
    )

    def read(self, *parts: bytes) -> None:
        """The key that verifies is the one that signed."""
        protected, payload = map(b64url_encode, parts)
        signature = b64url_encode(KEY.sign(f"{protected}.{payload}".encode()))
        jws = read_jws(json.dumps({"protected": protected, "payload": payload, "signature": signature}).encode())
        check_key_member(jws.header, Jws("jwk"))
        with suppress(ValueError):  # told as badPublicKey
            key = public_key(jws.header["jwk"])
            verify(jws, key)
            assert key == KEY.public_key()


@given(HEADERS | JSON, st.binary(max_size=50))
def test_any_header_is_refused_or_read(header, payload):
    body = envelope(header, payload)
    alg = header.get("alg") if isinstance(header, dict) else None
    if isinstance(alg, str) and alg not in ALGORITHMS:
        with pytest.raises((BadSignatureAlgorithm, BadRequest)):
            read_jws(body)
        return
    try:
        jws = read_jws(body)
    except BadRequest:
        return
    assert jws.header == header
    assert jws.payload == payload
    for rule in ("kid", "jwk", "either"):
        try:
            check_key_member(jws.header, Jws(rule))
        except BadRequest:
            continue
        assert ("jwk" in header) != ("kid" in header)
        assert rule == "either" or rule in header


@given(st.sampled_from(sorted(ALGORITHMS)), st.sampled_from([ED25519, P256]), st.binary(max_size=200))
def test_no_other_signature_verifies(alg, jwk, signature):
    jws = read_jws(envelope({"alg": alg, "jwk": jwk}, signature=signature))

    with pytest.raises((BadRequest, BadPublicKey)):
        verify(jws, public_key(jwk))


def test_a_key_of_another_curve_is_a_bad_key():
    with pytest.raises(BadPublicKey):
        verify(read_jws(envelope({"alg": "ES384", "jwk": P256})), public_key(P256))
