"""JWK Sets of others: which keys are taken, and which may have made a signature. Key servers: tests/security."""

from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal.api.clients import Client
from greatseal.jose.algorithms import ALGORITHMS, is_allowed
from greatseal.jose.compact import b64url_encode, parse_compact, sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.jose.keysets import named, read_key_set
from greatseal.net import RemoteKeys, remote_keys
from greatseal.testing import FakeClock
from greatseal.testing.resolver import FakeResolver

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
RSA, OTHER_RSA = (rsa.generate_private_key(65537, 2048) for _ in range(2))
ED25519, ED448 = ed25519.Ed25519PrivateKey.generate(), ed448.Ed448PrivateKey.generate()


def signed_by(key, alg):
    return parse_compact(sign_compact({"alg": alg}, b"{}", lambda message: ALGORITHMS[alg].sign(key, message)))


def test_keys_that_cannot_be_used_are_passed_over():
    strange = [{"kty": "XYZ"}, jwk_of(KEY.public_key()) | {"use": "enc"}, "text"]

    (key,) = read_key_set({"keys": [*strange, jwk_of(KEY.public_key()) | {"kid": "k"}]})
    assert key.kid == "k"


def certificate_of(key):
    """A self-signed certificate in DER."""
    name, now = x509.Name([]), datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    return builder.not_valid_before(now).not_valid_after(now).sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def test_a_certificate_names_its_key_by_x5t_s256():
    der = certificate_of(OTHER)
    keys = [jwk_of(KEY.public_key()), jwk_of(OTHER.public_key()) | {"x5c": [b64encode(der).decode()]}]
    thumbprint = b64url_encode(sha256(der).digest())

    assert [key.key for key in named(read_key_set({"keys": keys}), {"x5t#S256": thumbprint})] == [OTHER.public_key()]
    assert len(named(read_key_set({"keys": keys}), {"x5t#S256": "another"})) == 2


@pytest.mark.parametrize("x5c", [[7], [None], [[]], [], "AAAA", {"0": "AAAA"}, None])
def test_an_odd_chain_of_certificates_is_no_name_of_its_key(x5c):
    (key,) = read_key_set({"keys": [jwk_of(KEY.public_key()) | {"x5c": x5c}]})

    assert key.thumbprints == frozenset()


@pytest.mark.parametrize("text", ["!", "é", "AAA"])
def test_a_key_whose_certificate_is_no_base64_is_passed_over(text):
    (key,) = read_key_set({"keys": [jwk_of(KEY.public_key()) | {"x5c": [text]}, jwk_of(OTHER.public_key())]})

    assert key.key == OTHER.public_key()


def test_a_certificate_of_an_unknown_version_is_not_looked_into():
    der = certificate_of(KEY).replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07", 1)

    (key,) = read_key_set({"keys": [jwk_of(KEY.public_key()) | {"x5c": [b64encode(der).decode()]}]})

    assert key.thumbprints == {b64url_encode(sha256(der).digest())}


@pytest.mark.parametrize("header", [{"x5t#S256": []}, {"x5t#S256": {}}, {"x5t#S256": 7}, {"x5t#S256": None}])
def test_an_odd_thumbprint_chooses_nothing(header):
    keys = read_key_set({"keys": [jwk_of(KEY.public_key())]})

    assert named(keys, header) == list(keys)


@pytest.mark.parametrize(
    ("jwks", "says"),
    [
        ({}, "at most 100 keys"),
        ({"keys": {}}, "at most 100 keys"),
        ({"keys": [jwk_of(KEY.public_key())] * 101}, "at most 100 keys"),
        ({"keys": []}, "no key that can be used"),
        ({"keys": [{"kty": "XYZ"}]}, "no key that can be used: "),
        ({"keys": [jwk_of(KEY.public_key()) | {"d": "AAAA"}]}, "public keys alone"),
        ({"keys": [{"kty": "oct", "k": "AAAA"}]}, "public keys alone"),
    ],
)
def test_what_is_no_set_of_public_keys_is_refused(jwks, says):
    with pytest.raises(ValueError, match=says):
        read_key_set(jwks)


@pytest.mark.parametrize(
    ("member", "by", "alg", "made"),
    [
        ({}, RSA, "RS256", True),
        ({"alg": "RS256"}, RSA, "RS256", True),
        ({}, OTHER_RSA, "RS256", False),
        ({"alg": "RS256"}, RSA, "PS256", False),
    ],
)
def test_a_key_knows_its_signatures(member, by, alg, made):
    (key,) = read_key_set({"keys": [jwk_of(RSA.public_key()) | member]})

    assert key.signed(signed_by(by, alg)) is made


@pytest.mark.parametrize(
    ("names", "alg", "key", "allowed"),
    [
        (None, "RS256", RSA, True),
        (("PS256",), "PS256", RSA, True),
        (("PS256",), "RS256", RSA, False),
        ((), "PS256", RSA, False),
        (("Ed25519",), "EdDSA", ED25519, True),
        (("Ed25519",), "EdDSA", ED448, False),
        (("Ed448",), "EdDSA", ED448, True),
        (("Ed448",), "EdDSA", ED25519, False),
        (("EdDSA",), "EdDSA", ED448, True),
        (("EdDSA",), "Ed25519", ED25519, True),
        (("EdDSA",), "Ed448", ED448, True),
        (("Ed448",), "Ed25519", ED25519, False),
        (("ES256",), "Ed25519", ED25519, False),
        (("Ed25519", "Ed448", "EdDSA"), "RS256", RSA, False),
    ],
)
def test_a_list_of_algorithms_allows_what_it_names(names, alg, key, allowed):
    assert is_allowed(alg, key.public_key(), names) is allowed


def test_a_key_that_is_for_one_algorithm_fits_no_other():
    (one,) = read_key_set({"keys": [jwk_of(RSA.public_key()) | {"alg": "PS256"}]})
    (any_,) = read_key_set({"keys": [jwk_of(RSA.public_key())]})

    assert [one.fits(alg) for alg in ("PS256", "RS256", "ES256")] == [True, False, False]
    assert [any_.fits(alg) for alg in ("PS256", "RS256", "ES256")] == [True, True, False]


@pytest.mark.parametrize("alg", ["EdDSA", "Ed25519"])
def test_a_key_on_a_curve_fits_both_names_of_its_algorithm(alg):
    """RFC 9864 s2.2: libraries write the new name into the set and the old one into the header, and the other way round."""
    (one,) = read_key_set({"keys": [jwk_of(ED25519.public_key()) | {"alg": alg}]})

    assert [one.fits(name) for name in ("EdDSA", "Ed25519", "Ed448")] == [True, True, False]


def test_a_key_of_another_type_made_no_signature():
    (key,) = read_key_set({"keys": [jwk_of(ec.generate_private_key(ec.SECP384R1()).public_key())]})

    assert not key.signed(signed_by(KEY, "ES256"))


@pytest.mark.parametrize("kid", [7, None, ["a"], {}])
def test_an_odd_kid_is_no_name(kid):
    (key,) = read_key_set({"keys": [jwk_of(KEY.public_key()) | {"kid": kid}]})

    assert key.kid is None


def test_a_kid_chooses_its_keys_alone():
    keys = read_key_set({"keys": [jwk_of(KEY.public_key()) | {"kid": "a"}, jwk_of(OTHER.public_key()) | {"kid": "b"}]})

    assert [key.kid for key in named(keys, {"kid": "b"})] == ["b"]
    assert named(keys, {"kid": "c"}) == []
    assert named(keys, {}) == list(keys)


@pytest.mark.parametrize("header", [{"kid": "k"}, {}, {"x5t#S256": "t"}])
def test_a_signature_is_checked_with_few_keys_however_many_are_named_alike(header):
    """Anybody sends a signature that is not good, and each key that is tried costs the service up to a millisecond."""
    alike = [jwk_of(ec.generate_private_key(ec.SECP256R1()).public_key()) for _ in range(20)]
    keys = read_key_set({"keys": [jwk | {"kid": "k", "x5t#S256": "t"} for jwk in (*alike, jwk_of(RSA.public_key()))]})

    assert named(keys, {"alg": "ES256", **header}) == list(keys[:8])
    assert [key.key for key in named(keys, {"alg": "RS256", **header})] == [RSA.public_key()], "those of another type take no place"


async def test_a_set_that_a_client_registered_is_read_once(monkeypatch):
    read = []
    monkeypatch.setattr(remote_keys, "read_key_set", lambda jwks: read.append(jwks) or read_key_set(jwks))
    client = Client(
        client_id="c", token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk_of(OTHER.public_key()) | {"kid": "once"}]}
    )
    keys = RemoteKeys(FakeResolver(), FakeClock(0), allow_private=False)

    assert [(await keys.of_client(client, {"kid": "once"}))[0].key for _ in range(3)] == [OTHER.public_key()] * 3
    assert read == [client.jwks]
    for _ in range(2):
        with pytest.raises(ValueError, match="expected a JWK Set"):
            await keys.of_client(Client(client_id="n", token_endpoint_auth_method="private_key_jwt"), {})
