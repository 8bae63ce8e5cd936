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
from greatseal.testing.parsers import ParserContract
from greatseal_acme.key_change import new_key

URL, ACCOUNT = "http://localhost/acme/key-change", "http://localhost/acme/account/1"
OLD, NEW = (ed25519.Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (1, 2))


def json_of(*leaves: st.SearchStrategy[Any], names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.one_of(st.none(), st.booleans(), *leaves),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
        max_leaves=20,
    )


JSON = json_of(st.integers(), st.floats(), st.text(max_size=20), names=st.text(max_size=8))
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
READABLE = json_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), TEXT, names=TEXT)
"""What strict JSON lets pass, as the value of a member that nobody knows."""
MEMBERS = st.fixed_dictionaries({}, optional={"account": JSON, "oldKey": JSON, "x": READABLE})
HEADERS = st.fixed_dictionaries({}, optional=dict.fromkeys(("alg", "jwk", "url", "kid", "nonce"), JSON))


def caller(payload: bytes) -> Any:
    return SimpleNamespace(payload=payload, view=SimpleNamespace(url=ACCOUNT, thumbprint=thumbprint_of(OLD.public_key())))


def signed(*parts: bytes) -> bytes:
    protected, payload = map(b64url_encode, parts)
    signature = b64url_encode(NEW.sign(f"{protected}.{payload}".encode()))
    return json.dumps({"protected": protected, "payload": payload, "signature": signature}).encode()


def asked_with(header: dict[str, Any], members: dict[str, Any]) -> bytes:
    whole = {"alg": "EdDSA", "jwk": jwk_of(NEW.public_key()), "url": URL, **header}
    asked = {"account": ACCOUNT, "oldKey": jwk_of(OLD.public_key()), **members}
    return signed(*(json.dumps(part).encode() for part in (whole, asked)))


def test_a_key_that_signs_and_names_the_old_one_is_the_new_key():
    assert new_key(caller(asked_with({}, {})), URL) == NEW.public_key()


class TestAnyInnerJws(ParserContract):
    """The payload of the outer JWS as it comes."""

    valid = (asked_with({}, {}),)
    refusals = Problem
    costly = ((b"[" * 48_000,), (asked_with({"jwk": {"kty": "RSA", "e": "AQAB", "n": "_" * 22_000}}, {}),))

    def read(self, *parts: bytes) -> None:
        assert new_key(caller(parts[0]), URL) == NEW.public_key()


class TestAnySignedInnerJws(ParserContract):
    """What the new key signed: the protected header and the payload."""

    valid = (
        json.dumps({"alg": "EdDSA", "jwk": jwk_of(NEW.public_key()), "url": URL}).encode(),
        json.dumps({"account": ACCOUNT, "oldKey": jwk_of(OLD.public_key())}).encode(),
    )
    refusals = Problem

    def read(self, *parts: bytes) -> None:
        assert new_key(caller(signed(*parts)), URL) == NEW.public_key()


@given(HEADERS, MEMBERS)
def test_any_members_are_refused_or_say_the_same(header, members):
    if not header and members.keys() <= {"x"}:
        assert new_key(caller(asked_with(header, members)), URL) == NEW.public_key()
        return
    with pytest.raises(Problem) as refused:
        new_key(caller(asked_with(header, members)), URL)
    assert 400 <= refused.value.status < 500
