"""Operators of the CA in tests: certificates of their own, the admin listener over TLS, and requests with their sessions."""

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from yarl import URL

from greatseal.testing.desk import Answer, Desk, bearer
from greatseal.testing.service import Service

__all__ = ["OperatorDesk", "Person", "admin_section"]


class Person(msgspec.Struct, frozen=True):
    """Somebody with a key and a self-signed certificate, in two files of PEM."""

    name: str
    cert_file: Path
    key_file: Path

    @classmethod
    def of(cls, folder: Path, name: str, *, days: tuple[int, int] = (-1, 30), names: tuple[str, ...] = ()) -> "Person":
        """Make the files. The certificate is valid between those days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        begin, end = (now + timedelta(days=day) for day in days)
        builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number(), begin, end)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), critical=False)
        person = cls(name, folder / f"{name}.pem", folder / f"{name}.key")
        person.cert_file.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
        person.key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        person.key_file.chmod(0o600)
        return person

    @property
    def pem(self) -> str:
        """The certificate."""
        return self.cert_file.read_text()

    @property
    def der(self) -> bytes:
        """The same as DER."""
        return x509.load_pem_x509_certificate(self.cert_file.read_bytes()).public_bytes(Encoding.DER)

    @property
    def fingerprint(self) -> str:
        """Its SHA-256."""
        return sha256(self.der).hexdigest()


def admin_section(folder: Path, first: Person, **more: Any) -> dict[str, Any]:
    """The section `[admin]` of a listener with TLS on a free port; ``first`` is the first administrator."""
    server = Person.of(folder, "localhost", names=("localhost",))
    files = {"tls_cert_file": str(server.cert_file), "tls_key_file": str(server.key_file), "bootstrap_cert_file": str(first.cert_file)}
    return {"listen": "127.0.0.1:0", **files, **more}


class OperatorDesk(Desk):
    """The admin listener of a running service."""

    def __init__(self, service: Service, http: aiohttp.ClientSession, folder: Path) -> None:
        super().__init__(service, http)
        self.url = f"https://localhost:{service.addresses['admin'].rpartition(':')[2]}"
        self.server_file = folder / "localhost.pem"
        self.folder = folder

    def context(self, person: Person | None) -> ssl.SSLContext:
        """A client that trusts the listener, with the certificate of ``person``."""
        context = ssl.create_default_context(cafile=str(self.server_file))
        if person is not None:
            context.load_cert_chain(person.cert_file, person.key_file)
        return context

    async def ask(self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Answer:
        """A request in a connection of its own; ``person`` shows their certificate, ``token`` is that of a session."""
        sent = {"Connection": "close", **(headers or {})}
        if (token := more.pop("token", None)) is not None:
            sent |= bearer(token)
        context = self.context(more.pop("person", None))
        url = URL(self.url + path, encoded=True)
        async with self.http.request(method, url, headers=sent, allow_redirects=False, ssl=context, **more) as response:
            return Answer(status=response.status, headers=response.headers, body=await response.read())

    async def sign_in(self, person: Person) -> str:
        """The token of a new session."""
        answer = await self.post("/admin/session", person=person)
        assert answer.status == 200, answer.text
        return str(answer.json["session_token"])

    async def hire(self, token: str, name: str, role: str, ca_id: str | None = None, **more: Any) -> Person:
        """Make an operator with a certificate of their own, by the session of an administrator."""
        person = Person.of(self.folder, name)
        members = {"name": name, "role": role, "certificate": person.pem, **({} if ca_id is None else {"ca_id": ca_id}), **more}
        answer = await self.post("/admin/operators", token=token, json=members)
        assert answer.status == 201, answer.text
        return person
