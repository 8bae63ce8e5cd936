"""What profiles say of keys, subjects, policies and stapling, in certificates and against pkilint."""

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from greatseal.api.acme import AccountView, BadCsr, Identifier
from greatseal.api.issuance import Finalization, FinalizeCheck, ProvenIdentifier
from greatseal.api.problems import Internal
from greatseal_ca.lint import lint
from greatseal_ca.usages import certifies

KEYS = {
    "ec:P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ec:P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ec:P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "rsa:2048": lambda: rsa.generate_private_key(65537, 2048),
    "rsa:3072": lambda: rsa.generate_private_key(65537, 3072),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "ed448": ed448.Ed448PrivateKey.generate,
    "ml-dsa-44": mldsa.MLDSA44PrivateKey.generate,
    "ml-dsa-65": mldsa.MLDSA65PrivateKey.generate,
    "ml-dsa-87": mldsa.MLDSA87PrivateKey.generate,
}
OWN_HASH = ("ed25519", "ed448", "ml-dsa")
DV = "2.23.140.1.2.1"
STAPLE = (x509.TLSFeature([x509.TLSFeatureType.status_request]), False)


def csr_with(make_csr, key_type, *names, **more):
    plain = {"hash_alg": None} if key_type.startswith(OWN_HASH) else {}
    return make_csr(*names, key=KEYS[key_type](), **plain, **more)


def value_of(certificate, kind):
    found = [one.value for one in certificate.extensions if isinstance(one.value, kind)]
    return found[0] if found else None


def used(certificate) -> set[str]:
    usage = value_of(certificate, x509.KeyUsage)
    names = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
    )
    return {name for name in names if getattr(usage, name)}


# ---- Keys


def test_a_profile_without_key_types_certifies_all_and_rsa_stands_for_every_size():
    assert certifies((), "ed448")
    assert certifies(("rsa",), "rsa:4097")
    assert not certifies(("rsa:2048",), "rsa:4096")
    assert not certifies(("ec:P-256",), "ec:P-384")


@pytest.mark.parametrize("key_type", KEYS)
async def test_a_profile_certifies_keys_of_its_types_alone(open_desk, make_csr, key_type):
    desk = await open_desk(profiles={"only": {"key_types": [key_type]}, "others": {"key_types": [one for one in KEYS if one != key_type]}})
    csr = csr_with(make_csr, key_type, "a.example.com")

    assert await desk.leaf("a.example.com", csr=csr, profile="only")
    with pytest.raises(BadCsr, match=f"the key of the CSR is {key_type}; profile others certifies "):
        await desk.leaf("a.example.com", csr=csr, profile="others")


POSSIBLE = {
    "ec:P-256": {"digital_signature", "key_agreement"},
    "rsa:2048": {"digital_signature", "key_encipherment", "data_encipherment"},
    "ed25519": {"digital_signature"},
    "ml-dsa-44": {"digital_signature"},
}


@pytest.mark.parametrize(("key_type", "expected"), POSSIBLE.items())
async def test_keys_get_those_usages_of_the_profile_that_they_can_have(open_desk, make_csr, key_type, expected):
    usages = ["digitalSignature", "keyEncipherment", "dataEncipherment", "keyAgreement"]
    desk = await open_desk(profiles={"default": {"key_usage": usages}})

    assert used(await desk.leaf("a.example.com", csr=csr_with(make_csr, key_type, "a.example.com"))) == expected


async def test_a_key_that_can_have_no_usage_of_the_profile_is_refused(open_desk):
    desk = await open_desk(profiles={"default": {"key_usage": ["keyEncipherment"]}})

    with pytest.raises(BadCsr, match="is ec:P-256, which can have none of the key usages of profile default: keyEncipherment"):
        await desk.compose("a.example.com")


async def test_the_key_is_looked_at_with_the_csr_and_so_before_caa(open_desk, make_csr):
    desk = await open_desk(profiles={"default": {"key_types": ["rsa"]}})
    check = desk.service.host("ca").components(FinalizeCheck)["key-types"]
    assert check.phase == "csr"

    async def finalize(csr: bytes) -> None:
        await check.check(
            Finalization(
                order_id="o",
                profile=desk.issuance.profile(None),
                identifiers=(ProvenIdentifier(identifier=Identifier("dns", "a.example.com"), validated_by="http-01"),),
                account=AccountView(id="a", url="https://ca.example/acme/account/a", status="valid", thumbprint="x" * 43),
                csr=desk.issuance.read_csr(csr),
                ca_id="default",
                payload={},
            )
        )

    await finalize(csr_with(make_csr, "rsa:2048", "a.example.com"))
    with pytest.raises(BadCsr, match="the key of the CSR is ec:P-256; profile default certifies rsa"):
        await finalize(make_csr("a.example.com"))


# ---- Subject, policies, stapling


async def test_the_subject_is_what_the_profile_says(open_desk):
    fixed = {"subject_organization": "Example \u00c4G", "subject_country": "DE"}
    desk = await open_desk(profiles={"named": fixed, "fixed": {**fixed, "subject": "none"}, "none": {"subject": "none"}})
    subjects = {}
    for profile in ("named", "fixed", "none"):
        leaf = await desk.leaf("a.example.com", profile=profile)
        subjects[profile] = leaf.subject.rfc4514_string()
        san = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        assert san.critical is (profile == "none")

    assert subjects == {"named": "CN=a.example.com,O=Example \u00c4G,C=DE", "fixed": "O=Example \u00c4G,C=DE", "none": ""}


async def test_policies_are_claimed_in_their_order(open_desk, desk):
    configured = await open_desk(profiles={"default": {"policies": ["1.3.6.1.4.1.32473.1", DV]}})
    claimed = value_of(await configured.leaf("a.example.com"), x509.CertificatePolicies)

    assert [(one.policy_identifier.dotted_string, one.policy_qualifiers) for one in claimed] == [
        ("1.3.6.1.4.1.32473.1", None),
        (DV, None),
    ]
    assert value_of(await desk.leaf("a.example.com"), x509.CertificatePolicies) is None


@pytest.mark.parametrize(("says", "plain", "asked"), [("never", False, False), ("request", False, True), ("always", True, True)])
async def test_must_staple_is_the_profiles_and_the_request_asks_where_it_may(open_desk, make_csr, says, plain, asked):
    desk = await open_desk(profiles={"default": {"must_staple": says}}, ca={"ocsp_url": "http://ocsp.example.com/"})
    leaves = [
        await desk.leaf("a.example.com"),
        await desk.leaf("a.example.com", csr=make_csr("a.example.com", extensions=[STAPLE])),
    ]

    assert [value_of(leaf, x509.TLSFeature) is not None for leaf in leaves] == [plain, asked]


async def test_another_tls_feature_is_no_wish_to_staple(open_desk, make_csr):
    desk = await open_desk(profiles={"default": {"must_staple": "request"}}, ca={"ocsp_url": "http://ocsp.example.com/"})
    other = (x509.TLSFeature([x509.TLSFeatureType.status_request_v2]), False)

    assert value_of(await desk.leaf("a.example.com", csr=make_csr("a.example.com", extensions=[other])), x509.TLSFeature) is None


CHANGED = {
    "the profile does not certify keys": {"key_types": ("rsa",)},
    "keyUsage is another than": {"key_usage": ("digitalSignature", "keyAgreement")},
    "the policies are not": {"policies": (DV,)},
    "must-staple is not": {"must_staple": "always"},
    "the subject is not": {"subject_country": "DE"},
}


@pytest.mark.parametrize(("finding", "change"), CHANGED.items(), ids=CHANGED)
async def test_the_lint_holds_a_certificate_against_its_profile(desk, finding, change):
    tbs, meant = desk.composed("a.example.com")

    with pytest.raises(Internal) as refused:
        lint(tbs, msgspec.structs.replace(meant, own=msgspec.structs.replace(meant.own, **change)))
    assert finding in refused.value.cause


# ---- pkilint

PUBLIC = {"base_url": "https://ca.example.com"}
"""URLs with the host localhost are none, says pkilint."""
PROFILES = {
    "server": {},
    "client": {"eku": ["clientAuth"], "subject": "none"},
    "mail": {"eku": ["emailProtection"], "key_usage": ["digitalSignature", "keyEncipherment", "keyAgreement"]},
    "short": {"validity_days": 6, "subject": "none"},
    "organisation": {"subject_organization": "Example", "subject_country": "DE", "policies": ["1.3.6.1.4.1.32473.1"]},
}
ONION = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion"
NAMES = {"mail": "email/ann@example.com", "onion": ONION}


@pytest.mark.parametrize("key_type", KEYS)
async def test_pkilint_finds_no_error_under_any_profile_for_any_key(open_desk, make_csr, pkilint, key_type):
    desk = await open_desk(profiles={**PROFILES, "onion": {}}, server=PUBLIC)
    for profile in (*PROFILES, "onion"):
        name = NAMES.get(profile, "a.example.com")
        san = x509.RFC822Name("ann@example.com") if profile == "mail" else name
        certificate = await desk.certify(name, csr=csr_with(make_csr, key_type, san), profile=profile)
        der, issuing, root = certificate.der, *desk.authority().chain

        assert pkilint.certificate(der, errors=True) == [], profile
        assert pkilint.chain(der, issuing, root) == [], profile


@pytest.mark.parametrize("key_type", ["ec:P-256", "ec:P-384", "rsa:2048"])
@pytest.mark.parametrize("ca_key", ["ec:P-384", "rsa:3072"])
async def test_pkilint_finds_no_error_where_the_policy_of_the_forum_is_claimed(open_desk, make_csr, pkilint, key_type, ca_key):
    urls = {name: f"http://status.example.com/{name}" for name in ("crl_url", "ocsp_url", "issuer_url")}
    profile = {"policies": [DV], "key_types": ["rsa", "ec:P-256", "ec:P-384", "ec:P-521"], "validity_days": 90, "subject": "none"}
    desk = await open_desk(ca={"key_type": ca_key, **urls}, profiles={"public": profile}, server=PUBLIC)
    certificate = await desk.certify("a.example.com", "b.example.com", csr=csr_with(make_csr, key_type, "a.example.com", "b.example.com"))

    assert pkilint.serverauth(certificate.der, errors=True) == []
    assert list(value_of(x509.load_der_x509_certificate(certificate.der), x509.ExtendedKeyUsage)) == [ExtendedKeyUsageOID.SERVER_AUTH]


MAILBOX = {"multipurpose": "2.23.140.1.5.1.2", "strict": "2.23.140.1.5.1.3"}


async def test_pkilint_finds_nothing_where_a_mailbox_policy_of_the_forum_is_claimed(open_desk, make_csr, pkilint):
    urls = {name: f"http://status.example.com/{name}" for name in ("crl_url", "ocsp_url", "issuer_url")}
    usages, key_types = ["digitalSignature", "keyEncipherment", "keyAgreement"], ["rsa", "ec:P-256", "ec:P-384", "ed25519", "ed448"]
    mail = {"eku": ["emailProtection"], "subject": "none", "key_usage": usages, "key_types": key_types, "validity_days": 824}
    profiles = {generation: {**mail, "policies": [policy]} for generation, policy in MAILBOX.items()}
    profiles["legacy"] = {**mail, "policies": ["2.23.140.1.5.1.1"]}  # forbidden since 2025-07-15
    desk = await open_desk(ca=urls, profiles=profiles, server=PUBLIC)

    async def issued(profile: str, key_type: str) -> bytes:
        csr = csr_with(make_csr, key_type, x509.RFC822Name("ann@example.com"))
        return (await desk.certify("email/ann@example.com", csr=csr, profile=profile)).der

    for profile in MAILBOX:
        for key_type in ("ec:P-256", "ec:P-384", "rsa:2048", "ed25519", "ed448"):
            assert pkilint.smime(await issued(profile, key_type)) == [], (profile, key_type)
        assert pkilint.chain(await issued(profile, "rsa:2048"), *desk.authority().chain) == []
    assert pkilint.smime(await issued("legacy", "ec:P-256")) == ["cabf.smime.legacy_generation_certificate_issued_after_prohibition"]
