"""ACME clients that measure: the same ones, and the same web server for their challenges, for every server measured."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from rig.acme import JOSE, AcmeClient, Answer, Key, Responder, csr_for, raw

C = TypeVar("C", bound="Client")

POLL_SECONDS = 0.02
TIMEOUT_SECONDS = 20
SHA256 = ec.ECDSA(hashes.SHA256())


class Responses(Responder):
    """A responder that tells when it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self._fetched: dict[str, asyncio.Event] = {}

    def expect(self, token: str, key_authorization: str) -> asyncio.Event:
        """Answer for ``token``; the event tells that it was asked for."""
        self[token] = key_authorization
        return self._fetched.setdefault(token, asyncio.Event())

    def note(self, token: str) -> None:
        self._fetched[token].set()


class MeasuredKey(Key):
    """Signs, and verifies what it signed: the reference of :attr:`Client.reference_ns`."""

    def __init__(self) -> None:
        super().__init__()
        self.took_ns: list[int] = []

    def sign(self, message: bytes) -> bytes:
        began = time.thread_time_ns()
        signature = self.private.sign(message, SHA256)
        self.private.public_key().verify(signature, message, SHA256)
        self.took_ns.append(time.thread_time_ns() - began)
        return raw(signature)


class Client(AcmeClient):
    """One account; requests go one after another, each with the nonce of the last reply. Anything but 2xx is an error."""

    type = "http-01"
    """The type of challenge by which it proves names."""

    def __init__(self, session: aiohttp.ClientSession, directory: Mapping[str, Any], responses: Responses) -> None:
        key = MeasuredKey()
        super().__init__(session, directory, key)
        self.responses = responses
        self.pause = POLL_SECONDS
        """Before it asks whether a challenge was decided."""
        self.reference_ns = key.took_ns
        """What a P-256 sign + verify took at every request: on a core that slept a moment ago it takes up to three times as long."""

    async def send(self, url: str, body: bytes, headers: Mapping[str, str] = JOSE) -> Answer:
        answer = await super().send(url, body, headers)
        if not 200 <= answer.status < 300:
            raise RuntimeError(f"{answer.status} from {url}: {answer.body[:300]!r}")
        return answer

    async def certificate(self, name: str) -> int:
        """A whole order with a new key, in the seven requests of certbot and more when the server is slow. The serial number."""
        made = await self.order(name)
        for authorization in made.json["authorizations"]:
            await self._authorize(name, authorization)
        key = ec.generate_private_key(ec.SECP256R1())
        await self.finalize(made.json, csr_for(name, key=key))
        order = await self._until_decided(made.location, "processing")
        body = (await self.post(order["certificate"])).body
        # A Merkle Tree certificate comes alone, in DER.
        leaf = x509.load_pem_x509_certificates(body)[0] if body.startswith(b"-") else x509.load_der_x509_certificate(body)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
        assert names == [name]
        assert leaf.public_key() == key.public_key()
        return leaf.serial_number

    def expect(self, _name: str, token: str, key_authorization: str) -> asyncio.Event:
        """Have the proof of a name ready; the event tells that it was asked for."""
        return self.responses.expect(token, key_authorization)

    async def _authorize(self, name: str, url: str) -> None:
        challenge = await self.challenge(url, self.type)
        token = challenge["token"]
        fetched = self.expect(name, token, f"{token}.{self.key.thumbprint}")
        await self.post(challenge["url"], {})
        await asyncio.wait_for(fetched.wait(), TIMEOUT_SECONDS)
        await asyncio.sleep(self.pause)
        await self._until_decided(url, "pending")

    async def _until_decided(self, url: str, waiting: str) -> dict[str, Any]:
        delay = POLL_SECONDS
        while True:
            found: dict[str, Any] = (await self.post(url)).json
            if found["status"] == "valid":
                return found
            if found["status"] != waiting:
                raise RuntimeError(f"{url} became {found}")
            await asyncio.sleep(delay)
            delay *= 2


@asynccontextmanager
async def clients(directory: str, count: int, responses: Responses, tls: ssl.SSLContext | None = None) -> AsyncIterator[list[Client]]:
    """Registered accounts."""
    async with registered(Client, directory, count, responses, tls) as made:
        yield made


@asynccontextmanager
async def registered(
    make: type[C], directory: str, count: int, responses: Responses, tls: ssl.SSLContext | None = None
) -> AsyncIterator[list[C]]:
    """Registered accounts, each a ``make``."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls or True), timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    ) as session:
        async with session.get(directory) as answer:
            found = await answer.json()
        made = [make(session, found, responses) for _ in range(count)]
        for client in made:
            await client.register()
        yield made
