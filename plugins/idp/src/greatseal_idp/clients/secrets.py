"""Client secrets at rest: SHA-256 of a generated one, Argon2id of a chosen one, sealed where the value is needed."""

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal
from weakref import WeakValueDictionary

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from greatseal.api.clients import Client, InvalidClient, StoredSecret
from greatseal.api.declarations import Secret
from greatseal.api.problems import RateLimited
from greatseal.host import Host
from greatseal.net.addresses import source_of
from greatseal_idp.tables import client as client_table

POOL = "argon2"
"""The blocking pool of Argon2id: 24 ms each."""

SLOW_TRIES, SLOW_WINDOW = 20, 60.0
"""Failing Argon2id checks for one client and one address in so many seconds; a right secret needs a single one in the life of the process.

By address, or whoever knows a client's id could keep the client itself out after a start.
"""

VERIFIED = 10_000
"""Clients whose chosen secret is remembered as proven."""

# OWASP's minimum, as in reference/performance: 19 MiB, two passes.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
_SEALED_IN = (client_table.name, client_table.c.secret_sealed.name)


class ClientSecrets:
    """Stores and checks them. The map of proven secrets holds digests and lives in this process alone."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._verified: OrderedDict[str, tuple[bytes, bytes]] = OrderedDict()
        self._turns: WeakValueDictionary[tuple[str, bytes], asyncio.Lock] = WeakValueDictionary()

    def generate(self) -> Secret:
        """A new secret of 256 bits."""
        return Secret(secrets.token_urlsafe(32))

    async def keep(self, client_id: str, secret: Secret, form: Literal["digest", "sealed"], *, generated: bool) -> StoredSecret:
        """The secret as it is stored."""
        value = secret.value.encode()
        if form == "sealed":
            table, field = _SEALED_IN
            sealed = self._host.keys.seal(value, table=table, row=client_id, field=field)
            return StoredSecret(form="sealed", value=sealed, length=len(secret.value))
        if generated:
            return StoredSecret(form="sha256", value=hashlib.sha256(value).digest(), length=len(secret.value))
        hashed = await self._host.blocking.run(POOL, _HASHER.hash, value)
        return StoredSecret(form="argon2id", value=hashed.encode(), length=len(secret.value))

    def open(self, client: Client) -> Secret:
        """The value of a sealed secret. Raises InvalidClient when the client has none."""
        if client.secret is None or client.secret.form != "sealed":
            raise InvalidClient("the client or its credentials are not known", cause="no sealed secret")
        table, field = _SEALED_IN
        return Secret(self._host.keys.open(client.secret.value, table=table, row=client.client_id, field=field).decode())

    async def is_of(self, client: Client, secret: Secret) -> bool:
        """Whether it is the secret of the client, however that is kept. Raises as :meth:`is_right`."""
        if client.secret is not None and client.secret.form == "sealed":
            return hmac.compare_digest(self.open(client).value.encode(), secret.value.encode())
        return await self.is_right(client, [secret.value])

    async def is_right(self, client: Client, candidates: Sequence[str], *, remote: str = "") -> bool:
        """Whether one of the readings of what came from the address ``remote`` is the client's secret. Raises RateLimited, Unavailable."""
        stored = client.secret
        if stored is None or stored.form == "sealed":
            return False
        digests = [hashlib.sha256(candidate.encode()).digest() for candidate in candidates]
        if stored.form == "sha256":
            return any(hmac.compare_digest(digest, stored.value) for digest in digests)
        if self._is_known(client, stored, digests):
            return True
        # The first requests of a client after a start bring the same secret at once: one of them has it checked.
        turn = self._turns.setdefault((client.client_id, digests[0]), asyncio.Lock())
        async with turn:
            return self._is_known(client, stored, digests) or await self._is_proven(client, stored, candidates, digests, remote)

    def _is_known(self, client: Client, stored: StoredSecret, digests: Sequence[bytes]) -> bool:
        known = self._verified.get(client.client_id)
        return known is not None and known[0] == stored.value and any(hmac.compare_digest(digest, known[1]) for digest in digests)

    async def _is_proven(
        self, client: Client, stored: StoredSecret, candidates: Sequence[str], digests: Sequence[bytes], remote: str
    ) -> bool:
        key = f"{client.client_id} {source_of(remote)}"
        wait = self._host.limits.hit("client-secret", key, SLOW_TRIES, SLOW_WINDOW)
        if wait is not None:
            raise RateLimited("too many attempts for this client", headers={"Retry-After": str(wait)})
        for candidate, digest in zip(candidates, digests, strict=True):
            if await self._host.blocking.run(POOL, _verify, stored.value, candidate):
                self._host.limits.reset("client-secret", key)
                self._remember(client.client_id, (stored.value, digest))
                return True
        return False

    def _remember(self, client_id: str, proven: tuple[bytes, bytes]) -> None:
        self._verified[client_id] = proven
        self._verified.move_to_end(client_id)
        if len(self._verified) > VERIFIED:
            self._verified.popitem(last=False)


def _verify(hashed: bytes, candidate: str) -> bool:
    try:
        return _HASHER.verify(hashed, candidate.encode())
    except (VerificationError, InvalidHashError):
        return False
