"""A small ACME client of our own, and the web server that answers its challenges: able to do everything wrong that a test wants."""

import asyncio
import base64
import inspect
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding

JOSE = {"Content-Type": "application/jose+json"}
POLL_SECONDS = 0.01


def b64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def raw(signature: bytes) -> bytes:
    """A P-256 signature as JWS has it (RFC 7518 s3.4)."""
    r, s = decode_dss_signature(signature)
    return r.to_bytes(32) + s.to_bytes(32)


class Answer(msgspec.Struct, frozen=True):
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    links: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The token of the problem's type, empty when there is no problem."""
        if self.headers.get("Content-Type") != "application/problem+json":
            return ""
        document = self.json
        assert document["status"] == self.status
        assert document["detail"]
        return str(document["type"]).removeprefix("urn:ietf:params:acme:error:")

    @property
    def location(self) -> str:
        return self.headers["Location"]


class Key:
    """A P-256 account key."""

    alg = "ES256"

    def __init__(self) -> None:
        self.private = ec.generate_private_key(ec.SECP256R1())
        numbers = self.private.public_key().public_numbers()
        self.jwk = {"kty": "EC", "crv": "P-256", "x": b64url(numbers.x.to_bytes(32)), "y": b64url(numbers.y.to_bytes(32))}
        self.thumbprint = b64url(sha256(compact(self.jwk)).digest())

    def sign(self, message: bytes) -> bytes:
        return raw(self.private.sign(message, ec.ECDSA(hashes.SHA256())))


class PostQuantumKey(Key):
    """An account key of ML-DSA (RFC 9964); ``alg`` says of which strength."""

    def __init__(self, alg: str) -> None:
        made: dict[str, Any] = {
            "ML-DSA-44": mldsa.MLDSA44PrivateKey,
            "ML-DSA-65": mldsa.MLDSA65PrivateKey,
            "ML-DSA-87": mldsa.MLDSA87PrivateKey,
        }
        self.alg = alg
        self.secret = made[alg].generate()
        self.jwk = {"kty": "AKP", "alg": alg, "pub": b64url(self.secret.public_key().public_bytes_raw())}
        self.thumbprint = b64url(sha256(compact(self.jwk)).digest())

    def sign(self, message: bytes) -> bytes:
        signature: bytes = self.secret.sign(message)
        return signature


def signed_by(key: Key, protected: Mapping[str, Any], payload: object) -> dict[str, str]:
    """A flattened JWS; ``payload`` None is the empty one, bytes go as they are."""
    head = b64url(compact(protected))
    body = b64url(payload if isinstance(payload, bytes) else b"" if payload is None else compact(payload))
    return {"protected": head, "payload": body, "signature": b64url(key.sign(f"{head}.{body}".encode()))}


class Responder(dict[str, str]):
    """Key authorizations by token, served on loopback at /.well-known/acme-challenge/; ``asked`` counts the probes of a token."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, int] = {}
        self.port = 0

    def note(self, token: str) -> None:
        """It was asked for."""
        self.asked[token] = self.asked.get(token, 0) + 1

    @asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator["Responder"]:
        async def respond(request: web.Request) -> web.Response:
            token = request.match_info["token"]
            self.note(token)
            return web.Response(text=self[token]) if token in self else web.Response(status=404)

        app = web.Application()
        app.router.add_get("/.well-known/acme-challenge/{token}", respond)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()


class AcmeClient:
    """One account. Nonces come from the answers; several requests may run at once."""

    def __init__(self, session: aiohttp.ClientSession, directory: Mapping[str, Any], key: Key | None = None) -> None:
        self.session = session
        self.directory = directory
        self.key = key or Key()
        self.kid: str | None = None
        self.nonces: deque[str] = deque()

    @classmethod
    async def connect(cls, session: aiohttp.ClientSession, url: str, key: Key | None = None, ca: str = "") -> "AcmeClient":
        """A client of the server at ``url``, without account yet; of the CA of that id instead of the default one."""
        async with session.get(f"{url}/acme/{ca and f'{ca}/'}directory") as answer:
            return cls(session, await answer.json(), key)

    async def nonce(self) -> str:
        if self.nonces:
            return self.nonces.popleft()
        async with self.session.head(self.directory["newNonce"]) as answer:
            return answer.headers["Replay-Nonce"]

    def signed(self, protected: Mapping[str, Any], payload: object) -> dict[str, str]:
        """A flattened JWS; ``payload`` None is POST-as-GET, bytes go as they are."""
        return signed_by(self.key, protected, payload)

    async def header(self, url: str, /, **changes: Any) -> dict[str, Any]:
        """The protected header for ``url``; a change to None takes the member out."""
        whole = {"alg": self.key.alg, "url": url, "nonce": changes.get("nonce") or await self.nonce()}
        whole |= {"kid": self.kid} if self.kid else {"jwk": self.key.jwk}
        return {name: value for name, value in (whole | changes).items() if value is not None}

    async def post(self, url: str, payload: object = None, /, **changes: Any) -> Answer:
        """A signed request; ``changes`` replace members of the protected header."""
        return await self.send(url, compact(self.signed(await self.header(url, **changes), payload)))

    async def send(self, url: str, body: bytes, headers: Mapping[str, str] = JOSE) -> Answer:
        """Any body at all."""
        async with self.session.post(url, data=body, headers=headers) as answer:
            if fresh := answer.headers.get("Replay-Nonce"):
                self.nonces.append(fresh)
            return await read(answer)

    async def get(self, url: str, method: str = "GET", **options: Any) -> Answer:
        async with self.session.request(method, url, **options) as answer:
            return await read(answer)

    async def register(self, **members: Any) -> Answer:
        answer = await self.post(self.directory["newAccount"], {"termsOfServiceAgreed": True, **members}, kid=None, jwk=self.key.jwk)
        if answer.status in {200, 201}:
            self.kid = answer.location
        return answer

    async def change_key(self, new: Key, /, *, inner: Mapping[str, Any] = {}, **members: Any) -> Answer:
        """Put the account under another key; ``inner`` changes the inner header, ``members`` the inner payload. A None takes one out."""
        url = self.directory["keyChange"]
        header = {"alg": new.alg, "jwk": new.jwk, "url": url, **inner}
        asked = {"account": self.kid, "oldKey": self.key.jwk, **members}
        inside = signed_by(new, *({name: value for name, value in whole.items() if value is not None} for whole in (header, asked)))
        answer = await self.post(url, inside)
        if answer.status == 200:
            self.key = new
        return answer

    async def order(self, *names: str | dict[str, str], **members: Any) -> Answer:
        identifiers = [{"type": "dns", "value": name} if isinstance(name, str) else name for name in names]
        return await self.post(self.directory["newOrder"], {"identifiers": identifiers, **members})

    async def challenge(self, authorization: str, type: str = "http-01") -> dict[str, Any]:
        """The challenge of that type in an authorization."""
        listed = (await self.post(authorization)).json["challenges"]
        found: dict[str, Any] = next(one for one in listed if one["type"] == type)
        return found

    async def prove(self, authorization: str, responder: Responder) -> str:
        """Answer the http-01 challenge; the status that the authorization gets."""
        challenge = await self.challenge(authorization)
        responder[challenge["token"]] = f"{challenge['token']}.{self.key.thumbprint}"
        await self.post(challenge["url"], {})
        decided: str = (await self.until(authorization, "pending"))["status"]
        return decided

    async def until(self, url: str, *waiting: str) -> dict[str, Any]:
        """The object at ``url`` when its status is none of ``waiting`` any more."""
        while True:
            found: dict[str, Any] = (await self.post(url)).json
            if found["status"] not in waiting:
                return found
            await asyncio.sleep(POLL_SECONDS)

    async def ready(self, responder: Responder, *names: str, **members: Any) -> Answer:
        """An order whose authorizations are all valid, as it is then."""
        made = await self.order(*names, **members)
        assert made.status == 201, made.body
        for authorization in made.json["authorizations"]:
            assert await self.prove(authorization, responder) == "valid"
        return await self.post(made.location)

    async def finalize(self, order: Mapping[str, Any], csr: bytes) -> Answer:
        return await self.post(order["finalize"], {"csr": b64url(csr)})

    async def issue(self, responder: Responder, *names: str) -> list[x509.Certificate]:
        """A whole order: the certificate and its chain."""
        ready = await self.ready(responder, *names)
        done = await self.finalize(ready.json, csr_for(*names))
        assert done.status == 200, done.body
        order = done.json if done.json["status"] == "valid" else await self.until(ready.location, "processing")
        return x509.load_pem_x509_certificates((await self.post(order["certificate"])).body)


async def eventually(condition: Callable[[], Any]) -> None:
    """Return when ``condition``, which may be async, holds."""
    while not (await found if inspect.isawaitable(found := condition()) else found):  # noqa: ASYNC110  # nobody tells
        await asyncio.sleep(POLL_SECONDS)


async def read(answer: aiohttp.ClientResponse) -> Answer:
    links = {str(link["rel"]): str(link["url"]) for link in answer.links.values()}
    return Answer(answer.status, answer.headers, links, await answer.read())


def csr_for(*names: str, key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | None = None) -> bytes:
    """A request for the names, with a new key unless one is given."""
    hash_alg = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    builder = x509.CertificateSigningRequestBuilder(x509.Name([])).add_extension(
        x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False
    )
    return builder.sign(key or ec.generate_private_key(ec.SECP256R1()), hash_alg).public_bytes(Encoding.DER)


class Site(msgspec.Struct):
    """A running service, a responder for its http-01 probes, and a session."""

    service: Any
    responder: Responder
    session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        url: str = self.service.url
        return url

    async def get_directory(self, **options: Any) -> Answer:
        async with self.session.get(f"{self.url}/acme/directory", **options) as answer:
            return await read(answer)

    async def client(self, key: Key | None = None, *, register: bool = True, ca: str = "") -> AcmeClient:
        client = await AcmeClient.connect(self.session, self.url, key, ca)
        if register:
            assert (await client.register()).status in {200, 201}
        return client


@asynccontextmanager
async def acme_site(
    start_service: Any, *more: str, database: str | None = None, server: Mapping[str, Any] = {}, **sections: Any
) -> AsyncIterator[Site]:
    """The certificate features with loopback probes allowed; ``more`` features beside them."""
    async with Responder().served() as responder, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        settings = {"http_validation_port": responder.port, "http_validation_allow_private_ips": True, **server}
        if database is not None:
            sections["database"] = {"url": database, "migrate": "auto"}
        service = await start_service("ca", "acme", "http-01", "resolver", *more, server=settings, **sections)
        yield Site(service, responder, session)
