"""SPIFFE: what recognises a workload and signs for it, the local socket, and a program for other hosts.

Examples of the contract, checked by mypy: no plugin has this code.
"""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from greatseal.api.declarations import Lifespan, Placement
from greatseal.api.http import Anonymous, Call, Reply, Route
from greatseal.api.keys import KeyRing
from greatseal.api.workload import Peer, Selector, TrustBundle, Workload
from greatseal.host import Clock, Host
from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import jwk_of

CREDENTIALS = struct.Struct("3i")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A registration entry: the values of its selectors by type."""

    spiffe_id: str
    selectors: Mapping[str, object]


class Spiffe:
    """JWT-SVIDs for the workloads that entries recognise, and the bundle that verifies them."""

    def __init__(self, ring: KeyRing, clock: Clock, selectors: Mapping[str, Selector[Any]], entries: Sequence[Entry]) -> None:
        self.ring = ring
        self.clock = clock
        self.selectors = selectors
        self.entries = entries

    def routes(self) -> Sequence[Route]:
        return [Route("GET", "/spiffe/bundle", self.bundle, auth=Anonymous())]

    async def bundle(self, call: Call) -> Reply:
        keys: list[Any] = [one.public_key for one in self.ring.all()]
        return Reply.json({"keys": [{**jwk_of(key), "use": "jwt-svid"} for key in keys]})

    async def attest(self, workload: Workload) -> Sequence[str]:
        wanted = {type: selector.parse(entry.selectors[type]) for type, selector in self.selectors.items() for entry in self._with(type)}
        facts = {type: await self.selectors[type].facts(workload, frozenset({value})) for type, value in wanted.items()}
        return [entry.spiffe_id for entry in self.entries if all(self._is(type, value, facts) for type, value in entry.selectors.items())]

    async def svid(self, spiffe_id: str, audience: str) -> str:
        signer = self.ring.active or await self.ring.make("ec:P-256")
        header = msgspec.json.encode({"alg": "ES256", "kid": signer.info.kid})
        now = self.clock.now() // 1_000_000
        claims = msgspec.json.encode({"sub": spiffe_id, "aud": [audience], "iat": now, "exp": now + 300})
        message = f"{b64url_encode(header)}.{b64url_encode(claims)}"
        return f"{message}.{b64url_encode(await signer.sign_jose(message.encode()))}"

    def _with(self, type: str) -> Sequence[Entry]:
        return [entry for entry in self.entries if type in entry.selectors]

    def _is(self, type: str, value: object, facts: Mapping[str, frozenset[Any]]) -> bool:
        return self.selectors[type].parse(value) in facts[type]


class WorkloadSocket:
    """The Workload API, in place of gRPC one answer to whoever connects: ``answer`` is asked with what the kernel says of the process."""

    def __init__(self, host: Host, path: Path, answer: Callable[[Workload], Awaitable[bytes]]) -> None:
        self.host = host
        self.path = path
        self.answer = answer

    def lifespans(self) -> Sequence[Lifespan]:
        return [Lifespan(name="spiffe-workload", open=self.open, placement=Placement.NODE)]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with await asyncio.start_unix_server(self.serve, self.path):
            yield

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there: socket.socket = writer.get_extra_info("socket")
        pid, uid, gid = CREDENTIALS.unpack(there.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
        pidfd = os.pidfd_open(pid)
        try:
            peer = Peer(pid=pid, pidfd=pidfd, start_time=0)
            workload = Workload(node_id=self.host.node_id, hostname=socket.gethostname().lower(), peer=peer, uid=uid, gid=gid)
            writer.write(await self.answer(workload))
            writer.close()
            await writer.wait_closed()
        finally:
            os.close(pidfd)


@click.command("spiffe-proxy")
@click.option("--server", required=True, help="The issuer's URL.")
def spiffe_proxy(server: str) -> None:
    """Describe this process to an issuer elsewhere; a plugin's hook ``commands`` returns it."""
    described = Workload(
        node_id="", hostname=socket.gethostname().lower(), uid=os.getuid(), exe_path=str(Path("/proc/self/exe").readlink())
    )
    click.echo(f"POST {server}/spiffe/issue-svid {msgspec.json.encode(described).decode()}")


class OneAuthority(TrustBundle):
    """A domain with one CA."""

    name = "example.org"

    def __init__(self, authority: x509.Certificate) -> None:
        self.authority = authority

    async def vouches(self, certificate: bytes, spiffe_id: str) -> bool:
        try:
            found = x509.load_der_x509_certificate(certificate)
            found.verify_directly_issued_by(self.authority)
            names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, InvalidSignature, x509.ExtensionNotFound):
            return False
        return names.get_values_for_type(x509.UniformResourceIdentifier) == [spiffe_id]
