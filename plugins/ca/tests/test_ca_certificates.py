"""What stands in the certificates (reference: finalize pipeline and certificate content), held against pkilint too."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier
from cryptography.x509.verification import PolicyBuilder, Store

from greatseal.api.issuance import Bounds
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.testing import FakeClock
from greatseal_ca.validity import Window, public_cap

KEY_TYPES = ("ec:P-256", "ec:P-384", "rsa:2048", "rsa:3072", "ed25519", "ml-dsa-44", "ml-dsa-65", "ml-dsa-87")
DAY = 86_400


def value_of(certificate: x509.Certificate, kind: type):
    return certificate.extensions.get_extension_for_class(kind)


# ---- The leaf


async def test_a_certificate_has_the_fields_of_the_reference(desk):
    certificate = await desk.certify("a.example.com", "*.b.example.com")
    leaf, issuing, root = desk.chain(certificate)

    assert leaf.version is x509.Version.v3
    assert leaf.serial_number.bit_length() == 127
    assert leaf.serial_number.to_bytes(16) == certificate.serial
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == timedelta(days=90, seconds=-1)
    assert value_of(leaf, x509.BasicConstraints).critical
    assert value_of(leaf, x509.BasicConstraints).value == x509.BasicConstraints(ca=False, path_length=None)
    assert value_of(leaf, x509.KeyUsage).critical
    assert list(value_of(leaf, x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert list(value_of(leaf, x509.SubjectAlternativeName).value) == [x509.DNSName("a.example.com"), x509.DNSName("*.b.example.com")]
    assert not value_of(leaf, x509.SubjectAlternativeName).critical
    issuer_key = value_of(issuing, x509.SubjectKeyIdentifier).value.key_identifier
    assert value_of(leaf, x509.AuthorityKeyIdentifier).value.key_identifier == issuer_key
    assert len(leaf.extensions) == 8
    leaf.verify_directly_issued_by(issuing)
    issuing.verify_directly_issued_by(root)
    root.verify_directly_issued_by(root)


async def test_s137_the_wishes_of_a_csr_are_not_copied(desk, make_csr):
    wishes = [
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), True),
        (x509.KeyUsage(*[True] * 9), True),
        (x509.UnrecognizedExtension(ObjectIdentifier("1.2.3.4"), b"\x05\x00"), True),
        (x509.TLSFeature([x509.TLSFeatureType.status_request]), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
    ]
    plain = await desk.leaf("a.example.com")
    leaf = await desk.leaf("a.example.com", csr=make_csr("a.example.com", extensions=wishes))

    assert [(one.oid, one.critical, one.value) for one in leaf.extensions] == [
        (one.oid, one.critical, one.value) for one in plain.extensions
    ]


async def test_rsa_leaves_sign_only(desk, make_csr):
    leaf = await desk.leaf("a.example.com", csr=make_csr("a.example.com", key=rsa.generate_private_key(65537, 2048)))
    usage = value_of(leaf, x509.KeyUsage).value

    assert usage.digital_signature
    assert not usage.key_encipherment


LONG = f"{'a' * 60}.example.com"


async def test_ca_068_the_common_name_is_a_printable_string_where_it_can_be(desk):
    assert common_names(await desk.leaf("a.example.com")) == [(0x13, "a.example.com")]
    assert common_names(await desk.leaf("*.example.com")) == [(0x0C, "*.example.com")]


async def test_s140_a_name_that_is_too_long_is_left_out_of_the_subject(desk):
    leaf = await desk.leaf(LONG)

    assert leaf.subject.rdns == []
    assert value_of(leaf, x509.SubjectAlternativeName).critical
    assert common_names(await desk.leaf(LONG, "b.example.com")) == [(0x13, "b.example.com")]


async def test_the_subject_is_built_from_the_order_and_not_copied(desk, make_csr):
    assert common_names(await desk.leaf("a.example.com", csr=make_csr("a.example.com", cn="Alice Adams"))) == [(0x13, "a.example.com")]
    leaf = await desk.leaf("a.example.com", "b.example.com", csr=make_csr("a.example.com", cn="B.example.com"))
    assert common_names(leaf) == [(0x13, "b.example.com")]


async def test_addresses_are_certified_without_a_subject(desk, make_csr):
    leaf = await desk.leaf("ip/192.0.2.1", csr=make_csr(x509.IPAddress(ip_address("192.0.2.1"))))

    assert leaf.subject.rdns == []
    assert value_of(leaf, x509.SubjectAlternativeName).critical
    assert list(value_of(leaf, x509.SubjectAlternativeName).value) == [x509.IPAddress(ip_address("192.0.2.1"))]


def common_names(certificate: x509.Certificate) -> list[tuple[int, str]]:
    return [(one._type.value, one.value) for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]


def pointers_of(leaf: x509.Certificate) -> dict[str, str]:
    """The URLs in it, by what they are for."""
    access = {one.access_method._name: one.access_location.value for one in value_of(leaf, x509.AuthorityInformationAccess).value}
    lists = [one.value for one in leaf.extensions if isinstance(one.value, x509.CRLDistributionPoints)]
    urls = [name.value for points in lists for point in points for name in point.full_name]
    return access | dict.fromkeys(["crl"] if urls else [], *urls)


async def test_certificates_say_where_their_status_is_told(open_desk, desk):
    own = desk.service.url
    assert pointers_of(await desk.leaf("a.example.com")) == {
        "OCSP": f"{own}/ca/ocsp", "caIssuers": f"{own}/ca/cert", "crl": f"{own}/ca/crl",
    }  # fmt: skip

    urls = {"crl_url": "http://crl.example.com/ca.crl", "ocsp_url": "http://ocsp.example.com/"}
    profiles = {
        "inherits": {},
        "none": {"crl_url": "", "ocsp_url": ""},
        "other": {"crl_url": "http://other.example.com/crl", "ocsp_url": "http://other.example.com/ocsp"},
    }
    cas = [{"id": "one", "is_default": True, **urls}, {"id": "two"}, {"id": "three", "crl_url": "", "ocsp_url": ""}]
    desk = await open_desk(ca=cas, profiles=profiles)
    own = desk.service.url
    found = {
        (ca, profile): pointers_of(await desk.leaf("a.example.com", ca_id=ca, profile=profile))
        for ca in ("one", "two", "three")
        for profile in profiles
    }
    other = {"OCSP": "http://other.example.com/ocsp", "crl": "http://other.example.com/crl"}

    assert found == {
        ("one", "inherits"): {"OCSP": urls["ocsp_url"], "crl": urls["crl_url"], "caIssuers": f"{own}/ca/cert"},
        ("one", "none"): {"caIssuers": f"{own}/ca/cert"},
        ("one", "other"): {**other, "caIssuers": f"{own}/ca/cert"},
        ("two", "inherits"): {"OCSP": f"{own}/ca/two/ocsp", "crl": f"{own}/ca/two/crl", "caIssuers": f"{own}/ca/two/cert"},
        ("two", "none"): {"caIssuers": f"{own}/ca/two/cert"},
        ("two", "other"): {**other, "caIssuers": f"{own}/ca/two/cert"},
        ("three", "inherits"): {"caIssuers": f"{own}/ca/three/cert"},
        ("three", "none"): {"caIssuers": f"{own}/ca/three/cert"},
        ("three", "other"): {**other, "caIssuers": f"{own}/ca/three/cert"},
    }


async def test_ca_053_ca_054_a_profile_gives_lifetime_and_usages(open_desk):
    profiles = {"short": {"validity_days": 7, "eku": ["clientAuth", "1.2.3.4.5"]}, "bare": {"eku": []}}
    desk = await open_desk(ca={"validity_days": 30}, profiles=profiles)
    short, bare = await desk.leaf("a.example.com", profile="short"), await desk.leaf("a.example.com", profile="bare")

    assert short.not_valid_after_utc - short.not_valid_before_utc == timedelta(days=7, seconds=-1)
    assert list(value_of(short, x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH, ObjectIdentifier("1.2.3.4.5")]
    assert bare.not_valid_after_utc - bare.not_valid_before_utc == timedelta(days=30, seconds=-1)
    with pytest.raises(x509.ExtensionNotFound):
        value_of(bare, x509.ExtendedKeyUsage)


@pytest.mark.parametrize("key_type", KEY_TYPES)
async def test_every_key_type_issues_a_chain_that_verifies(open_desk, key_type):
    desk = await open_desk(ca={"key_type": key_type})
    leaf, issuing, root = desk.chain(await desk.certify("a.example.com"))

    leaf.verify_directly_issued_by(issuing)
    issuing.verify_directly_issued_by(root)
    root.verify_directly_issued_by(root)
    assert leaf.signature_algorithm_oid == issuing.signature_algorithm_oid == root.signature_algorithm_oid


@pytest.mark.parametrize(
    ("key_type", "hash_alg", "expected"),
    [
        ("ec:P-256", "sha256", "sha256"),
        ("ec:P-256", "sha512", "sha512"),
        ("ec:P-384", "sha256", "sha384"),
        ("rsa:2048", "sha384", "sha384"),
    ],
)
async def test_the_hash_is_the_configured_one_and_never_less_than_the_curve_asks_for(open_desk, key_type, hash_alg, expected):
    desk = await open_desk(ca={"key_type": key_type, "hash_alg": hash_alg})

    for certificate in desk.chain(await desk.certify("a.example.com")):
        assert certificate.signature_hash_algorithm.name == expected


# ---- CA certificates


async def test_ca_069_basic_constraints_of_ca_certificates_are_critical(desk):
    _, issuing, root = desk.chain(await desk.certify("a.example.com"))

    for certificate, path_length in ((issuing, 0), (root, None)):
        found = value_of(certificate, x509.BasicConstraints)
        assert found.critical
        assert found.value == x509.BasicConstraints(ca=True, path_length=path_length)
        usage = value_of(certificate, x509.KeyUsage)
        assert usage.critical
        assert usage.value.key_cert_sign
        assert usage.value.crl_sign
        assert not usage.value.digital_signature


async def test_a_relying_party_accepts_the_chain(desk):
    leaf, issuing, root = desk.chain(await desk.certify("a.example.com"))
    verifier = PolicyBuilder().store(Store([root])).time(datetime.now(UTC)).build_server_verifier(x509.DNSName("a.example.com"))

    assert len(verifier.verify(leaf, [issuing])) == 3


async def test_the_subjects_of_a_ca_are_the_configured_ones(open_desk):
    desk = await open_desk(ca={"common_name": "Example CA", "organization": "Example \u00c4G", "ca_validity_years": 5})
    _, issuing, root = desk.chain(await desk.certify("a.example.com"))

    assert issuing.subject.rfc4514_string() == "CN=Example CA,O=Example \u00c4G"
    assert root.subject.rfc4514_string() == "CN=Example CA Root,O=Example \u00c4G"
    assert root.not_valid_after_utc - root.not_valid_before_utc == timedelta(days=5 * 365, seconds=-1)
    assert issuing.not_valid_after_utc <= root.not_valid_after_utc


# ---- pkilint


PUBLIC = {"base_url": "https://ca.example.com"}
"""URLs with the host localhost are none, says pkilint."""


@pytest.mark.parametrize("key_type", ["ec:P-256", "ec:P-384", "rsa:2048", "ed25519"])
async def test_pkilint_finds_nothing_in_leaf_issuing_and_root(open_desk, pkilint, key_type):
    desk = await open_desk(ca={"key_type": key_type, "organization": "Example"}, server=PUBLIC)

    for certificate in desk.chain(await desk.certify("a.example.com", LONG)):
        assert pkilint.certificate(certificate.public_bytes(Encoding.DER)) == []


# A common name and a subject key identifier are allowed though not wished for; the rest is for those whom browsers trust. The URL of the
# issuer is that of the service, which is https.
BESIDE_PUBLIC_TRUST = [
    "cabf.serverauth.aia_location_uri_not_http",
    "cabf.serverauth.dv.common_name_attribute_present",
    "cabf.serverauth.subscriber.certificate_policies_extension_absent",
    "cabf.serverauth.subscriber.subject_key_identifier_extension_present",
]


async def test_pkilint_misses_only_what_public_cas_add(open_desk, pkilint):
    desk = await open_desk(ca={"crl_url": "http://crl.example.com/ca.crl", "ocsp_url": "http://ocsp.example.com/"}, server=PUBLIC)
    leaf = await desk.certify("a.example.com", "b.example.com")

    assert pkilint.serverauth(leaf.der) == BESIDE_PUBLIC_TRUST


# ---- Lifetimes


NOW = 1_790_000_000


def between(begin: int, end: int, *, capped: bool) -> Window:
    return Window(Bounds(begin=begin, end=end), capped=capped)


WINDOW = between((NOW - 100 * DAY) * SECOND, (NOW + 3650 * DAY) * SECOND, capped=False)
REFUSED_AT_ORDER = {
    "begins more than five minutes ago": (-301, None),
    "ends before it begins": (3600, 3600),
    "ended": (None, -1),
    "is longer than the profile": (0, 90 * DAY + 1),
    "outlives the issuer": (None, 3651 * DAY),
    "begins after the issuer": (3650 * DAY, None),
}


def moments(*offsets: int | None) -> list[int | None]:
    return [None if one is None else (NOW + one) * SECOND for one in offsets]


@pytest.mark.parametrize("wish", REFUSED_AT_ORDER.values(), ids=REFUSED_AT_ORDER)
def test_a_wish_that_cannot_be_granted_is_refused_when_the_order_is_made(wish):
    with pytest.raises(BadRequest):
        WINDOW.check(90, *moments(*wish), NOW * SECOND)


@pytest.mark.parametrize("wish", [(-299, None), (0, 90 * DAY), (None, 90 * DAY), (None, 1), (30 * DAY, 120 * DAY), (None, None)])
@pytest.mark.parametrize("later", [0, DAY // 2])
def test_what_was_granted_to_the_order_is_still_granted_half_a_day_later(wish, later):
    WINDOW.check(90, *moments(*wish), NOW * SECOND)

    if wish == (None, 1) and later:
        return
    begin, end = WINDOW.choose(90, *moments(*wish), (NOW + later) * SECOND)
    assert end - begin <= 90 * DAY * SECOND
    for asked, got in zip(moments(*wish), (begin, end), strict=True):
        assert asked in {None, got}


@pytest.mark.parametrize("wish", [(None, None), (-301, None), (None, DAY)])
def test_a_ca_that_ended_is_not_the_clients_fault(wish):
    ended = between((NOW - 100 * DAY) * SECOND, NOW * SECOND, capped=False)

    for step in (ended.check, ended.choose):
        with pytest.raises(Unavailable) as refused:
            step(90, *moments(*wish), NOW * SECOND)
        assert "2026-09-21" in refused.value.cause
        assert "2026" not in refused.value.detail


def test_a_certificate_never_outlives_its_issuer():
    window = between((NOW - DAY) * SECOND, (NOW + 10 * DAY) * SECOND, capped=False)

    assert window.choose(90, None, None, NOW * SECOND) == ((NOW - 3600) * SECOND, (NOW + 10 * DAY) * SECOND)


def test_a_certificate_does_not_begin_before_its_issuer():
    window = between((NOW - 60) * SECOND, (NOW + 3650 * DAY) * SECOND, capped=False)

    assert window.choose(90, None, None, NOW * SECOND)[0] == (NOW - 60) * SECOND


@pytest.mark.parametrize(("day", "days"), [("2026-03-14", 398), ("2026-03-15", 200), ("2027-03-15", 100), ("2029-03-15", 47)])
def test_the_cap_of_public_cas_follows_the_ballot(day, days):
    at = int(datetime.fromisoformat(f"{day}T00:00:00Z").timestamp()) * SECOND

    assert public_cap(at) == days
    assert between(0, 2 * at, capped=True).days(400, at) == days


async def test_dates_from_2050_on_are_written_as_such(open_desk, pkilint):
    desk = await open_desk(ca={"ca_validity_years": 40}, clock=FakeClock())
    _, _, root = desk.chain(await desk.certify("a.example.com"))

    assert root.not_valid_after_utc.year == 2065
    assert pkilint.certificate(root.public_bytes(Encoding.DER)) == []
