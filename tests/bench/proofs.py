"""Orders by http-01, dns-01 and tls-alpn-01, in turns, against responders on loopback. DNS is asked for the name of every order."""

import asyncio
import itertools
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from bench.acme import Client, Responses, registered
from bench.measure import Row, Sample, cpu_us, reference_us, row
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from rig.acme import b64url
from rig.server import Server

from greatseal.testing.dns import Question, ScriptedDns, scripted_dns
from greatseal.testing.service import free_port

LIMITS = {"http-01": 1.0, "dns-01": 1.10, "tls-alpn-01": 1.25}
"""What an order of each type may cost of one by http-01."""
ROUNDS = 5
SECONDS = 3.0
CLIENTS = 8
ACME_IDENTIFIER = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31")

Publish = Callable[[str, str, str], asyncio.Event]
"""Make a proof of a name, by token and key authorization; the event tells that it was asked for."""


class Proofs:
    """The responders. Whoever waits is told when the name server or the TLS server was asked."""

    def __init__(self, folder: Path, dns: ScriptedDns, web: Responses) -> None:
        self.publish: dict[str, Publish] = {"http-01": self._http, "dns-01": self._dns, "tls-alpn-01": self._tls}
        self._folder = folder
        self._name_server = dns
        self._web = web
        self._asked: dict[str, asyncio.Event] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._key_file = folder / "proof.key"
        self._key_file.write_bytes(self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        dns.questions = Noted(self._note)

    def host(self, name: str) -> None:
        """The name has an address."""
        self._name_server.records(name, "A", "127.0.0.1")
        self._name_server.records(name, "AAAA")

    @asynccontextmanager
    async def served(self, port: int) -> AsyncIterator[None]:
        """The TLS server."""
        context = self._context()
        context.sni_callback = self._choose
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port, ssl=context)
        async with server:
            yield

    def _http(self, _name: str, token: str, key_authorization: str) -> asyncio.Event:
        return self._web.expect(token, key_authorization)

    def _dns(self, name: str, _token: str, key_authorization: str) -> asyncio.Event:
        owner = f"_acme-challenge.{name}"
        self._name_server.records(owner, "TXT", f'"{b64url(sha256(key_authorization.encode()).digest())}"')
        return self._asked.setdefault(owner, asyncio.Event())

    def _tls(self, name: str, _token: str, key_authorization: str) -> asyncio.Event:
        subject, now = x509.Name([]), datetime.now(UTC)
        digest = x509.UnrecognizedExtension(ACME_IDENTIFIER, b"\x04\x20" + sha256(key_authorization.encode()).digest())
        builder = x509.CertificateBuilder(
            subject, subject, self._key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1)
        )
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True).add_extension(
            digest, critical=True
        )
        file = self._folder / f"{name}.pem"
        file.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        self._contexts[name] = context = self._context()
        context.load_cert_chain(file, self._key_file)
        file.unlink()
        return self._asked.setdefault(name, asyncio.Event())

    def _choose(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name in self._contexts:
            connection.context = self._contexts[name]
            self._asked[name].set()

    def _note(self, question: Question) -> None:
        if question.kind == "TXT" and question.name in self._asked:
            self._asked[question.name].set()

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["acme-tls/1"])
        return context


class Noted(list[Question]):
    """Questions are told and not kept: there are many."""

    def __init__(self, tell: Callable[[Question], None]) -> None:
        super().__init__()
        self.append = tell  # type: ignore[method-assign]


class Prover(Client):
    """A client that proves by one type of challenge."""

    type = "http-01"
    proofs: Proofs

    async def proven(self, name: str, type: str) -> int:
        """A whole order; the serial number."""
        self.type = type
        self.proofs.host(name)
        return await self.certificate(name)

    def expect(self, name: str, token: str, key_authorization: str) -> asyncio.Event:
        return self.proofs.publish[self.type](name, token, key_authorization)


def proving_server(folder: Path) -> tuple[Server, int]:
    """A server that asks the name server of the bench, and the port of that."""
    port = free_port()
    return Server(folder, dns_resolver_addr=f"127.0.0.1:{port}"), port


@asynccontextmanager
async def provers(server: Server, dns_port: int, count: int) -> AsyncIterator[list[Prover]]:
    """Registered accounts, with the responders of all types."""
    web = Responses()
    async with scripted_dns(port=dns_port) as dns, web.served(server.validation_port):
        proofs = Proofs(server.folder, dns, web)
        async with proofs.served(server.tls_validation_port), registered(Prover, server.directory, count, web) as made:
            for one in made:
                one.proofs = proofs
            yield made


async def _rounds(server: Server, dns_port: int, pid: int) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {type: [] for type in LIMITS}
    numbers = itertools.count()
    async with provers(server, dns_port, CLIENTS) as ready:
        for number in range(-1, ROUNDS):
            for type, samples in found.items():
                sample = await _round(ready, type, numbers, pid, 1.0 if number < 0 else SECONDS)
                if number >= 0:
                    samples.append(sample)
    return found


async def _round(ready: list[Prover], type: str, numbers: Iterator[int], pid: int, seconds: float) -> Sample:
    durations: list[float] = []

    async def caller(client: Prover) -> None:
        while (start := time.perf_counter()) < end:
            await client.proven(f"order-{next(numbers)}.bench.example", type)
            durations.append(time.perf_counter() - start)

    reference = reference_us()
    used, began = cpu_us(pid), time.perf_counter()
    end = began + seconds
    await asyncio.gather(*(caller(client) for client in ready))
    used, took = cpu_us(pid) - used, time.perf_counter() - began
    return Sample(cpu_us=used, seconds=took, operations=len(durations), durations=durations, reference_us=reference)


def proof_rows(folder: Path) -> Iterator[Row]:
    """What an order costs by each type, at the same number of clients."""
    server, dns_port = proving_server(folder)
    with server.running() as process:
        found = asyncio.run(_rounds(server, dns_port, process.pid))
    rows = {type: row(f"ACME order by {type}, {CLIENTS} clients", samples) for type, samples in found.items()}
    base = rows["http-01"].cpu_us_per_op or 0.0
    for type, made in rows.items():
        share = (made.cpu_us_per_op or 0.0) / base
        made.note = "name and probe over loopback"
        if type != "http-01":
            made.note = f"{share:.2f} of http-01, limit {LIMITS[type]}: {'kept' if share <= LIMITS[type] else 'MISSED'}"
        yield made
