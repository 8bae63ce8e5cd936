"""Rows S149 and S150 against the program itself: no secret in logs, audit rows, answers or tables, and no text that forges a log line."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import AttributeOID
from rig import warm
from rig.acme import AcmeClient, Answer, Key, b64url, compact
from rig.server import Server

PLACES = ("environment", "authorization", "cookie", "query", "payload", "broken-json", "signature", "challenge-password", "database", "key")
MARKS = {place: f"MARK-{place}-9f8e7d" for place in PLACES}
HEADERS = {"Authorization": f"Bearer {MARKS['authorization']}", "Proxy-Authorization": f"Basic {MARKS['authorization']}"}
FORGED = "\n" + '{"event": "FORGED"}' + "\r\n\x1b[31m\u202e\u2028\x85"


class Told(list[bytes]):
    """Every answer as bytes, headers too."""

    def add(self, answer: Answer) -> Answer:
        self.append(repr(answer.headers).encode() + answer.body)
        return answer


@pytest.fixture
def server(tmp_path, database_url) -> Iterator[Server]:
    """A service with a secret in every place that has one; the test clusters take any password."""
    if not database_url.startswith("sqlite"):
        database_url += f"&password={MARKS['database']}"
    server = Server(tmp_path, ["a.localhost", "b.localhost"], database=database_url)
    password = tmp_path / "password"
    password.write_text(MARKS["key"])
    password.chmod(0o600)
    files = f'key_file = "{tmp_path}/issuing.key"\ncert_file = "{tmp_path}/issuing.pem"\nkey_password_file = "{password}"'
    server.configuration.write_text(f"{server.configuration.read_text()}\n[ca]\n{files}\n")
    with server.forked({"GREATSEAL_MARK": MARKS["environment"]}):
        yield server


async def test_s149_no_secret_is_logged_audited_answered_or_stored(server, tmp_path, database_url):
    told, key = Told(), Key()
    session = aiohttp.ClientSession(cookies={"session": MARKS["cookie"]}, headers=HEADERS, cookie_jar=aiohttp.CookieJar(unsafe=True))
    async with session:
        client = await AcmeClient.connect(session, server.base_url, key)
        told.add(await client.register(contact=["mailto:a@example.org"]))
        await misbehave(client, told)
        await fail_a_validation(client, told)
        for path in ("/healthz", "/readyz", "/ca/root.pem", f"/nothing?token={MARKS['query']}", f"/acme/directory?token={MARKS['query']}"):
            told.add(await client.get(f"{server.base_url}{path}"))

    secrets = {place: [text.encode()] for place, text in MARKS.items()}
    secrets["cluster key"] = [line.split()[2].encode() for line in (tmp_path / "cluster.key").read_text().splitlines()]
    private = load_pem_private_key((tmp_path / "issuing.key").read_bytes(), MARKS["key"].encode())
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    number = private.private_numbers().private_value.to_bytes(32)
    secrets["CA key"] = [number, number.hex().encode(), b64url(number).encode()]
    found = {
        "log": server.log().encode(),
        "answers": b"".join(told),
        "tables": await asyncio.to_thread(everything_in, database_url),
        "public files": b"".join(path.read_bytes() for path in (tmp_path / "ca").rglob("*") if path.is_file()),
    }
    leaks = [(place, where) for where, text in found.items() for place, forms in secrets.items() for form in forms if form in text]
    assert leaks == []
    assert b"account.create" in found["tables"]
    assert b"challenge.invalid" in found["tables"]


async def misbehave(client: AcmeClient, told: Told) -> None:
    """Requests with secrets in them, most of them refused."""
    orders = client.directory["newOrder"]
    told.add(await client.post(orders, {"externalAccountBinding": {"secret": MARKS["payload"]}, "identifiers": MARKS["payload"]}))
    told.add(await client.post(client.kid or "", {"contact": ["mailto:b@example.org"], "password": MARKS["payload"]}))
    told.add(await client.post(orders, f'{{"identifiers": [{{"{MARKS["broken-json"]}'.encode()))
    told.add(await client.send(orders, f'{{"payload": "{MARKS["broken-json"]}", '.encode()))
    envelope = client.signed(await client.header(orders), {})
    told.add(await client.send(orders, compact({**envelope, "signature": MARKS["signature"]})))
    told.add(await client.send(f"{orders}?token={MARKS['query']}", compact(envelope)))
    told.add(await client.send(orders, compact(envelope), {"Content-Type": MARKS["payload"]}))
    made = told.add(await client.order("a.localhost"))
    told.add(await client.post(made.json["finalize"], {"csr": b64url(csr_with_password())}))
    told.add(await client.post(made.json["finalize"], {"csr": MARKS["payload"]}))


def csr_with_password() -> bytes:
    name = x509.SubjectAlternativeName([x509.DNSName("a.localhost")])
    builder = x509.CertificateSigningRequestBuilder(x509.Name([])).add_extension(name, critical=False)
    builder = builder.add_attribute(AttributeOID.CHALLENGE_PASSWORD, MARKS["challenge-password"].encode())
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.DER)


async def fail_a_validation(client: AcmeClient, told: Told) -> None:
    made = told.add(await client.order("b.localhost"))
    challenge = await client.challenge(made.json["authorizations"][0])
    told.add(await client.post(challenge["url"], {}))
    await client.until(challenge["url"], "processing")


def everything_in(database: str) -> bytes:
    """Every value of every table."""
    if database.startswith("sqlite"):
        path = Path(database.removeprefix("sqlite:///"))
        return b"".join(one.read_bytes() for one in path.parent.glob(f"{path.name}*"))
    import psycopg

    found: list[bytes] = []
    with psycopg.connect(database) as connection:
        for (table,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"').fetchall():  # our own tables
                found += [value if isinstance(value, bytes) else str(value).encode() for value in row]
    return b"\n".join(found)


DATABASES = [
    f"postgresql://greatseal:{MARKS['database']}@127.0.0.1:1/x",
    f"postgresql://greatseal:{MARKS['database']}@[::1/x",
    f"postgresql://greatseal:{MARKS['database']}@127.0.0.1:port/x",
    f"mysql://greatseal:{MARKS['database']}@127.0.0.1/x",
    f"postgresql:///x?password={MARKS['database']}&nonsense=1",
    f"sqlite://greatseal:{MARKS['database']}@/x",
    f"host=127.0.0.1 password={MARKS['database']} options=://",
    f"postgresql://greatseal:{MARKS['database']}%zz@127.0.0.1/x",
    f"postgresql://greatseal:{MARKS['database']} @127.0.0.1/x",
]


@pytest.mark.parametrize("command", ["check-config", "serve", "doctor", "migrate"])
def test_s149_the_command_line_never_shows_the_database_password(tmp_path, command):
    server = Server(tmp_path, [])
    good = server.configuration.read_text()
    for url in DATABASES if command in {"serve", "check-config"} else DATABASES[:3]:
        server.configuration.write_text(good.replace(f"sqlite:///{tmp_path}/greatseal.db", url))
        environ = {**os.environ, "GREATSEAL_MARK": MARKS["environment"]}
        done = warm.run(command, "-c", str(server.configuration), env=environ, cwd=tmp_path)

        shown = done.stdout + done.stderr
        assert MARKS["database"] not in shown, (url, shown)
        assert "Traceback" not in shown, (url, shown)
        assert command == "check-config" or done.returncode in {1, 2}, (url, shown)


async def test_s150_no_text_forges_or_hides_a_log_line(server):
    lines = len(server.log().splitlines())
    async with aiohttp.ClientSession() as session:
        client = await AcmeClient.connect(session, server.base_url)
        await client.register()
        await inject(client, server)
        await fail_a_validation(client, Told())
    await raw_injections(server.port)

    logged = server.log().split("\n")
    assert logged.pop() == ""
    assert len(logged) > lines + 15
    for line in logged:
        assert line.isprintable(), line
        event: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
        assert event.get("event") != "FORGED"


async def inject(client: AcmeClient, server: Server) -> None:
    orders = client.directory["newOrder"]
    for answer in [
        await client.order(f"a{FORGED}.localhost"),
        await client.order({"type": FORGED, "value": FORGED}),
        await client.order("a.localhost", profile=FORGED, notBefore=FORGED),
        await client.post(client.kid or "", {"contact": [f"mailto:a{FORGED}@example.org"], "status": FORGED}),
        await client.post(client.kid or "", {"contact": ["mailto:a\u202e@example.org"]}),
        await client.post(orders, {FORGED: FORGED}),
        await client.post(orders, {}, kid=f"{client.kid}{FORGED}"),
        await client.post(orders, {}, url=f"{orders}{FORGED}"),
        await client.post(orders, {}, alg=FORGED),
        await client.post(orders, {}, nonce=FORGED),
        await client.post(orders, {}, crit=[FORGED]),
        await client.send(orders, FORGED.encode()),
        await client.get(f"{server.base_url}/acme/x%0a%1b%5b31m%e2%80%aeFORGED"),
        await client.get(f"{server.base_url}/acme/cert/%0a%7b%22event%22:%22FORGED%22%7d"),
        await client.get(
            f"{server.base_url}/healthz", headers={"User-Agent": "a\u202e", "X-Forwarded-For": "1.2.3.4\u202e", "Referer": "\u2028"}
        ),
    ]:
        assert answer.status < 500
        assert FORGED.encode() not in answer.body


RAW = [
    b"GET /\x1b[31m\xe2\x80\xae HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /\nFORGED HTTP/1.1\r\nHost: a\r\n\r\n",
    b"G\x1b[31mT / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"FORGED\xff\xfe HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\x1b[31m\r\nX-Forwarded-For: \x1b[31m\r\n\r\n",
    b'\n{"event": "FORGED"}\n\n',
]


async def raw_injections(port: int) -> None:
    for data in RAW:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answer
        assert b"\x1b" not in answer
