from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, rsa

MAKERS = {
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ES512": lambda: ec.generate_private_key(ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "Ed448": ed448.Ed448PrivateKey.generate,
    "EdDSA-Ed448": ed448.Ed448PrivateKey.generate,
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "ML-DSA-44": mldsa.MLDSA44PrivateKey.generate,
    "ML-DSA-65": mldsa.MLDSA65PrivateKey.generate,
    "ML-DSA-87": mldsa.MLDSA87PrivateKey.generate,
}


@cache
def private_key_for(alg):
    """A private key that fits ``alg``; ``EdDSA-Ed448`` is EdDSA with the other curve."""
    return rsa_key() if alg[:2] in {"RS", "PS"} else MAKERS[alg]()


@cache
def rsa_key():
    return MAKERS["RSA"]()


@pytest.fixture(scope="session")
def private_key():
    return private_key_for
