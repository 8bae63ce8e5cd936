"""A lean ACME client and the web server that answers its challenges: the same for every server measured."""

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import aiohttp
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding

POLL_SECONDS = 0.02
TIMEOUT_SECONDS = 20
SHA256 = ec.ECDSA(hashes.SHA256())


def b64url(data: bytes) -> str:
    """Base64url without padding (RFC 7515 s2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


class Responses:
    """Key authorizations by token, served at /.well-known/acme-challenge/."""

    def __init__(self) -> None:
        self._expected: dict[str, tuple[str, asyncio.Event]] = {}

    def expect(self, token: str, key_authorization: str) -> asyncio.Event:
        """Answer for ``token``; the event tells that it was asked for."""
        fetched = asyncio.Event()
        self._expected[token] = key_authorization, fetched
        return fetched

    @asynccontextmanager
    async def served(self, port: int) -> AsyncIterator[None]:
        async def respond(request: web.Request) -> web.Response:
            key_authorization, fetched = self._expected[request.match_info["token"]]
            fetched.set()
            return web.Response(text=key_authorization)

        app = web.Application()
        app.router.add_get("/.well-known/acme-challenge/{token}", respond)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield
        finally:
            await runner.cleanup()


class Client:
    """One account; requests go one after another, each with the nonce of the last reply."""

    def __init__(self, session: aiohttp.ClientSession, directory: dict[str, Any], responses: Responses) -> None:
        self.session = session
        self.directory = directory
        self.responses = responses
        self.pause = POLL_SECONDS
        """Before it asks whether a challenge was decided."""
        self.key = ec.generate_private_key(ec.SECP256R1())
        numbers = self.key.public_key().public_numbers()
        self.jwk = {"kty": "EC", "crv": "P-256", "x": b64url(numbers.x.to_bytes(32)), "y": b64url(numbers.y.to_bytes(32))}
        self.thumbprint = b64url(sha256(compact(self.jwk)).digest())
        self.kid: str | None = None
        self.nonce: str | None = None
        self.reference_ns: list[int] = []
        """What a P-256 sign + verify took at every request: on a core that slept a moment ago it takes up to three times as long."""

    async def post(self, url: str, payload: object) -> tuple[aiohttp.ClientResponse, bytes]:
        """A signed request (RFC 8555 s6.2); ``payload`` None is POST-as-GET. Anything but 2xx is an error."""
        if self.nonce is None:
            async with self.session.head(self.directory["newNonce"]) as answer:
                self.nonce = answer.headers["Replay-Nonce"]
        protected = {"alg": "ES256", "nonce": self.nonce, "url": url} | ({"kid": self.kid} if self.kid else {"jwk": self.jwk})
        head, body = b64url(compact(protected)), "" if payload is None else b64url(compact(payload))
        r, s = decode_dss_signature(self._signed(f"{head}.{body}".encode()))
        signature = b64url(r.to_bytes(32) + s.to_bytes(32))
        sent = compact({"protected": head, "payload": body, "signature": signature})
        async with self.session.post(url, data=sent, headers={"Content-Type": "application/jose+json"}) as answer:
            self.nonce = answer.headers.get("Replay-Nonce")
            received = await answer.read()
            if not 200 <= answer.status < 300:
                raise RuntimeError(f"{answer.status} from {url}: {received[:300]!r}")
            return answer, received

    def _signed(self, message: bytes) -> bytes:
        """Sign, and verify what was signed: the reference of :attr:`reference_ns`."""
        began = time.thread_time_ns()
        signature = self.key.sign(message, SHA256)
        self.key.public_key().verify(signature, message, SHA256)
        self.reference_ns.append(time.thread_time_ns() - began)
        return signature

    async def register(self) -> None:
        answer, _ = await self.post(self.directory["newAccount"], {"termsOfServiceAgreed": True})
        self.kid = answer.headers["Location"]

    async def certificate(self, name: str) -> int:
        """A whole order with a new key, in the seven requests of certbot and more when the server is slow. The serial number."""
        answer, body = await self.post(self.directory["newOrder"], {"identifiers": [{"type": "dns", "value": name}]})
        where, order = answer.headers["Location"], json.loads(body)
        for authorization in order["authorizations"]:
            await self._authorize(authorization)
        key = ec.generate_private_key(ec.SECP256R1())
        request = x509.CertificateSigningRequestBuilder(x509.Name([])).add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
        csr = request.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
        await self.post(order["finalize"], {"csr": b64url(csr)})
        order = await self._until_decided(where, "processing")
        chain = (await self.post(order["certificate"], None))[1]
        leaf = x509.load_pem_x509_certificates(chain)[0]
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
        assert names == [name]
        assert leaf.public_key() == key.public_key()
        return leaf.serial_number

    async def _authorize(self, url: str) -> None:
        authorization = json.loads((await self.post(url, None))[1])
        challenge = next(each for each in authorization["challenges"] if each["type"] == "http-01")
        token = challenge["token"]
        fetched = self.responses.expect(token, f"{token}.{self.thumbprint}")
        await self.post(challenge["url"], {})
        await asyncio.wait_for(fetched.wait(), TIMEOUT_SECONDS)
        await asyncio.sleep(self.pause)
        await self._until_decided(url, "pending")

    async def _until_decided(self, url: str, waiting: str) -> dict[str, Any]:
        delay = POLL_SECONDS
        while True:
            found: dict[str, Any] = json.loads((await self.post(url, None))[1])
            if found["status"] == "valid":
                return found
            if found["status"] != waiting:
                raise RuntimeError(f"{url} became {found}")
            await asyncio.sleep(delay)
            delay *= 2


@asynccontextmanager
async def clients(directory: str, count: int, responses: Responses, tls: ssl.SSLContext | None = None) -> AsyncIterator[list[Client]]:
    """Registered accounts."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls or True), timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    ) as session:
        async with session.get(directory) as answer:
            found = await answer.json()
        made = [Client(session, found, responses) for _ in range(count)]
        for client in made:
            await client.register()
        yield made
