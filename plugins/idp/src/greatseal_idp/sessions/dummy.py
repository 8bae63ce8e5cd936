"""The time that a password check takes, spent where there is nobody to check (security check S078)."""

from argon2.low_level import Type, hash_secret_raw

from greatseal.api.declarations import Secret
from greatseal.host import Blocking

POOL = "argon2"
"""The blocking pool of the real checks: an unknown user waits in the same queue."""
SALT = b"no user has this"


async def spend_time(blocking: Blocking, password: Secret) -> None:
    """Hash a password with the parameters of those that are stored, and throw the hash away."""
    await blocking.run(POOL, _hash, password.value.encode("utf-8", "surrogatepass"))


def _hash(password: bytes) -> None:
    # The minimum of OWASP's password storage advice: 19 MiB, two passes, one lane.
    hash_secret_raw(password, SALT, time_cost=2, memory_cost=19456, parallelism=1, hash_len=32, type=Type.ID)
