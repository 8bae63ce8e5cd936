"""A mail there and back (RFC 8823): by the programs of examples/email-reply-00 over aiosmtpd, signed by dkimpy, judged by npm mailauth.

No ACME client proves mail addresses; one of ours stands in.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from peers.test_peers_oidc_node import SCRIPTS, node
from rig.acme import AcmeClient, Answer
from rig.clients import run
from rig.post import FROM, Domain, Post, reply
from rig.server import Server

ADDRESS, DOMAIN, EVIL = "Ann.Example@a.example", Domain("a.example"), Domain("evil.example")
KEY = ec.generate_private_key(ec.SECP256R1())
Program = Callable[[str, str], Path]
both_databases = pytest.mark.parametrize("database", ["sqlite", "postgresql"])


@pytest.fixture
def post(library: Callable[[str, str], Any], tmp_path: Path) -> Iterator[Post]:
    library("aiosmtpd", "aiosmtpd")
    library("dkim", "dkimpy")
    folder = tmp_path / "post"
    folder.mkdir()
    with Post(folder, node("mailauth"), SCRIPTS / "mailauth.mjs", [DOMAIN, EVIL]).served() as post:
        yield post


@pytest.fixture
def ca(post: Post, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Server]:
    """``ca(**keys)``: a server with these keys of [email_challenge], which does not run yet."""

    def configured(database: str = "sqlite", **keys: str) -> Server:
        folder = tmp_path / "server"
        folder.mkdir()
        server = Server(folder, database=request.getfixturevalue("postgres_url") if database == "postgresql" else None)
        post.configure(server, **keys)
        return server

    return configured


@asynccontextmanager
async def client_of(server: Server) -> AsyncIterator[AcmeClient]:
    async with aiohttp.ClientSession() as session:
        client = await AcmeClient.connect(session, server.base_url)
        assert (await client.register()).status == 201
        yield client


async def ordered(client: AcmeClient, address: str = ADDRESS) -> tuple[Answer, dict[str, Any]]:
    """An order and its challenge."""
    made = await client.order({"type": "email", "value": address})
    assert made.status == 201, made.body
    return made, await client.challenge(made.json["authorizations"][0], "email-reply-00")


def response(client: AcmeClient, challenge: dict[str, Any], mail: EmailMessage) -> str:
    """What proves it (RFC 8823 s3)."""
    part1 = mail["Subject"].removeprefix("ACME: ")
    digest = sha256(f"{part1}{challenge['token']}.{client.key.thumbprint}".encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()


def csr() -> bytes:
    builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.RFC822Name(ADDRESS)]), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


async def certified(client: AcmeClient, order: str) -> str:
    """The chain of an order that is ready."""
    assert (await client.until(order, "pending"))["status"] == "ready"
    done = await client.finalize((await client.post(order)).json, csr())
    assert done.status == 200, done.body
    return (await client.post(done.json["certificate"])).body.decode()


@both_databases
async def test_ca_094_ca_247_ca_249_a_mail_there_and_back_gives_a_certificate_that_signs_mail(
    ca: Callable[..., Server], post: Post, program: Program, tmp_path: Path, database: str
) -> None:
    server = ca(database)
    with server.forked():
        async with client_of(server) as client:
            made, challenge = await ordered(client)
            assert (await client.post(challenge["url"], {})).json["status"] == "processing"
            mail = post.read(ADDRESS)
            assert (mail["To"], mail["From"], mail["Message-ID"].partition("@")[2]) == (ADDRESS, challenge["from"], "ca.example>")
            assert (mail["Auto-Submitted"], mail.get_content_type()) == ("auto-generated; type=acme", "text/plain")
            answer = DOMAIN.signed(reply(mail, ADDRESS, response(client, challenge, mail)))

            assert [await asyncio.to_thread(post.deliver, ADDRESS, answer) for _ in range(2)] == [250, 250]  # the second changes nothing

            chain = await certified(client, made.location)
            (tmp_path / "root.pem").write_bytes(server.root().public_bytes(Encoding.PEM))
    leaf, end, issuing = chain.partition("-----END CERTIFICATE-----\n")
    (tmp_path / "leaf.pem").write_text(leaf + end)
    (tmp_path / "issuing.pem").write_text(issuing)
    (tmp_path / "key.pem").write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "text").write_text("Hello\n")
    openssl = program("openssl", "openssl")
    signer = ("-signer", "leaf.pem", "-inkey", "key.pem", "-certfile", "issuing.pem")
    run(openssl, "cms", "-sign", "-text", "-in", "text", "-out", "signed", *signer, folder=tmp_path)
    assert "Hello" in run(
        openssl, "cms", "-verify", "-text", "-in", "signed", "-CAfile", "root.pem", "-purpose", "smimesign", folder=tmp_path
    )


async def test_rfc_8823_the_reply_may_come_before_the_answer_to_the_challenge(ca: Callable[..., Server], post: Post) -> None:
    server = ca(send_on="authorization")
    with server.forked():
        async with client_of(server) as client:
            made, challenge = await ordered(client)
            mail = await asyncio.to_thread(post.read, ADDRESS)
            answer = DOMAIN.signed(reply(mail, ADDRESS, response(client, challenge, mail)))
            assert await asyncio.to_thread(post.deliver, ADDRESS, answer) == 250
            assert (await client.post(made.location)).json["status"] == "pending"

            await client.post(challenge["url"], {})

            assert "BEGIN CERTIFICATE" in await certified(client, made.location)


def as_it_is(mail: bytes) -> bytes:
    return mail


def under_another_name(mail: bytes) -> bytes:
    return EVIL.signed(mail)


def changed_on_the_way(mail: bytes) -> bytes:
    return DOMAIN.signed(mail).replace(b"Here you are", b"Here we are")


def with_part_unsigned(mail: bytes) -> bytes:
    return DOMAIN.signed(mail, b"in-reply-to")


def with_results_of_its_own(mail: bytes) -> bytes:
    return b"Authentication-Results: mx.ca.example; dkim=pass header.d=a.example\r\n" + EVIL.signed(mail)


REFUSED = {
    as_it_is: 'signed (DKIM) by ""; expected "a.example"',
    under_another_name: 'signed (DKIM) by "evil.example"; expected "a.example"',
    with_results_of_its_own: 'signed (DKIM) by "evil.example"',
    changed_on_the_way: 'has the status "neutral"; expected pass',
    with_part_unsigned: 'has the status "policy"; expected pass',
}


async def test_s121_ca_095_ca_252_ca_253_ca_256_a_mail_that_does_not_prove_it(ca: Callable[..., Server], post: Post) -> None:
    server = ca()
    with server.forked():
        async with client_of(server) as client:
            for made_wrong, said in REFUSED.items():
                made, challenge = await ordered(client)
                await client.post(challenge["url"], {})
                mail = await asyncio.to_thread(post.read, ADDRESS)
                sent = made_wrong(reply(mail, ADDRESS, response(client, challenge, mail)))
                assert await asyncio.to_thread(post.deliver, ADDRESS, sent) == 250

                assert said in (await client.until(made.location, "pending"))["error"]["detail"], made_wrong

            made, challenge = await ordered(client)
            await client.post(challenge["url"], {})
            mail = await asyncio.to_thread(post.read, ADDRESS)
            right = response(client, challenge, mail)
            mail.replace_header("Subject", "ACME: dG9rZW4gb2Ygc29tZWJvZHkgZWxzZQ")
            holiday = DOMAIN.signed(reply(mail, ADDRESS, "").replace(b"ACME RESPONSE", b"HOLIDAY"))
            assert await asyncio.to_thread(post.deliver, ADDRESS, holiday) == 250
            assert (await client.post(made.location)).json["status"] == "pending"
            wrong = DOMAIN.signed(reply(mail, ADDRESS, response(client, challenge, mail)))
            assert await asyncio.to_thread(post.deliver, ADDRESS, wrong) == 250
            late = DOMAIN.signed(reply(mail, ADDRESS, right))
            assert await asyncio.to_thread(post.deliver, ADDRESS, late) == 250
            assert "holds the response" in (await client.until(made.location, "pending"))["error"]["detail"]


async def test_ca_093_what_the_smtp_server_refuses_and_what_comes_while_the_service_is_away(ca: Callable[..., Server], post: Post) -> None:
    server = ca()
    with server.forked():
        async with client_of(server) as client:
            post.refuses = {"bob@a.example": "550 no such user", "eve@a.example": "451 later"}
            for address in post.refuses:
                _, refused = await ordered(client, address)
                assert (await client.post(refused["url"], {})).json["error"][
                    "detail"
                ] == f"the challenge mail to {address} could not be sent"
            made, challenge = await ordered(client)
            await client.post(challenge["url"], {})
    mail = await asyncio.to_thread(post.read, ADDRESS)
    assert (mail["From"], list(post.boxes)) == (FROM, [ADDRESS])
    answer = DOMAIN.signed(reply(mail, ADDRESS, response(client, challenge, mail)))
    assert await asyncio.to_thread(post.deliver, ADDRESS, answer) == 451

    with server.forked():
        assert await asyncio.to_thread(post.deliver, ADDRESS, answer) == 250
        async with aiohttp.ClientSession() as session:
            client.session = session
            client.nonces.clear()
            assert "BEGIN CERTIFICATE" in await certified(client, made.location)
