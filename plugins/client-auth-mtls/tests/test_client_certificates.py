"""Certificates as credentials, and as keys that tokens are bound to. Over TLS and behind a proxy: tests/system/test_mtls.py."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import msgspec
import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from greatseal.api.clients import Client, ClientMatch, ClientRequest, InvalidClient, InvalidClientMetadata, ProvenRequest, Registration
from greatseal.api.http import Parameters
from greatseal.api.problems import Problem, StartProblem
from greatseal.api.tokens import AccessToken
from greatseal.api.workload import TrustBundle
from greatseal.testing import FakeClock
from greatseal.testing.bindings import TokenBindingContract
from greatseal.testing.calls import FakeCall
from greatseal.testing.clients import ClientAuthMethodContract
from greatseal_client_auth_mtls import Plugin
from greatseal_client_auth_mtls.binding import CertificateBinding
from greatseal_client_auth_mtls.certificates import Authorities, read, thumbprint_of
from greatseal_client_auth_mtls.methods import SelfSignedTlsClientAuth, TlsClientAuth
from greatseal_client_auth_mtls.settings import MtlsSettings, Ways

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
KEY = ec.generate_private_key(ec.SECP256R1())
CLIENTS = [ExtendedKeyUsageOID.CLIENT_AUTH]
SERVERS = [ExtendedKeyUsageOID.SERVER_AUTH]


class Made:
    """A certificate with its key; without ``by`` it is its own issuer."""

    def __init__(self, name="client", *, by=None, ca=None, usage=None, key=None, begins=NOW - DAY, ends=NOW + DAY, **also):
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = by or self
        builder = x509.CertificateBuilder(issuer.name, self.name, self.key.public_key(), x509.random_serial_number(), begins, ends)
        if ca is not None:
            builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        if (signs := also.get("signs")) is not None:
            off = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign"), False)
            wide = x509.KeyUsage(digital_signature=True, key_cert_sign=signs, encipher_only=False, decipher_only=False, **off)
            builder = builder.add_extension(wide, critical=True)
        if spiffe := also.get("spiffe"):
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(spiffe)]), critical=True)
        if garbled := also.get("garbled"):
            builder = builder.add_extension(x509.UnrecognizedExtension(garbled, b"\x05"), critical=False)
        self.x509 = builder.sign(issuer.key, hashes.SHA256())
        self.der = self.x509.public_bytes(Encoding.DER)
        self.pem = self.x509.public_bytes(Encoding.PEM).decode()
        self.thumbprint = thumbprint_of(self.der)


CA = Made("CA", ca=True, signs=True)
OWN = Made(by=CA, usage=CLIENTS)
SELF = Made("self-signed", key=KEY)
RENEWED = Made("self-signed", key=KEY)  # the same subject and key


class BlockedKeys:
    def __init__(self):
        self.names = set()

    async def find(self, name):
        return SimpleNamespace(reason="leaked") if name in self.names else None


class Host:
    """Of a service with ``settings``."""

    def __init__(self, *settings):
        self.clock = FakeClock(int(NOW.timestamp()) * 1_000_000)
        self.blocked_keys = BlockedKeys()
        self._settings = {type(one): one for one in settings}
        self.bundles = {}

    def settings(self, struct):
        return self._settings[struct]

    def components(self, contract):
        return self.bundles if contract is TrustBundle else {}


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def ca_file(tmp_path):
    def write(*made):
        (tmp_path / "cas.pem").write_text("".join(one.pem for one in made))
        return tmp_path / "cas.pem"

    return write


@pytest.fixture
def by_ca(host, ca_file):
    return TlsClientAuth(host, Authorities(ca_file(CA)))


def client(method="tls_client_auth", made=OWN, **more):
    thumbprint = made and made.thumbprint
    return Client(client_id="c1", token_endpoint_auth_method=method, tls_client_certificate_sha256=thumbprint, more=more)


def registration(pem, method="tls_client_auth"):
    return Registration(client=client(method, None), open=False, tls_client_certificate=pem)


async def authenticate(method, der, by=None, **form):
    call = FakeCall("POST", "https://issuer.example/token")
    call.connection.certificate = der
    request = ClientRequest(call=call, form=Parameters({"client_id": "c1", **form}.items()), audiences=())
    credentials = method.credentials(request)
    return credentials and await method.verify(credentials, by or client(method.method))


class Bundle(TrustBundle):
    """Of one CA. Times are the caller's matter."""

    def __init__(self, domain, authority):
        self.name = domain
        self.authority = authority

    async def vouches(self, certificate, spiffe_id):
        found = x509.load_der_x509_certificate(certificate)
        try:
            found.verify_directly_issued_by(self.authority.x509)
        except (InvalidSignature, ValueError):
            return False
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return names.get_values_for_type(x509.UniformResourceIdentifier) == [spiffe_id]


class TestTlsClientAuth(ClientAuthMethodContract):
    refused = (registration(None), registration("x"), registration(SELF.pem))

    @pytest.fixture(autouse=True)
    def _file(self, ca_file):
        self.file = ca_file(CA)

    def method(self):
        return TlsClientAuth(Host(), Authorities(self.file))

    def client(self):
        return client()

    def send(self, call, form, *, right):
        form["client_id"] = "c1"
        call.connection.certificate = OWN.der if right else Made(by=CA).der


class TestSelfSignedTlsClientAuth(ClientAuthMethodContract):
    refused = (registration(None, "self_signed_tls_client_auth"),)

    def method(self):
        return SelfSignedTlsClientAuth(Host())

    def client(self):
        return client(self.method().method, SELF)

    def send(self, call, form, *, right):
        form["client_id"] = "c1"
        call.connection.certificate = SELF.der if right else RENEWED.der


class TestCertificateBinding(TokenBindingContract):
    asking = client("none", None, tls_client_certificate_bound_access_tokens=True)

    def binding(self):
        return CertificateBinding(Host())

    def prove(self, call, *, key, token=None):
        call.connection.certificate = (OWN, SELF)[key].der


# ---- What a registration may bring


def test_idp_038_idp_040_of_a_certificate_the_thumbprint_alone_is_kept(by_ca, host):
    for method, made in ((by_ca, OWN), (SelfSignedTlsClientAuth(host), SELF)):
        stored = method.check(registration(made.pem, method.method))

        assert stored == client(method.method, made)
        with pytest.raises(InvalidClientMetadata, match="must be given"):
            method.check(registration(None, method.method))


PRIVATE = OWN.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
WEAK = Made(key=rsa.generate_private_key(65537, 1024))
UNFIT = {
    "no PEM": ("x", "exactly one certificate"),
    "no ASCII": ("ä", "exactly one certificate"),
    "none": ("", "exactly one certificate"),
    "two": (OWN.pem + CA.pem, "exactly one certificate"),
    "broken DER": (f"-----BEGIN CERTIFICATE-----\n{b64encode(OWN.der[:-9]).decode()}\n-----END CERTIFICATE-----\n", "certificate"),
    "a private key": (OWN.pem + PRIVATE, "private key"),
    "a weak key": (WEAK.pem, "key is not accepted"),
    "expired": (Made(by=CA, begins=NOW - 2 * DAY, ends=NOW - DAY).pem, "expired"),
    "of the future": (Made(by=CA, begins=NOW + DAY, ends=NOW + 2 * DAY).pem, "not valid yet"),
}


@pytest.mark.parametrize(("pem", "said"), UNFIT.values(), ids=list(UNFIT))
def test_a_certificate_that_is_not_good_is_not_stored(by_ca, host, pem, said):
    for method in (by_ca, SelfSignedTlsClientAuth(host)):
        with pytest.raises(InvalidClientMetadata, match=f"tls_client_certificate: .*{said}"):
            method.check(registration(pem, method.method))


FOREIGN = Made("CA", ca=True)
UNISSUED = {
    "its own": SELF,
    "a CA of the same name": Made(by=FOREIGN),
    "another CA": Made(by=Made("other", ca=True)),
    "for servers": Made(by=CA, usage=SERVERS),
}


@pytest.mark.parametrize("made", UNISSUED.values(), ids=list(UNISSUED))
async def test_s058_what_no_ca_of_the_file_issued_for_clients_is_no_tls_client_auth(by_ca, made):
    with pytest.raises(InvalidClientMetadata, match="client_ca_file"):
        by_ca.check(registration(made.pem))
    with pytest.raises(InvalidClient):
        await authenticate(by_ca, made.der, client(made=made))


@pytest.mark.parametrize("usage", [None, CLIENTS, [ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE], [*SERVERS, *CLIENTS]])
async def test_a_certificate_for_clients_or_for_everything_is_good(by_ca, usage):
    made = Made(by=CA, usage=usage)

    assert (await authenticate(by_ca, made.der, client(made=made))).subject == "c1"


# ---- Who is proven


@pytest.mark.parametrize("made", [RENEWED, Made("self-signed"), OWN])
async def test_s058_another_certificate_of_the_same_subject_or_key_is_refused(host, made):
    method = SelfSignedTlsClientAuth(host)
    registered = client(method.method, SELF)
    assert await authenticate(method, SELF.der, registered)

    with pytest.raises(InvalidClient) as refused:
        await authenticate(method, made.der, registered)
    assert refused.value.detail == "the client or its credentials are not known"


@pytest.mark.parametrize("method", ["tls_client_auth", "self_signed_tls_client_auth"])
async def test_idp_051_r35_a_workload_is_its_client_by_the_bundle_of_its_own_domain(host, by_ca, method):
    authority = Made("domain", ca=True, signs=True)
    host.bundles = {"example.org": Bundle("example.org", authority), "other.example": Bundle("other.example", CA)}
    method = by_ca if method == by_ca.method else SelfSignedTlsClientAuth(host)
    mine = msgspec.structs.replace(client(method.method), spiffe_id="spiffe://example.org/web")
    svid = Made(by=authority, spiffe="spiffe://example.org/web")

    assert (await authenticate(method, svid.der, mine)).subject == "c1"
    assert await authenticate(method, svid.der, msgspec.structs.replace(mine, tls_client_certificate_sha256=None))
    host.blocked_keys.names.add(read(svid.der).key)
    for der, who in (
        (svid.der, mine),  # its key is blocked now
        (Made(by=authority, spiffe="spiffe://example.org/other").der, mine),
        (Made(by=CA, spiffe="spiffe://example.org/web").der, mine),
        (Made(by=authority, spiffe="spiffe://example.org/web", ends=NOW - DAY / 2).der, mine),
        (Made(by=authority, spiffe="spiffe://example.org/web").der, client(method.method)),
        (
            Made(by=authority, spiffe="spiffe://third.example/web").der,
            msgspec.structs.replace(mine, spiffe_id="spiffe://third.example/web"),
        ),
    ):
        with pytest.raises(InvalidClient):
            await authenticate(method, der, who)


async def test_without_client_id_or_certificate_nothing_was_sent(by_ca):
    assert await authenticate(by_ca, OWN.der, client_id="") is None
    assert await authenticate(by_ca, None) is None


async def test_a_certificate_is_good_from_its_begin_to_its_end(by_ca, host):
    host.clock.advance(86_400)
    assert await authenticate(by_ca, OWN.der)

    host.clock.advance(1)

    with pytest.raises(InvalidClient) as refused:
        await authenticate(by_ca, OWN.der)
    assert "expired" in refused.value.cause


async def test_a_ca_that_has_expired_or_was_taken_out_vouches_for_nobody(host, ca_file):
    old = Made("old", ca=True, begins=NOW - 2 * DAY, ends=NOW - DAY)
    authorities = Authorities(ca_file(CA, old))
    method, theirs = TlsClientAuth(host, authorities), Made(by=old)

    with pytest.raises(InvalidClient):
        await authenticate(method, theirs.der, client(made=theirs))
    assert await authenticate(method, OWN.der)
    ca_file(old)
    assert authorities.roots() == [old.der]
    with pytest.raises(InvalidClient):
        await authenticate(method, OWN.der)


async def test_a_blocked_key_is_refused(by_ca, host):
    host.blocked_keys.names.add(read(OWN.der).key)

    with pytest.raises(InvalidClient) as refused:
        await authenticate(by_ca, OWN.der)
    assert "blocked" in refused.value.cause


@pytest.mark.parametrize("der", [b"", b"0", b"junk" * 400, OWN.der[:-1], OWN.der + b"0"])
async def test_what_a_proxy_sends_that_is_no_certificate_is_refused(by_ca, host, der):
    binding, asking = CertificateBinding(host), client("none", None, tls_client_certificate_bound_access_tokens=True)

    with pytest.raises(InvalidClient):
        await authenticate(by_ca, der)
    with pytest.raises(Problem) as refused:
        await prove(binding, der, asking)
    assert (refused.value.status, refused.value.error) == (400, "invalid_request")
    with pytest.raises(Problem) as refused:
        await check(binding, der)
    assert (refused.value.status, refused.value.error) == (401, "invalid_token")


# ---- What tokens are bound to


async def prove(binding, der, asking):
    call = FakeCall("POST", "https://issuer.example/token")
    call.connection.certificate = der
    request = ProvenRequest(call=call, form=Parameters(()), client=asking, match=ClientMatch(subject="c1"))
    return await binding.prove(request) if binding.concerns(request) else None


async def check(binding, der):
    call = FakeCall("GET", "https://issuer.example/userinfo")
    call.connection.certificate = der
    cnf = {"x5t#S256": OWN.thumbprint}
    token = AccessToken(subject="ada", client_id="c1", scopes=frozenset(), expires_at=0, jti="t1", claims={"cnf": cnf})
    return await binding.check(call, "an-access-token", token, OWN.thumbprint)


def test_the_thumbprint_is_that_of_the_rfc():
    """RFC 8705 appendix A: the certificate, and the confirmation method of figure 2."""
    der = x509.load_pem_x509_certificate(RFC_8705.encode()).public_bytes(Encoding.DER)

    assert read(der).thumbprint == thumbprint_of(der) == "A4DtL2JmUMhAsvJj5tKyn64SqzmuXbMrJa0n761y5v0"


async def test_a_certificate_binds_nothing_for_a_client_that_did_not_ask(host):
    binding = CertificateBinding(host)

    assert await prove(binding, OWN.der, client()) is None
    assert await prove(binding, OWN.der, client(tls_client_certificate_bound_access_tokens=False)) is None
    assert await prove(binding, b"junk", client()) is None
    assert await prove(binding, None, client(tls_client_certificate_bound_access_tokens=True)) is None, "that it must is said elsewhere"


@pytest.mark.parametrize(("method", "refresh"), [("none", True), ("tls_client_auth", False), ("private_key_jwt", False)])
async def test_refresh_tokens_of_public_clients_alone_are_bound(host, method, refresh):
    proof = await prove(CertificateBinding(host), OWN.der, client(method, tls_client_certificate_bound_access_tokens=True))

    assert (proof.value, proof.access, proof.refresh) == (OWN.thumbprint, True, refresh)


async def test_a_token_goes_with_its_certificate_alone(host):
    binding = CertificateBinding(host)
    assert await check(binding, OWN.der) == ()

    for der, said in ((None, "none was shown"), (SELF.der, "another certificate")):
        with pytest.raises(Problem, match=said) as refused:
            await check(binding, der)
        assert refused.value.headers["WWW-Authenticate"].startswith('Bearer error="invalid_token"')


async def test_a_blocked_key_binds_no_token_and_opens_none(host):
    binding, asking = CertificateBinding(host), client("none", None, tls_client_certificate_bound_access_tokens=True)
    host.blocked_keys.names.add(read(OWN.der).key)

    for asked in (prove(binding, OWN.der, asking), check(binding, OWN.der)):
        with pytest.raises(Problem, match="blocked"):
            await asked


# ---- What the configuration must have


def assembled(file=None, proxies=(), tls=None):
    """What a plugin with these settings offers and says."""
    host, plugin = Host(MtlsSettings(client_ca_file=file), Ways(trusted_proxies=proxies, tls_cert_file=tls)), Plugin()
    return host, plugin, [one.method for one in plugin.client_auth_methods(host)], list(plugin.verify(host))


@pytest.mark.parametrize(
    ("given", "methods", "said"),
    [
        ((), [], ""),
        (("file",), ["tls_client_auth"], "no certificate arrives"),
        (("file", "tls"), ["tls_client_auth"], ""),
        (("file", "proxies"), ["tls_client_auth", "self_signed_tls_client_auth"], ""),
        (("proxies",), ["self_signed_tls_client_auth"], ""),
    ],
)
async def test_a_method_is_offered_where_a_certificate_can_arrive(ca_file, given, methods, said):
    host, plugin, offered, problems = assembled(
        ca_file(CA) if "file" in given else None, ("127.0.0.1/32",) if "proxies" in given else (), ca_file(CA) if "tls" in given else None
    )

    assert offered == methods
    assert said in "".join(problems)
    assert bool(problems) == bool(said)
    assert [one.roots() for one in plugin.client_trust(host)] == ([[CA.der]] if "file" in given else [])
    (health,) = plugin.checks(host)
    found = await health.run()
    assert found.ok
    assert all(method in found.detail for method in methods)


NO_CAS = {
    "no PEM": ("x", "expected one certificate or more in PEM"),
    "a certificate that says nothing of issuing": (SELF.pem, "no certificate of a CA"),
    "one that may not issue": (Made(ca=False).pem, "no certificate of a CA"),
    "a CA that may not sign": (Made(ca=True, signs=False).pem, "no certificate of a CA"),
}


@pytest.mark.parametrize(("text", "said"), NO_CAS.values(), ids=list(NO_CAS))
async def test_a_file_without_cas_stops_the_start(tmp_path, text, said):
    (tmp_path / "cas.pem").write_text(text)

    host, plugin, _, problems = assembled(tmp_path / "cas.pem", ("127.0.0.1/32",))

    assert len(problems) == 1
    assert said in problems[0]
    (health,) = plugin.checks(host)
    assert not (await health.run()).ok
    with pytest.raises(StartProblem, match="client_ca_file"):
        plugin.client_trust(host)[0].roots()


async def test_a_file_that_is_not_there_stops_the_start_and_a_ca_that_ended_is_told(tmp_path, ca_file):
    assert "cannot be read: No such file" in assembled(tmp_path / "none.pem", ("127.0.0.1/32",))[3][0]
    host, plugin, _, problems = assembled(ca_file(CA, Made("old", ca=True, begins=NOW - 2 * DAY, ends=NOW - DAY)), ("127.0.0.1/32",))
    (health,) = plugin.checks(host)
    found = await health.run()

    assert not problems
    assert (found.ok, found.cause) == (False, "CN=old")


async def test_extensions_that_cannot_be_read_say_nothing_good(host, ca_file, tmp_path):
    """An extension whose content is none: whatever it should have said, nobody may take it for leave."""
    garbled = Made("CA", ca=True, key=CA.key, garbled=x509.ObjectIdentifier("2.5.29.15"))
    assert len(assembled(ca_file(garbled), ("127.0.0.1/32",))[3]) == 1
    method, theirs = TlsClientAuth(host, Authorities(ca_file(CA))), Made(by=CA, garbled=x509.ObjectIdentifier("2.5.29.37"))

    with pytest.raises(InvalidClient):
        await authenticate(method, theirs.der, client(made=theirs))


RFC_8705 = """\
-----BEGIN CERTIFICATE-----
MIIBBjCBrAIBAjAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARtdGxzMB4XDTE4MTAx
ODEyMzcwOVoXDTIyMDUwMjEyMzcwOVowDzENMAsGA1UEAwwEbXRsczBZMBMGByqG
SM49AgEGCCqGSM49AwEHA0IABNcnyxwqV6hY8QnhxxzFQ03C7HKW9OylMbnQZjjJ
/Au08/coZwxS7LfA4vOLS9WuneIXhbGGWvsDSb0tH6IxLm8wCgYIKoZIzj0EAwID
SQAwRgIhAP0RC1E+vwJD/D1AGHGzuri+hlV/PpQEKTWUVeORWz83AiEA5x2eXZOV
bUlJSGQgjwD5vaUaKlLR50Q2DmFfQj1L+SY=
-----END CERTIFICATE-----
"""
