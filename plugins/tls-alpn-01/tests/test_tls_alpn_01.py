"""The lines of the interface document on tls-alpn-01, and S131, against real TLS servers on loopback."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from greatseal.api.acme import VALID, Attempt, Identifier
from greatseal.api.problems import DnsFailure, IncorrectResponse, TlsFailure, Unreachable
from greatseal.net import TorAccess
from greatseal.testing.parsers import ParserContract
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.tor import FakeTor
from greatseal.testing.validators import ChallengeValidatorContract, attempt_for
from greatseal_tls_alpn_01.certificate import MAX_BYTES, check
from greatseal_tls_alpn_01.plugin import Plugin
from greatseal_tls_alpn_01.settings import Guard, TlsAlpnValidation
from greatseal_tls_alpn_01.tls_alpn_01 import TlsAlpn01, server_name

NAME = Identifier("dns", "a.example")
KEY = ec.generate_private_key(ec.SECP256R1())
NOW = datetime.now(UTC)
ACME_IDENTIFIER = "1.3.6.1.5.5.7.1.31"
DRAFT = "1.3.6.1.5.5.7.1.30.1"
OURS = "acme-tls/1"


def allowing_private(port: int) -> TlsAlpn01:
    resolver = FakeResolver({"silent.example": []}, loopback=True)
    return TlsAlpn01(resolver, TlsAlpnValidation(tls_alpn_validation_port=port), Guard(http_validation_allow_private_ips=True), TorAccess())


def challenge(identifier: Identifier = NAME) -> Attempt:
    return attempt_for(allowing_private(443), identifier)


DIGEST = sha256(challenge().key_authorization.encode()).digest()
"""Vector of RFC 8737 s3: SHA-256 of the key authorization."""
VALUE = b"\x04\x20" + DIGEST


def general(name: str | x509.GeneralName) -> x509.GeneralName:
    if isinstance(name, x509.GeneralName):
        return name
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def certificate(
    *names: str | x509.GeneralName, value: bytes | None = VALUE, critical: bool = True, oid: str = ACME_IDENTIFIER, more: int = 0
) -> x509.Certificate:
    """Signed by itself, with ``more`` bytes of another extension."""
    nobody = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a.example")])
    builder = x509.CertificateBuilder(nobody, nobody, KEY.public_key(), 1, NOW - timedelta(days=9), NOW - timedelta(days=2))  # it expired
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([general(name) for name in names]), critical=False)
    if value is not None:
        builder = builder.add_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier(oid), value), critical=critical)
    if more:
        builder = builder.add_extension(
            x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), bytes(more)), critical=False
        )
    return builder.sign(KEY, hashes.SHA256())


def context(shown: x509.Certificate, *protocols: str) -> ssl.SSLContext:
    """A server's, with that certificate and its key."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(shown.public_bytes(Encoding.PEM))
        file.write(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.flush()
        made.load_cert_chain(file.name)
    if protocols:
        made.set_alpn_protocols(list(protocols))
    return made


@cache
def right(identifier: Identifier = NAME) -> ssl.SSLContext:
    return context(certificate(identifier.value), OURS)


async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


Serve = Callable[[ssl.SSLContext], Awaitable[TlsAlpn01]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """``await serve(context)`` serves it and gives a validator that asks that server."""
    servers: list[asyncio.Server] = []

    async def start(tls: ssl.SSLContext) -> TlsAlpn01:
        servers.append(await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=tls))
        return allowing_private(servers[-1].sockets[0].getsockname()[1])

    yield start
    for server in servers:
        server.close()


class TestTlsAlpn01(ChallengeValidatorContract):
    def validator(self, port: int) -> TlsAlpn01:
        return allowing_private(port)

    async def answer(self, attempt: Attempt, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        digest = sha256(attempt.key_authorization.encode()).digest()
        await writer.start_tls(context(certificate(attempt.identifier.value, value=b"\x04\x20" + digest), OURS))


class TestTlsAlpn01OfAnAddress(TestTlsAlpn01):
    identifier = Identifier("ip", "127.0.0.1")


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        (NAME, "a.example"),
        (Identifier("ip", "127.0.0.1"), "1.0.0.127.in-addr.arpa"),
        (Identifier("ip", "192.0.2.1"), "1.2.0.192.in-addr.arpa"),
        (Identifier("ip", "2001:db8::1"), "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"),
    ],
)
def test_ca_225_addresses_are_asked_for_by_their_reverse_names(identifier: Identifier, name: str) -> None:
    assert server_name(identifier) == name


@pytest.mark.parametrize("identifier", [NAME, Identifier("ip", "127.0.0.1")], ids=["name", "address"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda version: version.name)
async def test_ca_224_ca_225_ca_226_the_handshake_and_the_certificate_prove_it(
    serve: Serve, identifier: Identifier, version: ssl.TLSVersion
) -> None:
    asked = []
    tls = context(certificate(identifier.value), OURS)
    tls.minimum_version = tls.maximum_version = version
    tls.sni_callback = lambda session, name, _: asked.append(name)

    assert await (await serve(tls)).validate(challenge(identifier)) is VALID

    assert asked == [server_name(identifier)]


async def test_ca_226_nothing_but_acme_tls_1_is_offered() -> None:
    hello = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello.set_result(await reader.read(4096))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        with pytest.raises(TlsFailure):
            await allowing_private(server.sockets[0].getsockname()[1]).validate(challenge())

    alpn = b"\x00\x10\x00\x0d\x00\x0b\x0a" + OURS.encode()  # RFC 7301 s3.1: the extension and a list of one
    assert alpn in await hello


PROVES = {
    "upper case": certificate("A.Example"),
    "another extension": certificate("a.example", more=10_000),
}


@pytest.mark.parametrize("shown", PROVES.values(), ids=PROVES)
async def test_ca_228_a_certificate_that_serves(serve: Serve, shown: x509.Certificate) -> None:
    assert await (await serve(context(shown, OURS))).validate(challenge()) is VALID


EXPECTED = VALUE.hex()
ADDRESS = Identifier("ip", "127.0.0.1")
DOES_NOT = {
    "no extension": (
        certificate("a.example", value=None), f'without the extension acmeIdentifier ({ACME_IDENTIFIER}); expected it to be "{EXPECTED}"',
    ),
    "the OID of the draft": (certificate("a.example", oid=DRAFT), "without the extension acmeIdentifier"),
    "not critical": (certificate("a.example", critical=False), "whose acmeIdentifier is not critical; it must be"),
    "another digest": (
        certificate("a.example", value=b"\x04\x20" + bytes(32)), f'whose acmeIdentifier is "0420{"00" * 32}"; expected "{EXPECTED}"',
    ),
    "33 bytes": (certificate("a.example", value=b"\x04\x21" + DIGEST + b"\0"), f'whose acmeIdentifier is "0421{DIGEST.hex()}00"'),
    "31 bytes": (certificate("a.example", value=b"\x04\x1f" + DIGEST[:31]), "whose acmeIdentifier is"),
    "a byte behind": (certificate("a.example", value=VALUE + b"\0"), "whose acmeIdentifier is"),
    "a long length": (certificate("a.example", value=b"\x04\x81\x20" + DIGEST), "whose acmeIdentifier is"),
    "no octet string": (certificate("a.example", value=DIGEST), "whose acmeIdentifier is"),
    "empty": (certificate("a.example", value=b""), 'whose acmeIdentifier is ""'),
    "the common name alone": (certificate(), 'for nothing; expected "a.example" alone in its subjectAltName'),
    "two names": (certificate("a.example", "b.example"), 'for "a.example", "b.example"; expected "a.example" alone'),
    "twice": (certificate("a.example", "a.example"), 'for "a.example", "a.example"; expected "a.example" alone'),
    "a name and an address": (certificate("a.example", "127.0.0.1"), 'for "a.example", "127.0.0.1"; expected "a.example" alone'),
    "another name": (certificate("b.example"), 'for "b.example"; expected "a.example" alone'),
    "a wildcard": (certificate("*.example"), 'for "*.example"; expected "a.example" alone'),
    "a name below": (certificate("www.a.example"), 'for "www.a.example"; expected "a.example" alone'),
    "the name as a URL": (certificate(x509.UniformResourceIdentifier("a.example")), 'for "UniformResourceIdentifier"; expected'),
    "large": (certificate("a.example", more=20_000), f"bytes; at most {MAX_BYTES} are read"),
}  # fmt: skip


@pytest.mark.parametrize(("shown", "wrong"), DOES_NOT.values(), ids=DOES_NOT)
async def test_s131_ca_227_ca_228_ca_229_a_certificate_that_does_not_match_is_an_incorrect_response(
    serve: Serve, shown: x509.Certificate, wrong: str
) -> None:
    validator = await serve(context(shown, OURS))

    with pytest.raises(IncorrectResponse) as raised:
        await validator.validate(challenge())

    asked = f"a.example port {validator.port} at 127.0.0.1, asked for a.example, showed a certificate "
    assert raised.value.detail.startswith(asked)
    assert wrong in raised.value.detail


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        (certificate("127.0.0.2"), 'for "127.0.0.2"; expected "127.0.0.1" alone'),
        (certificate(x509.DNSName("127.0.0.1")), 'for "127.0.0.1"; expected "127.0.0.1" alone'),
        (certificate("::ffff:127.0.0.1"), "expected"),
        (certificate("1.0.0.127.in-addr.arpa"), 'for "1.0.0.127.in-addr.arpa"; expected "127.0.0.1" alone'),
    ],
    ids=["another", "as a name", "inside IPv6", "reverse name"],
)
async def test_s131_ca_228_an_address_is_in_the_certificate_as_an_address(serve: Serve, shown: x509.Certificate, wrong: str) -> None:
    with pytest.raises(IncorrectResponse, match=f"asked for 1.0.0.127.in-addr.arpa, .*{wrong}"):
        await (await serve(context(shown, OURS))).validate(challenge(ADDRESS))


@pytest.mark.parametrize("protocols", [(), ("h2", "http/1.1"), ("acme-tls/1.1",)], ids=["none", "http", "another"])
async def test_s131_ca_226_ca_229_a_handshake_without_the_protocol_is_a_tls_failure(serve: Serve, protocols: Sequence[str]) -> None:
    validator = await serve(context(certificate("a.example"), *protocols))

    with pytest.raises(TlsFailure, match=f"^a.example port {validator.port} at 127.0.0.1"):
        await validator.validate(challenge())


async def test_s131_a_server_that_ignores_the_name_shows_the_certificate_of_another(serve: Serve) -> None:
    with pytest.raises(IncorrectResponse, match=r'for "a\.example"; expected "b\.example" alone'):
        await (await serve(right())).validate(challenge(Identifier("dns", "b.example")))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_s131_ca_226_an_old_version_of_tls_is_a_tls_failure(serve: Serve) -> None:
    tls = context(certificate("a.example"), OURS)
    tls.set_ciphers("ALL:@SECLEVEL=0")
    tls.minimum_version = tls.maximum_version = ssl.TLSVersion.TLSv1_1

    with pytest.raises(TlsFailure, match=r"a\.example port .* at 127\.0\.0\.1: closed before the handshake ended"):
        await (await serve(tls)).validate(challenge())


async def test_s131_a_certificate_of_a_megabyte_is_a_tls_failure(serve: Serve) -> None:
    with pytest.raises(TlsFailure, match="excessive message size"):
        await (await serve(context(certificate("a.example", more=1_000_000), OURS))).validate(challenge())


async def test_ca_229_who_is_not_there_is_a_connection_problem() -> None:
    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        validator = allowing_private(server.sockets[0].getsockname()[1])

    with pytest.raises(Unreachable, match=f"a.example port {validator.port}.*Connection refused"):
        await validator.validate(challenge())
    with pytest.raises(DnsFailure, match=r"silent\.example"):
        await validator.validate(challenge(Identifier("dns", "silent.example")))


async def test_ca_229_a_server_name_that_tls_cannot_send_is_a_tls_failure(serve: Serve) -> None:
    with pytest.raises(TlsFailure, match=r"a\.\.example"):
        await (await serve(right())).validate(challenge(Identifier("dns", "a..example")))


async def test_s122_a_private_address_is_not_asked_unless_the_setting_allows_it(serve: Serve) -> None:
    settings = TlsAlpnValidation(tls_alpn_validation_port=(await serve(right())).port)

    for identifier in (NAME, ADDRESS):
        with pytest.raises(IncorrectResponse, match=r"127\.0\.0\.1, which is not public"):
            await TlsAlpn01(FakeResolver(loopback=True), settings, Guard(), TorAccess()).validate(challenge(identifier))


GOOD = certificate("a.example").public_bytes(Encoding.DER)


def test_the_good_one_is_good() -> None:
    check(GOOD, NAME, DIGEST)


@pytest.mark.parametrize("noise", [b"", b"\x30\x80", GOOD[:-1], GOOD + b"\0"])
def test_s131_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(ValueError, match=r"^that cannot be read$"):
        check(noise, NAME, DIGEST)


class TestAnyCertificate(ParserContract):
    """S131."""

    valid = (GOOD,)
    refusals = ValueError
    costly = tuple(
        (one.public_bytes(Encoding.DER),)
        for one in (certificate(*["a.example"] * 1300), certificate(*["127.0.0.1"] * 2000), certificate("a.example", more=15_000))
    )

    def read(self, *parts: bytes) -> None:
        """It proves what it says, or it is refused."""
        check(parts[0], NAME, DIGEST)
        assert VALUE in parts[0]
        assert b"a.example" in parts[0].lower()


def test_wildcards_are_never_proven() -> None:
    assert not TlsAlpn01.wildcard  # RFC 8737 s3 proves one host


@pytest.mark.parametrize(("name", "offered"), [("a.example", True), ("onion.example", True), ("a.onion", False), ("b.a.onion", False)])
def test_onion_names_are_never_looked_up(name: str, offered: bool) -> None:
    assert allowing_private(443).offers(Identifier("dns", name)) is offered  # RFC 7686 s2
    tor = TorAccess(tor_connectivity_enabled=True)
    assert TlsAlpn01(FakeResolver(), TlsAlpnValidation(), Guard(), tor).offers(Identifier("dns", name))


async def test_an_onion_service_is_asked_by_tor(serve: Serve) -> None:
    onion = Identifier("dns", "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion")
    server = await serve(right(onion))
    async with FakeTor().served() as tor:
        tor.ports = {443: server.port}
        access = TorAccess(tor_connectivity_enabled=True, tor_socks_addr=f"127.0.0.1:{tor.port}")
        assert await TlsAlpn01(FakeResolver(), TlsAlpnValidation(), Guard(), access).validate(challenge(onion)) is VALID
    assert tor.asked == [(onion.value, 443)]


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ValueError, match=r"^tls_alpn_validation_port: "):
        TlsAlpnValidation(tls_alpn_validation_port=port)


def test_the_plugin_needs_the_resolver() -> None:
    assert [key.name for key in Plugin.requires] == ["resolver"]
