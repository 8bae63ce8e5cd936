"""How passwords are hashed."""

from argon2 import PasswordHasher

# The minimum of OWASP's password storage advice: 19 MiB, two passes, one lane.
HASHER = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1)
