"""A directory, a claims provider, a policy over grants, a resolver of clients that are no row, selectors.

Examples of the contract, checked by mypy: no plugin has this code.
"""

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from greatseal.api.clients import Client, ClientResolver
from greatseal.api.directory import Directories, Directory, Group, Tier, User
from greatseal.api.tokens import ClaimsProvider
from greatseal.api.workload import Selector, Workload
from greatseal.host import Host


class UsersFile(Directory, ClaimsProvider):
    """STATIC: a file of this machine; the same component gives claims."""

    name = "users-file"
    tier = Tier.STATIC
    claims = frozenset({"name", "email"})

    def __init__(self, realm: str, users: Mapping[str, User]) -> None:
        self._realm = realm
        self._users = users

    @property
    def realm(self) -> str:
        return self._realm

    async def user(self, username: str) -> User | None:
        return self._users.get(username)

    async def group(self, name: str) -> Group | None:
        members = tuple(sorted(user.username for user in self._users.values() if name in user.groups))
        return Group(name=name, realm=self._realm, source=self.name, members=members) if members else None

    async def of(self, subject: str, wanted: frozenset[str]) -> Mapping[str, Any]:
        user = await self.user(subject.removesuffix(f"@{self._realm}"))
        known = {} if user is None else {"name": user.display_name, "email": user.email}
        return {claim: value for claim, value in known.items() if claim in wanted and value is not None}


class Published(ClientResolver):
    """Clients that a list on the web has, by their URL."""

    name = "published"

    async def resolve(self, client_id: str) -> Client | None:
        if not (client_id.startswith("https://") and urlsplit(client_id).hostname):
            return None
        return Client(client_id=client_id, token_endpoint_auth_method="private_key_jwt", jwks={"keys": []}, source="published")


class Uid(Selector[int]):
    type = "Uid"

    def parse(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32 - 1:
            raise ValueError("value is an integer from 0 to 4294967294")
        return value

    async def facts(self, workload: Workload, wanted: frozenset[int]) -> frozenset[int]:
        return frozenset() if workload.uid is None else frozenset({workload.uid})


class Hostgroup(Selector[str]):
    type = "Hostgroup"
    remote = True

    def __init__(self, directories: Directories) -> None:
        self.directories = directories

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise ValueError("value is the name of a host group")
        return value

    async def facts(self, workload: Workload, wanted: frozenset[str]) -> frozenset[str]:
        return await self.directories.hostgroups_of(workload.hostname) & wanted


class ImaHash(Selector[tuple[str, str]]):
    """Computed for a local process, in the algorithms that entries ask for; declared by a remote caller."""

    type = "ImaHash"
    remote = True

    def __init__(self, host: Host) -> None:
        self.host = host

    def parse(self, value: object) -> tuple[str, str]:
        if not isinstance(value, str) or value.partition(":")[0] != "sha256":
            raise ValueError("value is alg:hexdigest")
        return ("sha256", value.partition(":")[2].lower())

    async def facts(self, workload: Workload, wanted: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        if workload.peer is None:
            return frozenset() if workload.ima_hash is None else frozenset({workload.ima_hash})
        return await self.host.blocking.run("hash", self.measure, workload.peer.pid)

    def measure(self, pid: int) -> frozenset[tuple[str, str]]:
        descriptor = os.open(f"/proc/{pid}/exe", os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as executable:
            return frozenset({("sha256", sha256(executable.read()).hexdigest())})
