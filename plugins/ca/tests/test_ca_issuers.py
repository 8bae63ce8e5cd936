"""Issuers: each frames the content that the authority composes, and what it returns is held against the record."""

import hashlib
import sys
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from greatseal import der
from greatseal.api.issuance import CertificateRequest, Issuer, SerialTaken
from greatseal.api.problems import BadRequest, Internal, StartProblem, Unavailable
from greatseal.testing.distributions import install
from greatseal.testing.issuers import IssuerContract
from greatseal.testing.service import Kernel, document
from greatseal_ca.lint import check_returned

OTHERS = """
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from greatseal import der, hookimpl
from greatseal.api.identifiers import ExtensionIdentifier
from greatseal.api.issuance import Bounds, Frame, Issued, Issuer
from greatseal.api.problems import BadRequest, Unavailable

SECOND = 1_000_000
ALL = frozenset({"serial", "issuer", "algorithm", "validity", "subject", "extensions"})
PROOF = bytes.fromhex("300c060a2b0601040182da4b2f00")
LONG = Bounds(begin=0, end=4_102_444_800 * SECOND)


def name(value, oid=NameOID.COMMON_NAME):
    return x509.Name([x509.NameAttribute(oid, value)])


class Log(Issuer):
    "Merkle tree certificates in the form of draft-ietf-plants-merkle-tree-certs-05: the index in the log is the serial."
    issue_as = "mtc"
    changes = frozenset({"serial"})

    def __init__(self):
        self.queued, self.entries = {}, []

    def bounds(self, ca_id):
        return LONG

    def frame(self, request):
        log = name("32473.1.0.1", x509.ObjectIdentifier("1.3.6.1.4.1.44363.47.1"))
        return Frame(kid="log-1", issuer=log.public_bytes(), algorithm=PROOF, serial=None)

    def prepare(self, tx, draft):
        tx.after_commit(lambda: self.queued.update({draft.id: draft.tbs}))

    async def issue(self, prepared):
        if prepared.id not in self.entries:
            self.entries.append(prepared.id)
        version, _, *rest = der.children(prepared.tbs)
        serial = (1 << 48 | self.entries.index(prepared.id)).to_bytes(7)
        tbs = der.sequence(version, bytes((2, len(serial))) + serial, *rest)
        proof = b"proof for " + prepared.id.encode()
        whole = der.sequence(tbs, PROOF, der.bit_string(proof))
        return Issued(der=whole, chain=(), media_type="application/pkix-cert", serial=serial)

    async def settle(self, prepared):
        return await self.issue(prepared)

    def abandoned(self, tx, prepared):
        tx.after_commit(lambda: self.queued.pop(prepared.id, None))


class Pki:
    "The CA of somebody else: it gives subject, lifetime and extensions as it likes, and answers may get lost on the way."

    def __init__(self):
        self.key = ec.generate_private_key(ec.SECP384R1())
        self.enrolled, self.lost = {}, 0

    def enrol(self, id, request):
        csr = x509.load_der_x509_csr(request)
        now = datetime.now(UTC).replace(microsecond=0)
        builder = x509.CertificateBuilder(
            name("Other CA"), name("from the other CA"), csr.public_key(), x509.random_serial_number(), now, now + timedelta(days=7)
        )
        for one in csr.extensions:
            builder = builder.add_extension(one.value, critical=False)
        usages = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH])
        self.enrolled[id] = builder.add_extension(usages, critical=False).sign(self.key, hashes.SHA384()).public_bytes(Encoding.DER)
        if self.lost:
            self.lost -= 1
            raise Unavailable("the other CA does not answer")

    def find(self, id):
        return self.enrolled.get(id)


class RegistrationAuthority(Issuer):
    issue_as = "ra"
    changes = ALL

    def __init__(self):
        self.pki, self.requests = Pki(), {}

    def bounds(self, ca_id):
        return LONG

    def frame(self, request):
        if request.not_before is not None or request.not_after is not None:
            raise BadRequest("the other CA chooses the dates; leave notBefore and notAfter out")
        algorithm = bytes.fromhex("300a06082a8648ce3d040303")
        return Frame(kid="other", issuer=name("Other CA").public_bytes(), algorithm=algorithm, serial=None)

    def prepare(self, tx, draft):
        tx.after_commit(lambda: self.requests.update({draft.id: draft.request.csr.der}))

    async def issue(self, prepared):
        if self.pki.find(prepared.id) is None:
            self.pki.enrol(prepared.id, self.requests[prepared.id])
        found = self.pki.find(prepared.id)
        number = x509.load_der_x509_certificate(found).serial_number
        serial = number.to_bytes((number.bit_length() + 7) // 8)
        return Issued(der=found, chain=(), media_type="application/pem-certificate-chain", serial=serial)

    async def settle(self, prepared):
        return await self.issue(prepared)


class Bridge(Log):
    "An issuer that takes CA certificates."
    issue_as = "bridge"
    changes = frozenset()
    signs_cas = True
    key = ed25519.Ed25519PrivateKey.generate()

    def frame(self, request):
        algorithm = bytes.fromhex("300506032b6570")
        return Frame(kid="bridge", issuer=name("Bridge").public_bytes(), algorithm=algorithm, serial=bytes([0x41] * 16))

    async def issue(self, prepared):
        algorithm = der.children(prepared.tbs)[2]
        whole = der.sequence(prepared.tbs, algorithm, der.bit_string(self.key.sign(prepared.tbs)))
        return Issued(der=whole, chain=(), media_type="application/pkix-cert", serial=prepared.serial)


class Badge(ExtensionIdentifier):
    type = "badge"
    oid = x509.ObjectIdentifier("1.2.3.4")

    def canonical(self, value):
        return value

    def content(self, value):
        return bytes.fromhex(value)

    def of_content(self, content):
        return content.hex()

    def common_name(self, value):
        return value


class Plugin:
    @hookimpl
    def identifier_types(self):
        return [Badge()]

    @hookimpl
    def issuers(self, host):
        return [Log(), RegistrationAuthority(), Bridge()]
"""


@pytest.fixture
def others(tmp_path, monkeypatch):
    """The feature of a distribution that issues in other manners: ``mtc``, ``ra`` and ``bridge``."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return install(folder, "greatseal-others", OTHERS)


@pytest.fixture
def open_as(open_desk, others):
    """``await open_as("ra")``: the default profile is issued so."""

    async def start(issue_as, **sections):
        return await open_desk(others, profiles={"default": {"issue_as": issue_as}}, **sections)

    return start


def issuer_of(desk, issue_as):
    return desk.service.host("ca").components(Issuer)[issue_as]


class TestX509(IssuerContract):
    features = ("ca",)
    issue_as = "x509"


class OfOthers(IssuerContract):
    features = ("others",)

    @pytest.fixture(autouse=True)
    def installed(self, others):
        pass


class TestLog(OfOthers):
    issue_as = "mtc"


class TestRegistrationAuthority(OfOthers):
    issue_as = "ra"


# ---- Merkle tree certificates


async def test_entry_and_certificate_of_a_log_are_cut_from_one_record(open_as):
    desk = await open_as("mtc")
    draft = await desk.compose("a.example.com")
    prepared = await desk.db.write(desk.issuance.reserve, draft)
    assert (await desk.issuance.certificate(draft.id)).serial is None
    certificate = await desk.db.write(desk.issuance.record, prepared, await desk.issuance.issue(prepared))

    assert (certificate.serial, certificate.chain, certificate.media_type) == ((1 << 48).to_bytes(7), (), "application/pkix-cert")
    assert await desk.issuance.certificate(draft.id) == certificate
    leaf = x509.load_der_x509_certificate(certificate.der)
    entry = issuer_of(desk, "mtc").queued[draft.id]
    assert der.children(leaf.tbs_certificate_bytes)[2:] == der.children(entry)[2:]
    assert leaf.signature_algorithm_oid.dotted_string == "1.3.6.1.4.1.44363.47.0"
    assert leaf.issuer.rfc4514_string() == "1.3.6.1.4.1.44363.47.1=32473.1.0.1"
    plain = await (await open_as("x509")).leaf("a.example.com")
    of_the_frame = {x509.AuthorityKeyIdentifier, x509.AuthorityInformationAccess, x509.CRLDistributionPoints}
    assert [type(one.value) for one in leaf.extensions] == [
        type(one.value) for one in plain.extensions if type(one.value) not in of_the_frame
    ]


async def test_a_serial_is_of_one_issuer_alone(open_desk, others):
    desk = await open_desk(others, profiles={"default": {}, "bridge": {"issue_as": "bridge"}})
    issuer_of(desk, "x509").draw_serial = lambda: b"\x41" * 16
    first, second = await desk.certify("a.example.com"), await desk.certify("a.example.com", profile="bridge")

    assert first.serial == second.serial == b"\x41" * 16
    for profile in ("default", "bridge"):
        with pytest.raises(SerialTaken):
            await desk.certify("a.example.com", profile=profile)


async def test_an_issuer_is_told_what_is_abandoned(open_as):
    desk = await open_as("mtc")
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    assert list(issuer_of(desk, "mtc").queued) == [prepared.id]
    await desk.db.write(desk.issuance.abandon, prepared)
    await desk.db.write(desk.issuance.abandon, prepared)

    assert issuer_of(desk, "mtc").queued == {}
    assert (await desk.issuance.certificate(prepared.id)).status == "unknown"


async def test_a_ca_that_no_profile_signs_with_is_not_opened(open_as):
    desk = await open_as("mtc")
    service = desk.service.kernel

    assert service.hooks.instances["ca"].parts(desk.service.host("ca")).authorities.issuing == {}
    assert not (service.state_dir / "ca").exists()
    assert list(desk.issuance.profiles()) == ["default"]


def test_a_profile_needs_the_issuer_that_it_names(tmp_path, others):
    profiles = {"p": {"issue_as": "ra"}}
    Kernel(document(tmp_path, ["ca", others], profiles=profiles))

    with pytest.raises(StartProblem, match="no enabled plugin issues 'ra'"):
        Kernel(document(tmp_path, ["ca"], profiles=profiles))


# ---- In front of another CA


async def test_a_lost_answer_of_another_ca_is_one_certificate(open_as):
    desk = await open_as("ra")
    pki = issuer_of(desk, "ra").pki
    pki.lost = 1
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    with pytest.raises(Unavailable):
        await desk.issuance.issue(prepared)

    certificate = await desk.db.write(desk.issuance.record, prepared, await desk.issuance.settle(prepared))

    assert [certificate.der] == list(pki.enrolled.values())
    leaf = x509.load_der_x509_certificate(certificate.der)
    assert leaf.serial_number.to_bytes((leaf.serial_number.bit_length() + 7) // 8) == certificate.serial
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == timedelta(days=7)
    assert certificate.not_after == int(leaf.not_valid_after_utc.timestamp()) * 1_000_000
    assert (await desk.issuance.certificate(prepared.id)) == certificate


async def test_a_wish_that_the_issuer_cannot_grant_is_refused(open_as):
    desk = await open_as("ra")
    soon = int((datetime.now(UTC) + timedelta(days=2)).timestamp()) * 1_000_000

    with pytest.raises(BadRequest, match="the other CA chooses the dates"):
        await desk.compose("a.example.com", not_after=soon)


# ---- What comes back


def other_key(certificate):
    return certificate.public_key(ec.generate_private_key(ec.SECP256R1()).public_key())


def other_subject(certificate):
    return certificate.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "another")]))


def with_extensions(*values):
    def change(builder):
        for value in values:
            builder = builder.add_extension(value, critical=False)
        return builder

    return change


NAMES = x509.SubjectAlternativeName([x509.DNSName("a.example.com")])
USAGES = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH])
RETURNED = {
    "key": (other_key, with_extensions(NAMES, USAGES)),
    "names": (with_extensions(x509.SubjectAlternativeName([x509.DNSName("b.example.com")]), USAGES),),
    "more names": (with_extensions(x509.SubjectAlternativeName([*NAMES, x509.DNSName("b.example.com")]), USAGES),),
    "extended key usages": (with_extensions(NAMES, x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CODE_SIGNING])),),
    "no extended key usages": (with_extensions(NAMES),),
    "identifiers": (with_extensions(NAMES, USAGES, x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")),),
    "CA flag": (with_extensions(NAMES, USAGES, x509.BasicConstraints(ca=True, path_length=None)),),
}


async def returned(desk, *changes):
    """What an issuer that may change everything returned instead of the recorded certificate."""
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    now = datetime.now(UTC)
    key = x509.load_der_x509_csr(desk.make_csr("a.example.com")).public_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Other CA")])
    builder = x509.CertificateBuilder(name, name, key, 2**80, now, now)
    if other_key in changes:
        builder = x509.CertificateBuilder(name, name, None, 2**80, now, now)
    for change in changes:
        builder = change(builder)
    signed = builder.sign(issuer_of(desk, "ra").pki.key, hashes.SHA384())
    issuer_of(desk, "ra").pki.enrolled[prepared.id] = signed.public_bytes(Encoding.DER)
    return prepared


async def test_what_an_issuer_may_change_is_recorded(open_as):
    desk = await open_as("ra")

    assert await desk.issuance.settle(await returned(desk, with_extensions(NAMES, USAGES)))


@pytest.mark.parametrize("changes", RETURNED.values(), ids=RETURNED)
async def test_what_an_issuer_may_never_change_is_not_recorded(open_as, changes):
    desk = await open_as("ra")
    prepared = await returned(desk, *changes)

    for ask in (desk.issuance.issue, desk.issuance.settle):
        with pytest.raises(Internal) as refused:
            await ask(prepared)
        assert "issuer 'ra' returned another certificate than the recorded" in refused.value.cause
    assert (await desk.issuance.certificate(prepared.id)).status == "signing"


async def test_a_field_that_an_issuer_may_not_change_is_named(open_as):
    desk = await open_as("mtc")
    issuer = issuer_of(desk, "mtc")
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    issued = await desk.issuance.issue(prepared)
    other = await issuer.issue(await desk.db.write(desk.issuance.reserve, await desk.compose("b.example.com")))
    wrong = {
        "subject, extensions": other,
        "the serial that was told": msgspec.structs.replace(issued, serial=b"\x02"),
        "the algorithm beside": msgspec.structs.replace(issued, der=issued.der.replace(b"\xda\x4b\x2f\x00\x03", b"\xda\x4b\x2f\x01\x03")),
        "cannot be read": msgspec.structs.replace(issued, der=issued.der[:-1]),
        "the number of its fields": msgspec.structs.replace(issued, der=der.sequence(der.sequence(b"\x05\x00"), b"\x05\x00", b"\x05\x00")),
    }

    assert check_returned(issuer, prepared, issued, {}) == issued
    for words, returned in wrong.items():
        with pytest.raises(Internal) as refused:
            check_returned(issuer, prepared, returned, {})
        assert words in refused.value.cause


# ---- Cross-signing


def request_of_a_ca(desk, issue_as, path_length=0):
    """What a protocol that cross-signs asks for: a CA's key and subject under a profile of its own."""
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A CA elsewhere")])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA384())
    spki = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    plain = desk.request("a.example.com")
    profile = msgspec.structs.replace(plain.profile, id="cross", issue_as=issue_as, eku=(), path_length=path_length)
    asked = CertificateRequest(
        der=csr.public_bytes(Encoding.DER),
        spki=spki,
        spki_sha256=hashlib.sha256(spki).hexdigest(),
        public_key=key.public_key(),
        thumbprint=None,
        names=frozenset(),
        csr=csr,
    )
    return msgspec.structs.replace(plain, profile=profile, identifiers=(), csr=asked)


@pytest.mark.parametrize("issue_as", ["mtc", "x509"])
async def test_an_issuer_that_signs_no_cas_refuses_to_cross_sign(open_as, issue_as):
    desk = await open_as("x509")

    with pytest.raises(BadRequest, match=f"certificates of CAs are not issued as '{issue_as}'"):
        await desk.issuance.compose(request_of_a_ca(desk, issue_as))


async def test_a_ca_is_cross_signed_through_the_same_record(open_as):
    desk = await open_as("x509")
    prepared = await desk.db.write(desk.issuance.reserve, await desk.issuance.compose(request_of_a_ca(desk, "bridge", 2)))
    certificate = await desk.db.write(desk.issuance.record, prepared, await desk.issuance.issue(prepared))

    cross = x509.load_der_x509_certificate(certificate.der)
    sys.modules["greatseal_others"].Bridge.key.public_key().verify(cross.signature, cross.tbs_certificate_bytes)
    assert cross.subject.rfc4514_string() == "CN=A CA elsewhere"
    assert cross.extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(ca=True, path_length=2)
    assert cross.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert certificate.profile == "cross"
