"""Cosigners and witnesses of somebody else: real servers on loopback that answer as they are told."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal_mtc.algorithms import signature_algorithm
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.structures import Checkpoint, SubtreeSignature
from greatseal_mtc.wire import cosigned_message

Answer = Callable[[bytes], bytes | None]
"""What is sent for a body, head and all; None for nothing, and the connection stays open."""


def reply(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    """A whole answer."""
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Server:
    """``asked`` are the requests: first line, headers in lower case, body."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.port = 0
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: dict[str, Answer] = {}
        self.endless = False
        self.let_go = asyncio.Event()

    def url(self, path: str) -> str:
        return f"{self.scheme}://localhost:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, ssl.SSLError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.asked.append((first, headers, body))
            if self.endless:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
                while True:
                    writer.write(bytes(65_536))
                    await writer.drain()
            answer = self.answers[first.split(" ")[1]](body)
            if answer is None:
                await self.let_go.wait()
            else:
                writer.write(answer)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def server(*, tls: bool = True) -> AsyncIterator[tuple[Server, ssl.SSLContext]]:
    """The server, and what believes its certificate."""
    authority = trustme.CA()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    there = Server("https" if tls else "http")
    listening = await asyncio.start_server(there.serve, "127.0.0.1", 0, ssl=context if tls else None)
    there.port = listening.sockets[0].getsockname()[1]
    try:
        yield there, trusting
    finally:
        there.let_go.set()
        listening.close()


class Signatory(msgspec.Struct, frozen=True):
    """Who signs subtrees under an ID."""

    key: Any
    anchor: TrustAnchorId

    @property
    def algorithm(self) -> bytes:
        return signature_algorithm(self.key.public_key())

    def sign(self, message: bytes) -> bytes:
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            curve = hashes.SHA384() if self.key.curve.key_size == 384 else hashes.SHA256()
            return bytes(self.key.sign(message, ec.ECDSA(curve)))
        return bytes(self.key.sign(message))

    def answer(self, log_id: str, body: bytes, **changes: Any) -> SubtreeSignature:
        """What an honest cosigner answers; ``changes`` are made before it signs."""
        asked = Checkpoint.parse(body)
        tree = {"start": 0, "end": asked.size, "root": asked.root, **{k: v for k, v in changes.items() if k in {"start", "end", "root"}}}
        cosigner = changes.get("cosigner", self.anchor)
        message = cosigned_message(cosigner.name, log_id, tree["start"], tree["end"], tree["root"])
        made = SubtreeSignature(
            cosigner=cosigner, checkpoint=changes.get("checkpoint", body), algorithm=self.algorithm, signature=self.sign(message), **tree
        )
        return msgspec.structs.replace(made, **{k: v for k, v in changes.items() if k in {"algorithm", "signature"}})

    @property
    def pem(self) -> str:
        """A certificate of the key."""
        return certificate_of(self.key)


def certificate_of(key: Any) -> str:
    """A certificate for a key, by somebody who is of no matter."""
    issuer = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cosigner")])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begin, begin + timedelta(days=9000))
    return builder.sign(issuer, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


KEYS = {
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "ec:P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ec:P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ml-dsa-44": mldsa.MLDSA44PrivateKey.generate,
    "ml-dsa-87": mldsa.MLDSA87PrivateKey.generate,
}
