"""The inner JWS of a key change: whatever comes, a problem or a key."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.problems import Problem
from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import jwk_of, thumbprint_of
from greatseal_acme.key_change import new_key

URL, ACCOUNT = "http://localhost/acme/key-change", "http://localhost/acme/account/1"
OLD, NEW = (ed25519.Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (1, 2))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
MEMBERS = st.fixed_dictionaries({}, optional=dict.fromkeys(("account", "oldKey", "x"), JSON))
HEADERS = st.fixed_dictionaries({}, optional=dict.fromkeys(("alg", "jwk", "url", "kid", "nonce"), JSON))


def caller(payload: bytes) -> Any:
    return SimpleNamespace(payload=payload, view=SimpleNamespace(url=ACCOUNT, thumbprint=thumbprint_of(OLD.public_key())))


def inner(header: object, asked: object) -> bytes:
    protected, payload = (b64url_encode(json.dumps(part).encode()) for part in (header, asked))
    signature = b64url_encode(NEW.sign(f"{protected}.{payload}".encode()))
    return json.dumps({"protected": protected, "payload": payload, "signature": signature}).encode()


def asked_with(header: dict[str, Any], members: dict[str, Any]) -> bytes:
    whole = {"alg": "EdDSA", "jwk": jwk_of(NEW.public_key()), "url": URL, **header}
    return inner(whole, {"account": ACCOUNT, "oldKey": jwk_of(OLD.public_key()), **members})


def test_a_key_that_signs_and_names_the_old_one_is_the_new_key():
    assert new_key(caller(asked_with({}, {})), URL) == NEW.public_key()


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(payload):
    with pytest.raises(Problem) as refused:
        new_key(caller(payload), URL)
    assert 400 <= refused.value.status < 500


@given(HEADERS, MEMBERS)
def test_any_members_are_refused_or_say_the_same(header, members):
    if not header and members.keys() <= {"x"}:
        assert new_key(caller(asked_with(header, members)), URL) == NEW.public_key()
        return
    with pytest.raises(Problem) as refused:
        new_key(caller(asked_with(header, members)), URL)
    assert 400 <= refused.value.status < 500
