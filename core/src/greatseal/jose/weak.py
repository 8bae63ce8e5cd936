"""RSA keys that nobody should trust, by their public half alone (CA/Browser Forum BR 6.1.1.3, 6.1.6)."""

import math

_MIN_BITS, _MAX_BITS = 2048, 8192
# FIPS 186-5 s5.1 and the recommendation of BR 6.1.6; a small one makes a forgery of each slip in a verifier's padding check, and no client
# of the last twenty years makes one. Those above 2^32 are read by few verifiers, and cost them dearly.
_MIN_EXPONENT, _MAX_EXPONENT = 2**16 + 1, 2**32
_FERMAT_ROUNDS = 100


def _primes_below(limit: int) -> list[int]:
    return [n for n in range(2, limit) if all(n % d for d in range(2, math.isqrt(n) + 1))]


# BR 6.1.6: no factor smaller than 752.
_SMALL_FACTORS = math.prod(_primes_below(752))
# CVE-2017-15361 (ROCA): the primes were k * M + (65537^a mod M), so the modulus is a power of 65537 for each prime factor of M.
_ROCA = {prime: frozenset(pow(65537, power, prime) for power in range(prime)) for prime in _primes_below(168) if prime > 2}


def weak_rsa_reason(n: int, e: int) -> str | None:
    """Why an RSA public key is refused, fit for its owner, or None when nothing is known against it."""
    bits = n.bit_length()
    if not _MIN_BITS <= bits <= _MAX_BITS:
        return f"the RSA modulus has {bits} bits where {_MIN_BITS} to {_MAX_BITS} are accepted"
    if bits % 8:
        return f"the RSA modulus has {bits} bits, which is no multiple of 8"
    if not _MIN_EXPONENT <= e <= _MAX_EXPONENT or e % 2 == 0:
        return "the RSA exponent is not an odd number from 65537 to 2^32"
    return _flaw(n)


def _flaw(n: int) -> str | None:
    if math.gcd(n, _SMALL_FACTORS) != 1:
        return "the RSA modulus has a factor smaller than 752"
    if all(n % prime in powers for prime, powers in _ROCA.items()):
        return "the RSA key was made by a flawed generator (ROCA, CVE-2017-15361)"
    if is_fermat_factorable(n):
        return "the RSA modulus can be factored: its primes are too close to each other"
    return None


def is_fermat_factorable(n: int, rounds: int = _FERMAT_ROUNDS) -> bool:
    """Whether Fermat's method finds the factors of an odd ``n`` within ``rounds`` steps."""
    a = math.isqrt(n)
    if a * a < n:
        a += 1
    remainder = a * a - n
    for _ in range(rounds):
        # Squares end in 12 of 64 ways; most roots need not be taken.
        if _SQUARE_ENDS >> (remainder & 63) & 1 and math.isqrt(remainder) ** 2 == remainder:
            return True
        remainder += 2 * a + 1
        a += 1
    return False


_SQUARE_ENDS = sum(1 << end for end in {root * root & 63 for root in range(64)})
