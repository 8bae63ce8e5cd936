"""RSA keys for the services of tests: the first of a test are those of the test before, for each takes 40 ms."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from greatseal.keys import software

__all__ = ["kept"]

MOST = 8
_KEYS: list[RSAPrivateKey] = []


@contextmanager
def kept() -> Iterator[None]:
    """While the block runs, 2048-bit keys come from those of this process, no key twice; after :data:`MOST` they are made."""
    make, lock, left = software.make_rsa, Lock(), iter(range(MOST))

    def given(bits: int) -> RSAPrivateKey:
        with lock:
            number = next(left, None) if bits == 2048 else None
            if number is None:
                return make(bits)
            if number == len(_KEYS):
                _KEYS.append(make(bits))
            return _KEYS[number]

    software.make_rsa = given
    try:
        yield
    finally:
        software.make_rsa = make
